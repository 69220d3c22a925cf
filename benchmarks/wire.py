"""The least client there is: PyMySQL logs in, then bytes go to and from the bare socket. It costs next to nothing per
byte, so what is measured is the way to the database.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from typing import Any

import pymysql

CHUNK_BYTES = 256 * 1024
PACKET_MAX = (1 << 24) - 1


class BareClient:
    """A logged-in connection whose packets are written and read by hand."""

    def __init__(self, connection: pymysql.Connection[Any]) -> None:
        self._connection = connection
        self.sock: socket.socket = connection._sock
        self._space = memoryview(bytearray(CHUNK_BYTES))

    def send(self, sql: str) -> None:
        """Send a statement; the answer is not waited for."""
        self.sock.sendall(query(sql))

    def send_until_stuck(self, packets: bytes, at_rest: Callable[[], bool]) -> memoryview:
        """Send until all is gone, or nobody takes more of it and, as `at_rest` says, will. What is left to send."""
        self.sock.setblocking(False)
        rest = memoryview(packets)
        while rest:
            try:
                rest = rest[self.sock.send(rest[: 1 << 20]) :]
            except BlockingIOError:
                if at_rest() and not select.select([], [self.sock], [], 0)[1]:
                    break
        return rest

    def read(self) -> memoryview:
        """Some bytes of the answer, valid until the next call."""
        size = self.sock.recv_into(self._space)
        if not size:
            raise ConnectionError("the line was closed in mid-answer")
        return self._space[:size]

    def stall(self, sql: str) -> bytes:
        """Send a statement, read the beginning of its answer, and then nothing more."""
        self.send(sql)
        return self.sock.recv(100)

    def read_packet(self) -> bytes:
        """One packet's payload."""
        header = self._exactly(4)
        return self._exactly(int.from_bytes(header[:3], "little"))

    def _exactly(self, wanted: int) -> bytes:
        data = b""
        while len(data) < wanted:
            data += (chunk := self.sock.recv(wanted - len(data)))
            if not chunk:
                raise ConnectionError("the line was closed in mid-answer")
        return data

    def read_exactly(self, wanted: int) -> None:
        """Read that many bytes and forget them."""
        while wanted > 0:
            size = self.sock.recv_into(self._space, min(wanted, CHUNK_BYTES))
            if not size:
                raise ConnectionError("the line was closed in mid-answer")
            wanted -= size

    def answer_bytes(self, sql: str, timeout: float = 0.2) -> int:
        """How long the answer to a statement is: everything until the server is silent."""
        self.send(sql)
        total = len(self.read())
        self.sock.settimeout(timeout)
        try:
            while True:
                total += len(self.read())
        except TimeoutError:
            return total
        finally:
            self.sock.settimeout(60)

    def close(self) -> None:
        """Say goodbye and hang up."""
        self._connection.close()

    def abandon(self) -> None:
        """Hang up without a word, as a client that died."""
        self._connection._force_close()


def query(sql: str) -> bytes:
    """A COM_QUERY, in as many packets as it takes."""
    payload = b"\x03" + sql.encode()
    packets = []
    for number, start in enumerate(range(0, len(payload) + 1, PACKET_MAX)):
        part = payload[start : start + PACKET_MAX]
        packets.append(len(part).to_bytes(3, "little") + bytes((number,)) + part)
    return b"".join(packets)
