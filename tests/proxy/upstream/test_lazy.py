"""LazyUpstream between a recorded client and a recorded server."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from relay_peers import BEGUN, Relay, answer, ok, settle
from wire_peers import packet

from mysql_wire.outcome import Outcome
from proxy.errors import StreamClosed
from proxy.upstream.lazy import LazyUpstream
from proxy.upstream.opener import OpenUpstream


async def pinned(relay: Relay) -> LazyUpstream:
    """With the relay as its connection to the database, on which it has left something."""
    opened = OpenUpstream(relay.upstream, 7, True, lambda: None)

    async def open_(client: Any, memory: Any) -> OpenUpstream:
        return opened

    owner = SimpleNamespace(limited=False)
    opener: Any = SimpleNamespace(open=open_, owner=owner, database="app")
    memory: Any = SimpleNamespace(status=2, was=lambda status: None, deferred=lambda *args: False)
    writer: Any = SimpleNamespace(capabilities=0, status=2)
    lazy = LazyUpstream(relay.stream, writer, opener, memory)
    lazy.attach(relay)
    relay.stream.seq = 1
    running = asyncio.create_task(lazy.command(b"\x03SELECT GET_LOCK('a', 1)"))
    await settle()
    relay.link.data_received(answer([ok()]))
    assert (await running).ok and relay.stream.fast_path is not None
    return lazy


async def test_how_the_last_command_of_a_client_that_went_has_ended_is_reported() -> None:
    relay = Relay(fast=True)
    lazy = await pinned(relay)
    reader = await relay.parked()
    relay.stream.data_received(packet(b"\x03INSERT INTO q VALUES (1)"))
    relay.stream.connection_lost(None)
    with pytest.raises(StreamClosed):
        await reader
    closing = asyncio.create_task(lazy.close())
    await settle()
    relay.link.data_received(answer([ok(affected_rows=1)]))
    await settle()
    assert relay.answers == [(3, Outcome(status=BEGUN, affected_rows=1))]
    relay.link.connection_lost(None)
    await closing


async def test_a_connection_that_is_lost_while_it_is_closed_is_no_loss() -> None:
    relay = Relay(fast=True)
    lazy = await pinned(relay)
    relay.stream.reset_seq()
    lazy._connection.release()
    relay.link.connection_lost(None)
    await settle()
    await lazy.close()
    assert relay.losses == []  # the session outlives its connection: its client's is not cut
