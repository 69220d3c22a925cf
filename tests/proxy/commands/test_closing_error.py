"""What a server says before it hangs up on a line at rest: heard by a client at rest, and obeyed by a stream."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from wire_peers import packet

from engine.model.errors import EngineError, StreamKilled
from mysql_wire import replies
from proxy.commands.connection import ClientConnection

KILLED = packet(replies.err_packet(0, 1927, "70100", "Connection was killed"))
TIMEOUT = packet(
    replies.err_packet(0, 4031, "HY000", "The client was disconnected by the server because of inactivity")
)


class Ends:
    """A subscription that remembers how it was ended."""

    def __init__(self) -> None:
        self.error: EngineError | None = None

    def end(self, error: EngineError) -> None:
        self.error = error


def connection(*, idle: bool, subscription: Ends | None) -> tuple[Any, list[bytes]]:
    written: list[bytes] = []
    made: Any = ClientConnection.__new__(ClientConnection)
    made.client = SimpleNamespace(
        idle=idle, write_framed=written.append, close=lambda: written.append(b"closed"), abort=lambda: None
    )
    made.session = SimpleNamespace(subscription=subscription)
    made._interrupt = None
    return made, written


@pytest.mark.parametrize("said", [KILLED, TIMEOUT])
async def test_client_at_rest_hears_it(said: bytes) -> None:
    client, written = connection(idle=True, subscription=None)
    client.on_closing_error(said)
    assert written == [said]


async def test_kill_at_the_server_ends_a_stream() -> None:
    stream = Ends()
    client, written = connection(idle=False, subscription=stream)
    client.on_closing_error(KILLED)
    assert isinstance(stream.error, StreamKilled) and client._killed
    assert written == []  # in the middle of its rows it would be taken for one; the stream says so itself


async def test_anything_else_leaves_a_stream_alone() -> None:
    stream = Ends()
    client, written = connection(idle=False, subscription=stream)
    client.on_closing_error(TIMEOUT)
    assert stream.error is None and written == []
