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


async def lazy_before(relay: Relay) -> LazyUpstream:
    """With the relay as its connection to the database."""
    opened = OpenUpstream(relay.upstream, 7, True, lambda: None)

    async def open_(client: Any, memory: Any) -> OpenUpstream:
        return opened

    owner = SimpleNamespace(limited=False)
    opener: Any = SimpleNamespace(open=open_, owner=owner, database="app")
    memory: Any = SimpleNamespace(status=2, was=lambda status: None, deferred=lambda *args: False)
    writer: Any = SimpleNamespace(capabilities=0, status=2)
    lazy = LazyUpstream(relay.stream, writer, opener, memory)
    lazy.attach(relay)
    return lazy


async def pinned(relay: Relay) -> LazyUpstream:
    """As `lazy_before`; it has left something on the connection."""
    lazy = await lazy_before(relay)
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


@pytest.mark.parametrize(
    ("sql", "pins"),
    [
        ("SET STATEMENT lock_wait_timeout = 1 FOR PREPARE queuegate_question FROM 'SELECT 1'", False),
        ("PREPARE queuegate_question FROM 'SELECT /*+ SET_VAR(lock_wait_timeout = 1) */ 1'", False),
        ("DEALLOCATE PREPARE queuegate_question", False),
        ("PREPARE queuegate_questions FROM 'SELECT 1'", True),
        ("SET @a = 1", True),
    ],
)
async def test_what_the_proxy_itself_leaves_on_a_connection(sql: str, pins: bool) -> None:
    relay = Relay(fast=True)
    lazy = await lazy_before(relay)
    asking = asyncio.create_task(lazy.collect(sql))
    await settle()
    relay.link.data_received(answer([ok()]))
    await asking
    assert lazy.connection_required is pins
    lazy._connection.release()
    relay.link.connection_lost(None)
    await settle()
    await lazy.close()
