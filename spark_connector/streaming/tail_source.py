"""mode=tail: reads a topic, or what is enqueued in a queue, in one order, and takes nothing: no lease, no ack, as many
as like.

The offset is an id, or the number of a topic's message: an Order says which, and how far may be read. Messages that are
scheduled for later, in flight or acked are read like all others; those that were deleted before are not.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from spark_connector.client.cluster import settings
from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue, describe
from spark_connector.client.reconnecting import ReconnectingClient
from spark_connector.client.topic_log import insist_on_order
from spark_connector.client.topic_numbers import insist_on_numbers
from spark_connector.errors import ConnectorError, DataLossError, QueueError
from spark_connector.streaming.by_id import ById
from spark_connector.streaming.by_number import ByNumber
from spark_connector.streaming.micro_batch import MicroBatch
from spark_connector.streaming.offsets import TailOffset, tail_offset
from spark_connector.streaming.order import Order
from spark_connector.streaming.pace import Pace
from spark_connector.streaming.pickled import PickledSource
from spark_connector.streaming.resumed import Statement, read
from spark_connector.streaming.sizes import Sizes
from spark_connector.streaming.tail import Readable, Row, bounds
from spark_connector.values.arrow import agree, select_list

if TYPE_CHECKING:
    import pyarrow as pa

_NS = 1_000_000_000
_LOOK_MAX = 100_000  # rows of one look; a larger micro-batch takes several
_COUNT_MAX = 1_000_000  # a larger backlog is not counted
_NOT_LOGGED = -1  # the count of an offset that is where a query begins, and in no checkpoint yet
_AT_THE_END = 1.0  # seconds that availableNow waits for what is on its way: longer than a young gap stays young
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "integer", "bigint")
_log = logging.getLogger("queuegate.spark")


@dataclass(frozen=True)
class TailPart:
    """What one task reads: from each bound to the next. The driver knows the queue, so that not every task has to."""

    queue: Queue
    settings: tuple[str, ...]  # what its connection begins with
    bounds: tuple[int, ...]


class TailSource(PickledSource):
    """A StreamSource; see the module."""

    def _forget(self) -> None:
        self._line = ReconnectingClient(self._options.address)
        self._order: Order | None = None
        self._first: TailOffset | None = None
        self._until: tuple[int, int] | None = None  # availableNow: none beyond it, and when that was the last (ns)
        self._planned: tuple[TailOffset, list[int]] | None = None  # what the newest micro-batch has
        self._caught_up: tuple[int, int] = (-1, 0)  # the offset at which there was nothing more, and when (ns)
        self._readable, self._waits = Readable(0), False  # of the last look
        self._at: int | None = None
        self._missing = 0
        self._pace = Pace()
        self._given = -math.inf  # when the newest micro-batch was (seconds, the own clock)

    @property
    def max_messages(self) -> int:
        return self._options.max_messages

    def initial_offset(self) -> dict[str, Any]:
        if self._first is None:
            self._first = self._line.run(self._begin)
        return self._first.json()

    def latest_offset(self, start: dict[str, Any], most: int | None) -> dict[str, Any]:
        offset = self._read(start)
        self._at = offset.at
        patience = self._options.poll_timeout if self._until is None else max(self._options.poll_timeout, _AT_THE_END)
        for _ in self._pace.looks(patience):
            end = self._line.run(partial(self._next, offset, most))
            if end is not None:
                self._given = time.monotonic()
                self._at = end.at
                self._pace.found()
                return end.json()
            if self._until is not None and not self._waits:
                break
        return start

    def planned(self, end: dict[str, Any]) -> int:
        return tail_offset(end, self._place).count

    def report(self) -> dict[str, Any] | None:
        """Counts: committed messages that are not in a micro-batch yet, and those that went missing."""
        if self._at is None:
            return None
        try:
            order = self._ordered()
            known = self._until is None and self._caught_up[0] == self._at and not order.holds_back
            behind = 0 if known else self._line.run(partial(order.behind, since=self._at, most=_COUNT_MAX))
        except ConnectorError as error:
            return {"queue": self._place, "error": str(error)}
        return {
            "queue": self._place,
            order.by: self._at,
            "behind": behind,
            "waitingForId": self._readable.blocked_by,
            "missing": self._missing,
        }

    def prepare_available_now(self) -> None:
        now, largest = self._line.run(self._ordered().end)
        self._until = largest or 0, now

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        offset = self._read(end)
        if self._planned is None or self._planned[0] != offset:
            self._planned = offset, self._line.run(partial(self._again, offset))
        parts = bounds(offset.since, self._planned[1], self._options.num_partitions, self._options.fetch_size)
        order = self._ordered()
        return [TailPart(order.queue, order.settings, part) for part in parts]

    def read(self, part: TailPart, batch: MicroBatch | None = None) -> Iterator[pa.RecordBatch]:
        columns, by = select_list(part.queue, self._fields), part.queue.offset
        between = f"{by} > %s AND {by} <= %s ORDER BY {by}"
        sql = f"SELECT {columns}, {by} FROM {part.queue.placed_log} WHERE {between}"
        statements = [Statement(sql, (), low, high) for low, high in pairwise(part.bounds)]
        return read(self._options, statements, self._fields, part.settings)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept that would have to be let go."""

    def stop(self) -> None:
        self._line.close()

    # --- where the end is

    def _begin(self, client: Client) -> TailOffset:
        order = self._ordered()
        at, largest = order.begin(client, self._options.starting, self._options.starting_time)
        return TailOffset(self._place, at, at, _NOT_LOGGED, client.now_ns(), largest, order.by)

    def _next(self, offset: TailOffset, most: int | None, client: Client) -> TailOffset | None:
        """Where the micro-batch after `offset` ends; None where there is nothing for one. Raises DataLossError."""
        order = self._ordered()
        seen = max(offset.seen, self._caught_up[1]) if self._caught_up[0] == offset.at else offset.seen
        if self._is_at_the_end(client, offset, seen):
            return replace(offset, count=0) if offset.count == _NOT_LOGGED else None
        rows: list[Row] = []
        now = 0
        while most is None or len(rows) < most:
            room = _LOOK_MAX if most is None else min(_LOOK_MAX, most - len(rows))
            at = rows[-1].at if rows else offset.at
            look = order.look(client, at, room, None if self._until is None else self._until[0])
            rows.extend(look.rows[: look.readable.count])
            now, self._readable, self._waits = look.now, look.readable, look.readable.count < len(look.rows)
            if look.complete and not self._waits:
                known = look.now if self._until is None else self._until[1]
                self._caught_up = (rows[-1].at if rows else offset.at, known)
            if look.complete or self._waits:
                break
        if not rows:
            # Spark logs no offset as long as nothing comes, and a restart would begin at the then latest message: so
            # a query begins with an empty micro-batch, which has it logged.
            return replace(offset, count=0) if offset.count == _NOT_LOGGED else None
        if most is not None and self._may_wait() and len(rows) < self._options.min_messages:
            return None
        if most is not None and self._options.max_bytes is not None:
            rows = rows[: self._fitting(client, rows, self._options.max_bytes)]
        if loss := order.lost(client, offset, seen, rows, now):
            self._lost(loss.count, loss.what)
        last = rows[-1]
        # Of the times that the messages tell the latest: where they are numbered it may not be the last one's.
        made = min(now, max(row.created or 0 for row in rows))
        known = self._caught_up[1] if self._caught_up[0] == last.at else max(seen, made)
        end = TailOffset(self._place, last.at, offset.at, len(rows), known, offset.history, order.by)
        self._planned = end, [row.at for row in rows]
        return end

    def _fitting(self, client: Client, rows: Sequence[Row], room: int) -> int:
        """How many of the messages have no more bytes than that; one at least."""
        return max(1, Sizes(self._described(), self._fields).fitting(client, [row.at for row in rows], room)[0])

    def _is_at_the_end(self, client: Client, offset: TailOffset, seen: int) -> bool:
        """Whether nothing beyond the offset is committed: mostly one statement, which is all that an idle query
        sends."""
        now, largest = self._ordered().end(client)
        if largest is not None and largest > offset.at:
            return False
        if largest is not None and largest < offset.at and self._described().is_topic:
            self._insist_on_the_same(client, offset, largest, seen)
        else:
            self._caught_up = (offset.at, now if self._until is None else self._until[1])
        self._readable, self._waits = Readable(0), False
        return True

    def _insist_on_the_same(self, client: Client, offset: TailOffset, largest: int, seen: int) -> None:
        """That a topic which ends before the offset is not another one of its name: its last message is then younger
        than what was read. Else its end was deleted, and it goes on beyond the offset. Raises QueueError."""
        topic = self._described()
        made = client.row(f"SELECT time_created FROM {topic.quoted} WHERE {topic.offset} = {largest}")
        if made is not None and int(made[0]) > seen + _NS:
            raise QueueError(
                f"the query has read {topic.called} up to {offset.by} {offset.at}, and now it ends with {largest}, a"
                " message that is younger: it is another topic of that name. Give the query a checkpointLocation of its"
                " own"
            )

    def _may_wait(self) -> bool:
        """Whether a micro-batch may wait for more messages."""
        return self._until is None and time.monotonic() - self._given < self._options.max_delay

    # --- what is missing

    def _again(self, offset: TailOffset, client: Client) -> list[int]:
        """What a micro-batch has that is repeated."""
        queue = self._described()
        between = f"{queue.offset} > {offset.since} AND {queue.offset} <= {offset.at} ORDER BY {queue.offset}"
        found = [int(row[0]) for row in client.rows(f"SELECT {queue.offset} FROM {queue.log} WHERE {between}")]
        if missing := max(0, offset.count - len(found)):
            self._lost(
                missing,
                f"{missing} messages of the micro-batch from {offset.by} {offset.since + 1} to {offset.at}, which is"
                " repeated, were purged or deleted since it was planned",
            )
        return found

    def _lost(self, count: int, what: str) -> None:
        self._missing += count
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{self._called}: {what}. To go on without them: failOnDataLoss=false")
        _log.warning("%s: %s; going on, as failOnDataLoss=false says", self._called, what)

    # --- the rest

    def _read(self, json: dict[str, Any]) -> TailOffset:
        """An offset of Spark's. Raises QueueError where it is of another queue, or does not mean what is read by."""
        offset, order = tail_offset(json, self._place), self._ordered()
        if offset.by == order.by:
            return offset
        has, says = ("numbers", "has no numbers") if offset.by == "number" else ("ids", "has numbers (sequence = 'on')")
        raise QueueError(
            f"the checkpoint holds {has} of messages, and {order.queue.called} {says} now: it was altered, or made"
            " anew, and the one says nothing of the other. Give this query a checkpointLocation of its own, and say by"
            " startingOffsets where it goes on"
        )

    @property
    def _place(self) -> str:
        return f"{self._options.address.database}.{self._options.queue}"

    @property
    def _called(self) -> str:
        return self._described().called

    def _described(self) -> Queue:
        return self._ordered().queue

    def _ordered(self) -> Order:
        if self._order is None:
            order = self._line.run(self._find_order)
            self._line.add(order.settings)
            self._order = order
        return self._order

    def _find_order(self, client: Client) -> Order:
        """The order in which the queue or topic is read. Raises QueueError where it has none."""
        queue = describe(client, self._options.queue)
        _insist(queue)
        insist_on_numbers(queue)
        agree(queue, self._fields)
        if queue.sequenced:
            return ByNumber(queue, settings(client))
        insist_on_order(client, queue)
        return ById(queue)


def _insist(queue: Queue) -> None:
    """That ids tell an order of time."""
    if queue.topic is not None:
        raise QueueError(
            f"queue {queue.name} is that of a consumer group, which has what the group has not done yet: read topic"
            f" {queue.topic} with mode=tail"
        )
    id_ = queue.column("id")
    if id_.type.split("(")[0].split()[0].lower() not in _INTEGERS or not id_.auto:
        raise QueueError(
            f"mode=tail reads in the order of AUTO_INCREMENT ids, and the id of queue {queue.name} is"
            f" {id_.type}{'' if id_.auto else ' without AUTO_INCREMENT'}: read it with mode=queue"
        )
