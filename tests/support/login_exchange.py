"""A login between a recorded client and a recorded server, packet by packet: for the suites that log in."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest
from wire_peers import RecordingTransport, packet, packets_of, settle

from mysql_wire.flags import CARRIED, COMPRESS
from mysql_wire.login import Credentials, encode_response
from proxy.errors import LoginFailed
from proxy.login.carried_login import LoginResult, carry_authentication
from proxy.transport.backend_socket import BackendSocket
from proxy.transport.client_socket import ClientSocket

OFFERED = 0x0FFFFFFF & CARRIED & ~COMPRESS  # what is written here is not compressed


def greeting(capabilities: int = 0xFFFFFFFE, *, extended: bytes = b"\x7f\x00\x00\x80") -> bytes:
    """As MariaDB sends it, with its extended capabilities; some of them nobody knows yet."""
    lower, upper = struct.pack("<H", capabilities & 0xFFFF), struct.pack("<H", capabilities >> 16)
    head = b"\x0a" + b"11.4-MariaDB\x00" + struct.pack("<I", 4711) + b"abcdefgh\x00"
    tail = b"\x15" + bytes(6) + extended + b"ijklmnopqrst\x00" + b"mysql_native_password\x00"
    return head + lower + b"\x2d" + b"\x02\x00" + upper + tail


class Exchange:
    """A login under way between a recorded client and a recorded server."""

    def __init__(self, **options: Any) -> None:
        self.stream = ClientSocket(lambda stream: None, max_packet_bytes=1000)
        self.client = RecordingTransport(self.stream)
        self.stream.connection_made(self.client)
        self.link = BackendSocket()
        self.server = RecordingTransport(self.link)
        self.link.connection_made(self.server)
        self.task: asyncio.Task[LoginResult] = asyncio.create_task(
            carry_authentication(self.stream, self.link, **options)
        )

    async def from_server(self, payload: bytes, seq: int) -> bytes:
        """The server says this; returns what the client is sent."""
        self.link.data_received(packet(payload, seq))
        await settle()
        return self.client.take()

    async def from_client(self, payload: bytes, seq: int) -> bytes:
        """The client says this; returns what the server is sent."""
        self.stream.data_received(packet(payload, seq))
        await settle()
        return self.server.take()

    async def begun(self) -> None:
        """Up to and with the client's response."""
        await self.from_server(greeting(), 0)
        response = encode_response(Credentials(b"root", b"x" * 20, None, b"mysql_native_password", OFFERED & ~8, 45))
        assert packets_of(await self.from_client(response, 1)) == [(1, response)]

    async def failed(self) -> LoginFailed:
        with pytest.raises(LoginFailed) as caught:
            await self.task
        assert self.server.aborted and self.stream.closed and self.link.closed
        return caught.value
