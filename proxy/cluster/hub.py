"""Hub: the supervisor's end of all connections between workers. Forwards frames; reads only their headers.

Rules: nothing here ever waits. What a worker does not take is buffered up to `UNSENT_MAX_BYTES`; beyond that it is
dropped and replaced by LOST. A worker that sends something else than frames is disconnected, which ends it.
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
    """One worker's connection."""

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
    """See the module. `ready` is called with the number of a worker that reports that it accepts clients."""

    def __init__(self, selector: selectors.BaseSelector, ready: Callable[[int], None]) -> None:
        self._selector = selector
        self._ready = ready
        self._links: dict[int, WorkerLink] = {}

    def add(self, worker: int) -> socket.socket:
        """A connection for a new worker; returns its end."""
        supervisor_end, worker_end = socket.socketpair()
        for end in (supervisor_end, worker_end):
            end.setblocking(False)
        self._links[worker] = WorkerLink(supervisor_end)
        self._selector.register(supervisor_end, selectors.EVENT_READ, worker)
        return worker_end

    def announce_members(self) -> None:
        """Send all workers the list of workers, after it has changed."""
        self._put(encode(MessageKind.MEMBERS, SUPERVISOR, BROADCAST, sorted(self._links)), SUPERVISOR, BROADCAST)
        self._flush()

    def announce_lost(self) -> None:
        """A worker died, perhaps with unsent messages."""
        self._put(encode(MessageKind.LOST, SUPERVISOR, BROADCAST), SUPERVISOR, BROADCAST)
        self._flush()

    def remove(self, worker: int) -> None:
        """That worker has ended."""
        link = self._links.pop(worker, None)
        if link is not None:
            self._selector.unregister(link.sock)
            link.sock.close()

    def forget(self) -> None:
        """In a worker just forked: close the supervisor's ends, so that its death is seen at the worker's own end."""
        for link in self._links.values():
            link.sock.close()
        self._links.clear()

    def handle(self, worker: int, events: int) -> None:
        """A worker's connection can be read or written."""
        link = self._links.get(worker)
        if link is not None and events & selectors.EVENT_READ:
            self._read(worker, link)
        self._flush()

    def _read(self, worker: int, link: WorkerLink) -> None:
        try:
            data = link.sock.recv(_CHUNK_BYTES)
            for frame in link.framer.feed(data):
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
            self.remove(worker)  # it ends; its exit status has the reason

    def _pass_on(self, worker: int, frame: Frame) -> None:
        if frame.target == SUPERVISOR:
            if frame.kind == MessageKind.READY:
                self._ready(worker)
        else:
            self._put(frame.data, worker, frame.target)

    def _put(self, data: bytes, sender: int, target: int) -> None:
        for number, link in self._links.items():
            if number != sender and target in (BROADCAST, number):
                link.put(data)

    def _flush(self) -> None:
        """Send what waits, and where something is left, watch for room."""
        for worker, link in list(self._links.items()):
            try:
                link.flush()
            except OSError:
                self.remove(worker)
                continue
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.waiting else 0)
            if self._selector.get_key(link.sock).events != events:
                self._selector.modify(link.sock, events, worker)
