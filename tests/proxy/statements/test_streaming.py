"""stream_rows: a client that goes in mid-stream gives back what it has not acked, whenever it goes."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from mysql_mimic.types import ColumnType
from wire_peers import RecordingTransport, settle

from engine.delivery.subscription import Subscription
from engine.model.options import QueueOptions
from engine.model.queue import Batch, ColumnMeta, Message, QueueName, QueueSpec, SubscribeRequest
from mysql_wire.row_form import RowForm
from proxy.errors import StreamClosed
from proxy.statements.streaming import ClientDisconnected, SubscriptionCursor, stream_rows
from proxy.transport.answer_writer import AnswerWriter
from proxy.transport.client_output import FLUSH_BYTES
from proxy.transport.client_socket import ClientSocket

BODY = ColumnMeta("body", ColumnType.VARCHAR)
QUEUE = QueueSpec(QueueName("d", "q"), QueueOptions(), (BODY,), ("body",))


class Manager:
    """The queue's side of one subscription."""

    def __init__(self) -> None:
        self.given_back: list[bool] = []

    def on_waiting(self, subscription: Subscription) -> None: ...

    def on_ended(self, subscription: Subscription) -> None: ...

    async def on_closed(self, subscription: Subscription, *, release: bool) -> None:
        self.given_back.append(release)


class Times:
    """What time its messages have left; without any, they have enough."""

    def __init__(self, *seconds: float) -> None:
        self.seconds = seconds
        self.over: list[int] = []

    def unacked(self, subscription: Subscription) -> int:
        return 0

    def has_isolated_message(self, subscription: Subscription) -> bool:
        return False

    def seconds_left(self, batch: Batch) -> float:
        return min(self.seconds, default=math.inf)

    def drop_expired(self, holder: Subscription, batch: Batch) -> list[int]:
        over = [at for at, message in enumerate(batch.messages) if message.id in self.over]
        self.over = [id_ for id_ in self.over if id_ not in {batch.messages[at].id for at in over}]
        return over


async def streaming(
    *, reads: bool, times: Times | None = None
) -> tuple[ClientSocket, Subscription, Manager, asyncio.Task[None]]:
    """An endless stream that waits for its first message; its client takes what is written to it, or nothing."""
    client = ClientSocket(lambda met: None, max_packet_bytes=1000)
    transport: Any = RecordingTransport(client)
    client.connection_made(transport)
    manager = Manager()
    subscription = Subscription(QUEUE, SubscribeRequest(QUEUE.name), manager, times or Times())
    task = asyncio.create_task(stream_rows(subscription, AnswerWriter(client, 0), RowForm((BODY,), None, binary=False)))
    await settle()
    if not reads:
        written = client.writer
        assert written is not None

        def write(data: bytes | bytearray) -> None:
            written(data)
            client.pause_writing()

        client.writer = write
    return client, subscription, manager, task


def give(subscription: Subscription, *ids: int, body: bytes = b"text") -> None:
    subscription.deliver([Message(id_, 1, 50, 0, 0, (body + b"%d" % id_,)) for id_ in ids or (1,)])


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("first", ["batch", "goodbye"])
async def test_a_client_that_goes_as_a_batch_comes_gives_it_back(first, reads):
    """The stream has been given the batch, and has not begun to write it: nothing is stuck yet."""
    client, subscription, manager, task = await streaming(reads=reads)
    if first == "batch":
        give(subscription)
        client.eof_received()
    else:
        client.eof_received()
        give(subscription)
    with pytest.raises((ClientDisconnected, StreamClosed)):
        await asyncio.wait_for(task, 10)
    assert manager.given_back == [True]


async def test_a_client_that_goes_while_its_stream_is_stuck_gives_back():
    client, subscription, manager, task = await streaming(reads=False)
    give(subscription)
    await settle()
    assert client.stuck
    client.eof_received()
    with pytest.raises((ClientDisconnected, StreamClosed)):
        await asyncio.wait_for(task, 10)
    assert manager.given_back == [True]


async def ended(client: ClientSocket, task: asyncio.Task[None]) -> None:
    client.eof_received()
    with pytest.raises((ClientDisconnected, StreamClosed)):
        await asyncio.wait_for(task, 10)


async def test_rows_whose_lease_is_over_are_not_written():
    times = Times()
    times.over = [2]
    client, subscription, _, task = await streaming(reads=True, times=times)
    give(subscription, 1, 2, 3)
    await settle()
    written = bytes(client.transport.written)  # type: ignore[union-attr]
    assert b"text1" in written and b"text2" not in written and b"text3" in written
    assert subscription.sent == 2
    await ended(client, task)


async def test_what_follows_a_portion_is_looked_at_when_the_client_has_taken_it():
    times = Times()
    client, subscription, _, task = await streaming(reads=False, times=times)
    give(subscription, 1, 2, body=b"x" * FLUSH_BYTES)
    await settle()
    assert client.stuck
    times.over = [2]  # while the first is stuck
    client.resume_writing()
    await settle()
    written = bytes(client.transport.written)  # type: ignore[union-attr]
    assert written.count(b"x1") == 1 and b"x2" not in written
    await ended(client, task)


async def test_a_client_that_has_not_taken_its_rows_when_their_lease_ends_is_cut_off():
    client, subscription, manager, task = await streaming(reads=False, times=Times(0.01))
    give(subscription)
    with pytest.raises((ClientDisconnected, StreamClosed)):
        await asyncio.wait_for(task, 10)
    assert manager.given_back == [True] and client.transport.aborted  # type: ignore[union-attr]


async def test_a_cursor_fetches_nothing_whose_lease_is_over():
    times = Times()
    subscription = Subscription(QUEUE, SubscribeRequest(QUEUE.name), Manager(), times)
    cursor = SubscriptionCursor(subscription, RowForm((BODY,), None, binary=False))
    fetching = asyncio.create_task(cursor.fetch(1, client_that_stays()))
    await settle()
    give(subscription, 1, 2, 3)
    assert await asyncio.wait_for(fetching, 10) == ([b"\x05text1"], False)
    times.over = [2]
    assert await cursor.fetch(2, client_that_stays()) == ([b"\x05text3"], False)
    await cursor.close()


def client_that_stays() -> ClientSocket:
    client = ClientSocket(lambda met: None, max_packet_bytes=1000)
    client.connection_made(RecordingTransport(client))  # type: ignore[arg-type]
    return client
