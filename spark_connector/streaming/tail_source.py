"""mode=tail: reads a topic, or the messages of a queue, in a fixed order, without leases and acks; any number of
queries may do so.

The offset is an id, or the number of a topic's message: an Order defines which, and how far may be read. Messages that
are scheduled for later, in flight or acked are read like all others; deleted ones are not.
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

from spark_connector.client.connection import Client, settings
from spark_connector.client.queue import PURGE_AFTER, Queue, describe
from spark_connector.client.reconnecting import ReconnectingClient
from spark_connector.client.topic_log import check_numbers, check_order
from spark_connector.errors import ConnectorError, DataLossError, QueueError
from spark_connector.streaming.by_id import ById
from spark_connector.streaming.by_number import ByNumber
from spark_connector.streaming.offsets import MicroBatch, TailOffset, tail_offset
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
_POLL_MAX = 100_000  # rows of one poll; a larger micro-batch needs several
_COUNT_MAX = 1_000_000  # a larger backlog is not counted
_NOT_LOGGED = -1  # the count of an initial offset that is not in the checkpoint yet
_SEEN_PER_PURGE = 8  # times that an idle query stores, within purge_after, that it has seen everything
_AT_THE_END = 1.0  # seconds that availableNow waits for uncommitted messages: longer than GRACE_NS
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "integer", "bigint")
_log = logging.getLogger("queuegate.spark")


@dataclass(frozen=True)
class TailPart:
    """What one task reads: from each bound to the next. It contains the driver's description of the queue."""

    queue: Queue
    settings: tuple[str, ...]  # initial statements of its connection
    bounds: tuple[int, ...]


class TailSource(PickledSource):
    """A StreamSource; see the module."""

    def _reset(self) -> None:
        self._connection = ReconnectingClient(self._options.address)
        self._order: Order | None = None
        self._first: TailOffset | None = None
        self._until: tuple[int, int] | None = None  # availableNow: the last offset, and its time (ns)
        self._planned: tuple[TailOffset, list[int]] | None = None  # the content of the newest micro-batch
        self._caught_up: tuple[int, int] = (-1, 0)  # the offset after which there was nothing, and when (ns)
        self._readable, self._waits = Readable(0), False  # of the last poll
        self._position: int | None = None
        self._missing = 0
        self._pace = Pace()
        self._last_batch_at = -math.inf  # when the newest micro-batch was planned (seconds, local clock)

    @property
    def max_messages(self) -> int:
        return self._options.max_messages

    def initial_offset(self) -> dict[str, Any]:
        if self._first is None:
            self._first = self._connection.run(self._begin)
        return self._first.json()

    def latest_offset(self, start: dict[str, Any], most: int | None) -> dict[str, Any]:
        offset = self._read(start)
        self._position = offset.at
        patience = self._options.poll_timeout if self._until is None else max(self._options.poll_timeout, _AT_THE_END)
        for _ in self._pace.polls(patience):
            end = self._connection.run(partial(self._next, offset, most))
            if end is not None:
                self._last_batch_at = time.monotonic()
                self._position = end.at
                self._pace.on_messages()
                return end.json()
            if self._until is not None and not self._waits:
                break
        return start

    def planned(self, end: dict[str, Any]) -> int:
        return tail_offset(end, self._full_name).count

    def report(self) -> dict[str, Any] | None:
        """Counts: committed messages that are not in a micro-batch yet, and missing ones."""
        if self._position is None:
            return None
        try:
            order = self._get_order()
            is_caught_up = self._until is None and self._caught_up[0] == self._position and not order.holds_back
            behind = (
                0
                if is_caught_up
                else self._connection.run(partial(order.behind, since=self._position, most=_COUNT_MAX))
            )
        except ConnectorError as error:
            return {"queue": self._full_name, "error": str(error)}
        return {
            "queue": self._full_name,
            order.by: self._position,
            "behind": behind,
            "waitingForId": self._readable.blocked_by,
            "missing": self._missing,
        }

    def prepare_available_now(self) -> None:
        now, largest = self._connection.run(self._get_order().end)
        self._until = largest or 0, now

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        offset = self._read(end)
        if self._planned is None or self._planned[0] != offset:
            self._planned = offset, self._connection.run(partial(self._repeated, offset))
        parts = bounds(offset.since, self._planned[1], self._options.num_partitions, self._options.fetch_size)
        order = self._get_order()
        return [TailPart(order.queue, order.settings, part) for part in parts]

    def read(self, part: TailPart, batch: MicroBatch | None = None) -> Iterator[pa.RecordBatch]:
        columns, by = select_list(part.queue, self._fields), part.queue.offset
        between = f"{by} > %s AND {by} <= %s ORDER BY {by}"
        sql = f"SELECT {columns}, {by} FROM {part.queue.escaped_log} WHERE {between}"
        statements = [Statement(sql, (), low, high) for low, high in pairwise(part.bounds)]
        return read(self._options, statements, self._fields, part.settings)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: there are no leases."""

    def stop(self) -> None:
        self._connection.close()

    # --- planning

    def _begin(self, client: Client) -> TailOffset:
        order = self._get_order()
        at, largest = order.begin(client, self._options.starting, self._options.starting_time)
        return TailOffset(self._full_name, at, at, _NOT_LOGGED, client.now_ns(), largest, order.by)

    def _next(self, offset: TailOffset, most: int | None, client: Client) -> TailOffset | None:
        """The end of the micro-batch after `offset`; None if there are no messages. Raises DataLossError."""
        order = self._get_order()
        seen = max(offset.seen, self._caught_up[1]) if self._caught_up[0] == offset.at else offset.seen
        if self._is_at_the_end(client, offset, seen):
            return _empty(offset, self._caught_up, self._get_queue())
        rows: list[Row] = []
        now = 0
        while most is None or len(rows) < most:
            limit = _POLL_MAX if most is None else min(_POLL_MAX, most - len(rows))
            at = rows[-1].at if rows else offset.at
            result = order.poll(client, at, limit, None if self._until is None else self._until[0])
            rows.extend(result.rows[: result.readable.count])
            now, self._readable, self._waits = result.now, result.readable, result.readable.count < len(result.rows)
            if result.complete and not self._waits:
                caught_up_ns = result.now if self._until is None else self._until[1]
                self._caught_up = (rows[-1].at if rows else offset.at, caught_up_ns)
            if result.complete or self._waits:
                break
        if not rows:
            return _empty(offset, self._caught_up, self._get_queue())
        if most is not None and self._may_wait() and len(rows) < self._options.min_messages:
            return None
        if most is not None and self._options.max_bytes is not None:
            rows = rows[: self._fitting(client, rows, self._options.max_bytes)]
        if loss := order.lost(client, offset, seen, rows, now):
            self._lost(loss.count, loss.what)
        last = rows[-1]
        # The latest time of the messages: with numbers it may not be that of the last message.
        created_ns = min(now, max(row.created or 0 for row in rows))
        caught_up_ns = self._caught_up[1] if self._caught_up[0] == last.at else max(seen, created_ns)
        end = TailOffset(self._full_name, last.at, offset.at, len(rows), caught_up_ns, offset.history, order.by)
        self._planned = end, [row.at for row in rows]
        return end

    def _fitting(self, client: Client, rows: Sequence[Row], max_bytes: int) -> int:
        """How many of the messages fit into `max_bytes`; at least one."""
        return max(1, Sizes(self._get_queue(), self._fields).fitting(client, [row.at for row in rows], max_bytes)[0])

    def _is_at_the_end(self, client: Client, offset: TailOffset, seen: int) -> bool:
        """Whether nothing after the offset is committed: mostly one statement, the only one of an idle query."""
        now, largest = self._get_order().end(client)
        if largest is not None and largest > offset.at:
            return False
        if largest is not None and largest < offset.at and self._get_queue().is_topic:
            self._check_same_topic(client, offset, largest, seen)
        else:
            self._caught_up = (offset.at, now if self._until is None else self._until[1])
        self._readable, self._waits = Readable(0), False
        return True

    def _check_same_topic(self, client: Client, offset: TailOffset, largest: int, seen: int) -> None:
        """If a topic ends before the offset: checks that it is not another topic of the same name, whose last message
        is younger than what was read. Otherwise its end was deleted, and it continues after the offset. Raises
        QueueError."""
        topic = self._get_queue()
        created_ns = client.row(f"SELECT time_created FROM {topic.quoted} WHERE {topic.offset} = {largest}")
        if created_ns is not None and int(created_ns[0]) > seen + _NS:
            raise QueueError(
                f"the query has read {topic.label} up to {offset.by} {offset.at}, and now it ends with {largest}, a"
                " message that is younger: it is another topic of that name. Give the query a checkpointLocation of its"
                " own"
            )

    def _may_wait(self) -> bool:
        """Whether a micro-batch may wait for more messages."""
        return self._until is None and time.monotonic() - self._last_batch_at < self._options.max_delay

    # --- missing messages

    def _repeated(self, offset: TailOffset, client: Client) -> list[int]:
        """The offsets of a micro-batch that is repeated."""
        queue = self._get_queue()
        between = f"{queue.offset} > {offset.since} AND {queue.offset} <= {offset.at} ORDER BY {queue.offset}"
        offsets = [int(row[0]) for row in client.rows(f"SELECT {queue.offset} FROM {queue.log} WHERE {between}")]
        if missing := max(0, offset.count - len(offsets)):
            self._lost(
                missing,
                f"{missing} messages of the micro-batch from {offset.by} {offset.since + 1} to {offset.at}, which is"
                " repeated, were purged or deleted since it was planned",
            )
        return offsets

    def _lost(self, count: int, what: str) -> None:
        self._missing += count
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{self._label}: {what}. To go on without them: failOnDataLoss=false")
        _log.warning("%s: %s; going on, as failOnDataLoss=false says", self._label, what)

    # --- helpers

    def _read(self, json: dict[str, Any]) -> TailOffset:
        """Parses an offset from Spark. Raises QueueError if it is from another queue, or of another kind."""
        offset, order = tail_offset(json, self._full_name), self._get_order()
        if offset.by == order.by:
            return offset
        has, says = ("numbers", "has no numbers") if offset.by == "number" else ("ids", "has numbers (sequence = 'on')")
        raise QueueError(
            f"the checkpoint holds {has} of messages, and {order.queue.label} {says} now: it was altered, or made"
            " anew, and the one says nothing of the other. Give this query a checkpointLocation of its own, and say by"
            " startingOffsets where it goes on"
        )

    @property
    def _full_name(self) -> str:
        return f"{self._options.address.database}.{self._options.queue}"

    @property
    def _label(self) -> str:
        return self._get_queue().label

    def _get_queue(self) -> Queue:
        return self._get_order().queue

    def _get_order(self) -> Order:
        if self._order is None:
            order = self._connection.run(self._find_order)
            self._connection.add(order.settings)
            self._order = order
        return self._order

    def _find_order(self, client: Client) -> Order:
        """The order in which the queue or topic is read. Raises QueueError if it has none."""
        queue = describe(client, self._options.queue)
        _check_ids(queue)
        check_numbers(queue)
        agree(queue, self._fields)
        if queue.sequenced:
            return ByNumber(queue, settings(client))
        check_order(client, queue)
        return ById(queue)


def _empty(offset: TailOffset, caught_up: tuple[int, int], queue: Queue) -> TailOffset | None:
    """The end of an empty micro-batch, which makes Spark log an offset; mostly None.

    A query starts with one: otherwise a restart would start at a later message. An idle query has one now and then:
    otherwise it would not know after a restart that it had seen everything.
    """
    if offset.count == _NOT_LOGGED:
        return replace(offset, count=0)
    at, seen = caught_up
    purge_after = float(queue.options.get("vt_purge_after", PURGE_AFTER))
    if at != offset.at or seen - offset.seen <= max(purge_after * _NS / _SEEN_PER_PURGE, _NS):
        return None
    return replace(offset, since=at, count=0, seen=seen)


def _check_ids(queue: Queue) -> None:
    """Checks that ids are ordered by time. Raises QueueError."""
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
