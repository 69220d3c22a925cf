"""Hub: the supervisor's end of all lines between workers. Passes frames on; reads nothing of them but the header.

Rules: nothing here ever waits. What a worker does not take is kept up to `UNSENT_MAX_BYTES`; beyond that it is thrown
away and LOST put in its place. A worker that sends what is no frame is cut off, which ends it.
"""

from __future__ import annotations

import logging
import selectors
import socket
from collections import deque
from collections.abc import Callable

from proxy.cluster.messages import BROADCAST, SUPERVISOR, Frame, FrameError, Framer, MessageKind, encode

log = logging.getLogger(__name__)

UNSENT_MAX_BYTES = 8 << 20  # ten thousand streams of SHOW PROCESSLIST; of commits, half a minute at full load
_CHUNK_BYTES = 256 * 1024


class WorkerLink:
    """One worker's line."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.framer = Framer()
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0

    @property
    def waiting(self) -> bool:
        """Whether there is something that the worker has yet to take."""
        return bool(self._unsent)

    def put(self, data: bytes) -> None:
        """Have a frame sent, or, where too much waits already, LOST instead of all that waits."""
        if self._unsent_bytes + len(data) > UNSENT_MAX_BYTES:
            begun = self._unsent.popleft()  # it may have been sent in part
            self._unsent = deque((begun, encode(MessageKind.LOST, SUPERVISOR, BROADCAST)))
            self._unsent_bytes = sum(map(len, self._unsent))
            return
        self._unsent.append(data)
        self._unsent_bytes += len(data)

    def flush(self) -> None:
        """Send as much as the worker takes now. Raises OSError where it is gone."""
        while self._unsent:
            try:
                sent = self.sock.sendmsg(list(self._unsent)[:64])
            except BlockingIOError:
                return
            self._unsent_bytes -= sent
            while sent:
                first = self._unsent[0]
                if sent < len(first):
                    self._unsent[0] = first[sent:]
                    return
                sent -= len(self._unsent.popleft())


class Hub:
    """See the module. `ready` is called with the number of a worker that says it accepts clients."""

    def __init__(self, selector: selectors.BaseSelector, ready: Callable[[int], None]) -> None:
        self._selector = selector
        self._ready = ready
        self._lines: dict[int, WorkerLink] = {}

    def add(self, worker: int) -> socket.socket:
        """A line for a new worker; returns its end."""
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        self._lines[worker] = WorkerLink(ours)
        self._selector.register(ours, selectors.EVENT_READ, worker)
        return theirs

    def tell_members(self) -> None:
        """Tell everybody who is there, after that has changed."""
        self._put(encode(MessageKind.MEMBERS, SUPERVISOR, BROADCAST, sorted(self._lines)), SUPERVISOR, BROADCAST)
        self._flush()

    def tell_lost(self) -> None:
        """A worker died, perhaps with words unsaid."""
        self._put(encode(MessageKind.LOST, SUPERVISOR, BROADCAST), SUPERVISOR, BROADCAST)
        self._flush()

    def remove(self, worker: int) -> None:
        """That worker is gone."""
        line = self._lines.pop(worker, None)
        if line is not None:
            self._selector.unregister(line.sock)
            line.sock.close()

    def forget(self) -> None:
        """In a worker just forked: the supervisor's ends are not ours, and its death must show at our own."""
        for line in self._lines.values():
            line.sock.close()
        self._lines.clear()

    def handle(self, worker: int, events: int) -> None:
        """A worker's line can be read or written."""
        line = self._lines.get(worker)
        if line is not None and events & selectors.EVENT_READ:
            self._read(worker, line)
        self._flush()

    def _read(self, worker: int, line: WorkerLink) -> None:
        try:
            data = line.sock.recv(_CHUNK_BYTES)
            for frame in line.framer.feed(data):
                self._pass_on(worker, frame)
        except BlockingIOError:
            return
        except FrameError as error:
            log.error("worker does not speak as it should: %s", error, extra={"worker": worker})
            self.remove(worker)
            return
        except OSError:
            data = b""
        if not data:
            self.remove(worker)  # it ends; its exit says how

    def _pass_on(self, worker: int, frame: Frame) -> None:
        if frame.target == SUPERVISOR:
            if frame.kind == MessageKind.READY:
                self._ready(worker)
        else:
            self._put(frame.data, worker, frame.target)

    def _put(self, data: bytes, sender: int, target: int) -> None:
        for number, line in self._lines.items():
            if number != sender and target in (BROADCAST, number):
                line.put(data)

    def _flush(self) -> None:
        """Send what waits, and from now on hear of room where some is left."""
        for worker, line in list(self._lines.items()):
            try:
                line.flush()
            except OSError:
                self.remove(worker)
                continue
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.waiting else 0)
            if self._selector.get_key(line.sock).events != events:
                self._selector.modify(line.sock, events, worker)
