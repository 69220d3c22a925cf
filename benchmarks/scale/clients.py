"""What the clients are: a queue by the port of a proxy, and crowds of receivers that are a bare socket each."""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.queues.queuegate import GateQueue
from benchmarks.topics.crew import Work
from benchmarks.topics.logs import Lone
from benchmarks.wire import query

RATE = 200  # lone messages a second
PACE_SECONDS = 1 / RATE
WARM_UP = 20
_CHUNK_BYTES = 64 * 1024
_COLUMNS = 2  # of the stream
_EOF = 0xFE


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleQueue(GateQueue):
    """`receiver_port`: where a lone message is received, if not by the same proxy."""

    name: str = "queue"
    table: str = "scale_lone"
    receiver_port: int = 0

    def lone(self, group: str) -> Lone:
        there = replace(self, port=self.receiver_port or self.port)
        return replace(GateQueue.lone(there, group), commit=self.sender())


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd(ScaleQueue):
    """So many receivers in one process: one of this queue and the rest by turns of `others`, or all of this queue."""

    receivers: int
    others: Sequence[str] = ()

    def lone(self, group: str) -> Lone:
        rest = [self.others[n % len(self.others)] if self.others else self.table for n in range(self.receivers - 1)]
        arriving = Arriving([self.opened(table) for table in (self.table, *rest)])
        acks = self.executor()
        return Lone(lambda: None, self.sender(), arriving.next_id, lambda id_: acks(f"ACK {self.table} {id_}"))

    def opened(self, table: str) -> socket.socket:
        """A stream of that queue, its columns read. PyMySQL logs in, and leaves nothing behind but the socket."""
        connection: Any = self.connect()
        sock: socket.socket = connection._sock
        connection._rfile.close()
        connection._sock = connection._rfile = None
        sock.sendall(query(f"SELECT id, payload FROM STREAM {table}"))
        read = Packets()
        while read.count < _COLUMNS + 2:  # their number, they, and the packet that ends them
            if not (data := sock.recv(_CHUNK_BYTES)):
                raise ConnectionError(f"the stream of {table} was closed")
            for packet in read.whole(data):
                if packet[0] == 0xFF:
                    raise ConnectionError(packet[9:].decode())
        sock.settimeout(None)
        return sock


class Packets:
    """Packets out of what a socket gives, which may be parts of them."""

    def __init__(self) -> None:
        self.count = 0
        self._rest = b""

    def whole(self, data: bytes) -> list[bytes]:
        """The payloads that are complete now; the rest is kept."""
        data, found, at = self._rest + data, [], 0
        while len(data) - at >= 4 and len(data) - at - 4 >= (size := int.from_bytes(data[at : at + 3], "little")):
            found.append(data[at + 4 : at + 4 + size])
            at += 4 + size
        self._rest = data[at:]
        self.count += len(found)
        return found


class Arriving:
    """Messages at any of many streams. What nobody reads costs nothing: the kernel says where something has come."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self._sockets = {sock.fileno(): sock for sock in sockets}
        self._packets: dict[int, Packets] = {}
        self._come: deque[int] = deque()
        self._poll = select.epoll()
        for number in self._sockets:
            self._poll.register(number, select.EPOLLIN)

    def next_id(self) -> int:
        """Wait for a message; its id. Raises ConnectionError where a stream has ended."""
        while not self._come:
            for number, _ in self._poll.poll():
                if not (data := self._sockets[number].recv(_CHUNK_BYTES)):
                    raise ConnectionError("a stream was closed")
                self._come.extend(map(row_id, self._packets.setdefault(number, Packets()).whole(data)))
        return self._come.popleft()


def row_id(row: bytes) -> int:
    """The first column of a row, which is a number. Raises ConnectionError for the packet that ends a stream."""
    if row[0] >= _EOF:
        raise ConnectionError(f"a stream has ended: {row[1:].decode(errors='replace')}")
    return int(row[1 : 1 + row[0]])


def at(queues: Sequence[Any], number: int, work: Work, *job: Any) -> Generator[None, None, Any]:
    """The work of one of several clients, each of which has a queue by another proxy."""
    return (yield from work(queues[number % len(queues)], *job))
