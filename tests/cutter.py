"""A TCP proxy between queuegate and its database that fails at chosen moments: cuts, or goes on holding a dead line.

It can also hold a line still in the middle of a transaction, while the test has the proxy or the network fail itself.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Moment(Enum):
    """What becomes of the line on which a request appears that the rule picks."""

    CUT_BEFORE = "the server never gets it; both ends see the line end"
    CUT_AFTER = "the server gets it; nobody gets the answer"
    STALL_BEFORE = "the server never gets it; both ends see an open line on which nothing comes"
    STALL_AFTER = "the server gets it; its answer never comes"

    @property
    def passes(self) -> bool:
        return self in (Moment.CUT_AFTER, Moment.STALL_AFTER)

    @property
    def cuts(self) -> bool:
        return self in (Moment.CUT_BEFORE, Moment.CUT_AFTER)


_COMMIT, _ROLLBACK = b"COMMIT", b"ROLLBACK"


@dataclass(eq=False)
class _Hold:
    """A transaction that is to stand still: at the request that has all of these texts, or, where it `commits`, at the
    COMMIT after it on the same line. A transaction that ends otherwise is not the one."""

    texts: tuple[bytes, ...]
    without: bytes
    commits: bool
    fell: threading.Event = field(default_factory=threading.Event)

    def picks(self, data: bytes) -> bool:
        return all(text in data for text in self.texts) and not (self.without and self.without in data)


class _Line:
    """One client's connection and its own to the server."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.stalled = False
        self.answered = threading.Event()  # since it is stalled
        self.expecting: _Hold | None = None  # its COMMIT
        self.held: list[bytes] | None = None  # answers, while it stands still
        self.hold: _Hold | None = None  # why it does
        self.given_up = False

    def end(self) -> None:
        for end in (self.client, self.server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Cutter:
    """See the module. Everything passes until told otherwise."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        """`port`: the server's. `host`: where the clients are to find us."""
        self._to = port
        self._listener = socket.create_server((host, 0))
        self.port: int = self._listener.getsockname()[1]
        self._lines: list[_Line] = []
        self._picks: Callable[[bytes], bool] = lambda _: False
        self._moment = Moment.CUT_BEFORE
        self._left = 0
        self._holds: list[_Hold] = []
        self._dark = False
        self._lock = threading.Lock()
        self.fell = threading.Event()
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def _run(self, *target: Any) -> None:
        thread = threading.Thread(target=target[0], args=target[1:], daemon=True)
        self._threads.append(thread)
        thread.start()

    def arm(self, moment: Moment, text: bytes, *, without: bytes = b"", times: int = 1) -> None:
        """The next `times` requests that contain one text and not the other meet that moment."""
        with self._lock:
            self._picks = lambda data: text in data and not (without and without in data)
            self._moment, self._left = moment, times
            self.fell.clear()

    def hold(self, *texts: bytes, without: bytes = b"", commits: bool = False) -> threading.Event:
        """Have a line stand still, until `let_go`, once the server has got the next request that contains all of these
        texts; `commits`: once it has got the COMMIT after that. The event tells when."""
        hold = _Hold(texts, without, commits)
        with self._lock:
            self._holds.append(hold)
        return hold.fell

    def lost(self, fell: threading.Event) -> bool:
        """Whether a line that stood still has been given up by its client since."""
        return any(line.hold is not None and line.hold.fell is fell and line.given_up for line in self._lines)

    def let_go(self) -> None:
        """What the server has answered meanwhile on the lines that stood still is sent, and they go on."""
        with self._lock:
            self._holds = []
            for line in self._lines:
                line.expecting = None
                held, line.held = line.held, None
                if held:
                    self._send(line, b"".join(held))

    def stall(self) -> None:
        """From now on nothing passes on the lines that there are; new ones work."""
        for line in self._lines:
            line.stalled = True

    def go_dark(self) -> None:
        """From now on nothing passes, neither bytes nor the end of a line, as where the network is cut without a word.
        New lines come to nothing."""
        self._dark = True
        self.stall()

    def come_back(self) -> None:
        """The network is there again; what was cut off meets the ends of its lines."""
        self._dark = False
        self.cut()

    def cut(self) -> None:
        """End all lines."""
        for line in self._lines:
            line.end()

    def close(self) -> None:
        """End all lines, and leave neither a thread nor a socket behind."""
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes who waits in accept()
        self._threads[0].join(20)
        self.cut()
        for thread in self._threads[1:]:
            thread.join(20)
        for line in self._lines:
            line.client.close()
            line.server.close()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                client.close()
                continue
            line = _Line(client, server)
            line.stalled = self._dark
            self._lines.append(line)
            self._run(self._pump, line, client, server, True)
            self._run(self._pump, line, server, client, False)

    def _falls(self, data: bytes) -> Moment | None:
        with self._lock:
            if self._left and self._picks(data):
                self._left -= 1
                return self._moment
        return None

    def _stands_still(self, line: _Line, data: bytes) -> bool:
        """Whether the line is to stand still once the server has got this."""
        with self._lock:
            if _ROLLBACK in data:
                self._expect_anew(line)
            hold = line.expecting
            if hold is None:
                hold = next((one for one in self._holds if one.picks(data)), None)
                if hold is None:
                    return False
                self._holds.remove(hold)
            line.expecting = hold if hold.commits and _COMMIT not in data else None
            if line.expecting is None:
                line.held, line.hold = [], hold
                line.server.sendall(data)
                hold.fell.set()
                return True
            return False

    def _expect_anew(self, line: _Line) -> None:
        """The transaction ended without a COMMIT: the next that has the texts is waited for, on any line."""
        if line.expecting is not None:
            self._holds.append(line.expecting)
            line.expecting = None

    def _keeps(self, line: _Line, data: bytes) -> bool:
        """Whether an answer is kept, as its line stands still."""
        with self._lock:
            if line.held is None:
                return False
            line.held.append(data)
            return True

    @staticmethod
    def _send(line: _Line, data: bytes) -> None:
        try:
            line.client.sendall(data)
        except OSError:
            pass  # it has given up

    def _pump(self, line: _Line, source: socket.socket, target: socket.socket, requests: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                if self._stands_still(line, data) if requests else self._keeps(line, data):
                    continue
                moment = self._falls(data) if requests and not line.stalled else None
                if moment is not None:
                    line.stalled = True  # before the server can answer
                    if moment.passes:
                        target.sendall(data)
                    self.fell.set()
                    if moment.cuts:
                        if moment.passes:
                            line.answered.wait(5)  # what the server was asked is done, then
                        break
                elif not line.stalled:
                    target.sendall(data)
                elif not requests:
                    line.answered.set()
        except OSError:
            pass
        line.given_up |= requests
        with self._lock:
            self._expect_anew(line)
        if not self._dark and (not line.stalled or requests):
            line.end()
