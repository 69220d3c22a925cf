"""stream_rows: a client that goes in mid-stream gives back what it has not acked, whenever it goes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mysql_mimic.types import ColumnType
from wire_peers import RecordingTransport, settle

from engine.delivery.subscription import Subscription
from engine.model.options import QueueOptions
from engine.model.queue import ColumnMeta, Message, QueueName, QueueSpec, SubscribeRequest
from proxy.errors import StreamClosed
from proxy.statements.streaming import ClientGone, stream_rows
from proxy.transport.answer_writer import AnswerWriter
from proxy.transport.client_socket import ClientSocket
from proxy.wire.row_form import RowForm

BODY = ColumnMeta("body", ColumnType.VARCHAR)
QUEUE = QueueSpec(QueueName("d", "q"), QueueOptions(), (BODY,), ("body",))


class Manager:
    """The queue's side of one subscription."""

    def __init__(self) -> None:
        self.given_back: list[bool] = []

    def unacked(self, subscription: Subscription) -> int:
        return 0

    def wants(self, subscription: Subscription) -> None: ...

    def ended(self, subscription: Subscription) -> None: ...

    async def closed(self, subscription: Subscription, *, give_back: bool) -> None:
        self.given_back.append(give_back)


async def streaming(*, reads: bool) -> tuple[ClientSocket, Subscription, Manager, asyncio.Task[None]]:
    """An endless stream that waits for its first message; its client takes what is written to it, or nothing."""
    client = ClientSocket(lambda met: None, max_packet_bytes=1000)
    transport: Any = RecordingTransport(client)
    client.connection_made(transport)
    manager = Manager()
    subscription = Subscription(QUEUE, SubscribeRequest(QUEUE.name), manager)
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


def give(subscription: Subscription) -> None:
    subscription.give([Message(1, 1, 50, 0, 0, (b"text",))])


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
    with pytest.raises((ClientGone, StreamClosed)):
        await asyncio.wait_for(task, 10)
    assert manager.given_back == [True]


async def test_a_client_that_goes_while_its_stream_is_stuck_gives_back():
    client, subscription, manager, task = await streaming(reads=False)
    give(subscription)
    await settle()
    assert client.stuck
    client.eof_received()
    with pytest.raises((ClientGone, StreamClosed)):
        await asyncio.wait_for(task, 10)
    assert manager.given_back == [True]
