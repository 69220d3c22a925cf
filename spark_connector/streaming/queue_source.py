"""mode=queue: a streaming query as one of a queue's competing consumers.

A micro-batch is a claim (spark_connector.streaming.claims): leased in the queue's table and recorded in the
claims table in one transaction, before Spark gets it. Spark logs the claim's number, runs the micro-batch, logs that it
is done, and passes that number as the `start` of the next one: then its messages are acked. So at any time a message is
due, claimed, or acked, whatever process is killed:
- claimed but not logged by Spark: the next `latest_offset` finds the claim and returns it unchanged;
- logged but not done: Spark repeats the micro-batch, and reads the same messages from the claim;
- done but not acked: the next `latest_offset` acks it. Spark also calls `commit`, but later, and never for the last
  one;
- claimed by a query that is never restarted: the lease expires.
An old state of a checkpoint is refused (spark_connector.streaming.checkpoints).
Every transaction can be repeated if its outcome is unknown: it starts with a check.

A member of a topic's consumer group does the same with the group's queue. The proxy feeds that queue from the topic
when a receiver polls it; so its claims are made by the proxy's own delivery.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_connector.client.connection import Client, settings
from spark_connector.client.queue import Queue, describe, group_queue
from spark_connector.client.reconnecting import ReconnectingClient
from spark_connector.errors import QueueError
from spark_connector.streaming.checkpoints import Checkpoints
from spark_connector.streaming.claims import Claims, Run, cut
from spark_connector.streaming.consumer import Consumer
from spark_connector.streaming.offsets import MicroBatch, QueueOffset, queue_offset
from spark_connector.streaming.pickled import PickledSource
from spark_connector.streaming.resumed import Statement, read
from spark_connector.streaming.sizes import Sizes
from spark_connector.values.arrow import agree, select_list

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Part:
    """What one task reads. It contains the driver's description of the queue, so that tasks need no queries for it."""

    queue: Queue
    group: str
    settings: tuple[str, ...]  # initial statements of its connection
    runs: tuple[Run, ...]
    upto: int | None = None  # only in the first part: the last claim of the micro-batch, to be recorded as read


class QueueSource(PickledSource):
    """A StreamSource; see the module."""

    def _reset(self) -> None:
        self._connection = ReconnectingClient(self._options.address)
        self._queue: Queue | None = None
        self._settings: tuple[str, ...] = ()  # of a connection; known with the queue
        self._consumer: Consumer | None = None
        self._first: QueueOffset | None = None
        self._until: int | None = None  # ns; availableNow: only messages due then

    @property
    def max_messages(self) -> int:
        return self._options.max_messages

    def initial_offset(self) -> dict[str, Any]:
        if self._first is None:
            self._first = QueueOffset(self._full_name, f"{self._options.group_prefix}-{uuid.uuid4().hex[:16]}")
        return self._first.json()

    def latest_offset(self, start: dict[str, Any], most: int | None) -> dict[str, Any]:
        offset = queue_offset(start, self._full_name)
        upto = self._consumer_of(offset.group).advance(offset.seq, most, self._until)
        return replace(offset, seq=upto).json()

    def planned(self, end: dict[str, Any]) -> int:
        return self._consumer_of(queue_offset(end, self._full_name).group).claimed()

    def report(self) -> dict[str, Any] | None:
        return None if self._consumer is None else self._consumer.report()

    def prepare_available_now(self) -> None:
        self._until = self._connection.run(Client.now_ns)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        upto, after = queue_offset(end, self._full_name), queue_offset(start, self._full_name)
        since = (
            after.seq if after.group == upto.group else 0
        )  # before the first claim Spark may request several initial offsets, with different groups
        consumer = self._consumer_of(upto.group)
        runs = consumer.runs(since, upto.seq)
        queue = self._get_queue()
        return [
            Part(queue, upto.group, self._settings, part, upto.seq if index == 0 else None)
            for index, part in enumerate(cut(runs, self._options.num_partitions))
        ]

    def read(self, part: Part, batch: MicroBatch | None = None) -> Iterator[pa.RecordBatch]:
        noted = None
        if part.upto is not None:
            query, number = (batch.query, batch.number) if batch is not None else (None, None)
            noted = partial(Checkpoints(part.queue, part.group).note_read, upto=part.upto, query=query, batch=number)
        sql = Claims(part.queue, part.group).select(select_list(part.queue, self._fields, "q"))
        statements = [Statement(sql, (part.group, run.seq), run.first - 1, run.end - 1) for run in part.runs]
        return read(self._options, statements, self._fields, part.settings, noted)

    def commit(self, end: dict[str, Any]) -> None:
        offset = queue_offset(end, self._full_name)
        self._consumer_of(offset.group).settle(offset.seq)

    def stop(self) -> None:
        if self._consumer is not None:
            self._consumer.stop()
        self._connection.close()

    @property
    def _full_name(self) -> str:
        return f"{self._options.address.database}.{self._get_queue().name}"

    def _get_queue(self) -> Queue:
        if self._queue is None:
            self._settings = self._connection.run(settings)
            self._connection.add(self._settings)
            self._queue = self._connection.run(self._look_up)
        return self._queue

    def _look_up(self, client: Client) -> Queue:
        options = self._options
        if options.group is not None:
            return describe(client, group_queue(client, options.queue, options.group))
        queue = describe(client, options.queue)
        if queue.is_topic:
            raise QueueError(
                f"{queue.name} is a topic: read all of it with mode=tail, or what a consumer group has not done yet"
                " with option group"
            )
        return queue

    def _consumer_of(self, group: str) -> Consumer:
        if self._consumer is None or self._consumer.claims.group != group:
            queue = self._get_queue()
            agree(queue, self._fields)
            self.stop()
            self._consumer = Consumer(self._options, queue, group, self._connection, Sizes(queue, self._fields))
            self._consumer.start()
        return self._consumer
