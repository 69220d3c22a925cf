"""mode=tail: reads a topic, or what is enqueued in a queue, in the order of the ids, and takes nothing: no lease, no
ack, as many as like.

The offset is an id, so the ids must be AUTO_INCREMENT. How far may be read is decided in
spark_connector.streaming.tail. Messages that are scheduled for later, in flight or acked are read like all others;
those that were deleted before are not.
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

from spark_connector.client.connection import NOW_US, Client, placed
from spark_connector.client.queue import PURGE_AFTER, Queue, describe, queue_options
from spark_connector.client.reconnecting import ReconnectingClient
from spark_connector.client.topic_log import deleted_before, first_since, insist_on_order
from spark_connector.errors import ConnectorError, DataLossError, QueueError
from spark_connector.streaming.offsets import TailOffset, tail_offset
from spark_connector.streaming.pace import Pace
from spark_connector.streaming.pickled import PickledSource
from spark_connector.streaming.resumed import Statement, read
from spark_connector.streaming.sizes import Sizes
from spark_connector.streaming.tail import SETTLED_IDS, Horizon, Readable, Ripe, Row, bounds, gaps, readable
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
    bounds: tuple[int, ...]


@dataclass(frozen=True)
class _Look:
    """What a look found beyond an offset, and what of it may be read."""

    now: int
    rows: Sequence[Row]
    readable: Readable
    complete: bool  # there was no more


class TailSource(PickledSource):
    """A StreamSource; see the module."""

    def _forget(self) -> None:
        self._line = ReconnectingClient(self._options.address)
        self._queue: Queue | None = None
        self._first: TailOffset | None = None
        self._until: tuple[int, int] | None = None  # availableNow: no id beyond it, and when that was the largest (ns)
        self._planned: tuple[TailOffset, list[int]] | None = None  # the ids of the newest micro-batch
        self._caught_up: tuple[int, int] = (-1, 0)  # the offset at which there was nothing more, and when (ns)
        self._readable, self._waits = Readable(0), False  # of the last look
        self._at: int | None = None
        self._missing = 0
        self._pace = Pace()
        self._horizon = Horizon()
        self._given = -math.inf  # when the newest micro-batch was (seconds, the own clock)

    @property
    def max_messages(self) -> int:
        return self._options.max_messages

    def initial_offset(self) -> dict[str, Any]:
        if self._first is None:
            self._first = self._line.run(self._begin)
        return self._first.json()

    def latest_offset(self, start: dict[str, Any], most: int | None) -> dict[str, Any]:
        offset = tail_offset(start, self._place)
        self._at = offset.id
        patience = self._options.poll_timeout if self._until is None else max(self._options.poll_timeout, _AT_THE_END)
        for _ in self._pace.looks(patience):
            end = self._line.run(partial(self._next, offset, most))
            if end is not None:
                self._given = time.monotonic()
                self._at = end.id
                self._pace.found()
                return end.json()
            if self._until is not None and not self._waits:
                break
        return start

    def planned(self, end: dict[str, Any]) -> int:
        return tail_offset(end, self._place).count

    def report(self) -> dict[str, Any] | None:
        """Counts: committed messages that are not in a micro-batch yet, and ids that went missing, perhaps purged."""
        if self._at is None:
            return None
        try:
            known = self._until is None and self._caught_up[0] == self._at
            behind = 0 if known else self._line.run(self._behind)
        except ConnectorError as error:
            return {"queue": self._place, "error": str(error)}
        return {
            "queue": self._place,
            "id": self._at,
            "behind": behind,
            "waitingForId": self._readable.blocked_by,
            "missing": self._missing,
        }

    def prepare_available_now(self) -> None:
        self._until = self._line.run(self._end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        offset = tail_offset(end, self._place)
        if self._planned is None or self._planned[0] != offset:
            self._planned = offset, self._line.run(partial(self._again, offset))
        ids = self._planned[1]
        parts = bounds(offset.since, ids, self._options.num_partitions, self._options.fetch_size)
        queue = self._described()
        return [TailPart(queue, part) for part in parts]

    def read(self, part: TailPart) -> Iterator[pa.RecordBatch]:
        columns, table = select_list(part.queue, self._fields), placed(part.queue.name)
        sql = f"SELECT {columns}, id FROM {table} WHERE id > %s AND id <= %s ORDER BY id"
        statements = [Statement(sql, (), low, high) for low, high in pairwise(part.bounds)]
        return read(self._options, statements, self._fields)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept that would have to be let go."""

    def stop(self) -> None:
        self._line.close()

    # --- where the end is

    def _begin(self, client: Client) -> TailOffset:
        queue, starting = self._described(), self._options.starting
        largest = self._largest(client)
        if self._options.starting_time is not None:
            id_ = first_since(client, queue, self._options.starting_time, "startingTimestamp") - 1
        elif starting == "latest":
            id_ = self._end_of_order(client, largest) if queue.is_topic else largest
        elif starting == "earliest" and queue.is_topic:
            id_ = 0  # not the first that is visible: a smaller one may be on its way
        elif starting == "earliest":
            smallest = client.value(f"SELECT MIN(id) FROM {queue.quoted}")
            id_ = largest if smallest is None else int(smallest) - 1
        elif not queue.is_topic:
            id_ = starting
        elif starting > largest + 1:
            raise QueueError(
                f"option startingOffsets is {starting}, and the last message of {queue.called} is {largest}"
            )
        else:
            id_ = max(0, starting - 1)
        return TailOffset(self._place, id_, since=id_, count=_NOT_LOGGED, seen=client.now_ns(), history=largest)

    def _end_of_order(self, client: Client, largest: int) -> int:
        """The id after which a reader begins that is to read whatever is committed from now on: before the first of the
        last ids that is on its way, although some after it are committed already."""
        since = max(0, largest - SETTLED_IDS)
        sql = f"SELECT id FROM {self._described().quoted} WHERE id > {since}"
        committed = {int(row[0]) for row in client.rows(sql)}
        return min((id_ - 1 for id_ in self._there(client, since, largest) if id_ not in committed), default=largest)

    def _end(self, client: Client) -> tuple[int, int]:
        now = client.now_ns()
        return self._largest(client), now

    def _largest(self, client: Client) -> int:
        largest = int(client.value(f"SELECT COALESCE(MAX(id), 0) FROM {self._described().quoted}"))
        self._horizon.see(largest, time.monotonic_ns())
        return largest

    def _next(self, offset: TailOffset, most: int | None, client: Client) -> TailOffset | None:
        """Where the micro-batch after `offset` ends; None where there is nothing for one. Raises DataLossError."""
        seen = max(offset.seen, self._caught_up[1]) if self._caught_up[0] == offset.id else offset.seen
        settled = self._horizon.settled(time.monotonic_ns())  # before the look: what is seen later is not old enough
        if self._is_at_the_end(client, offset, seen):
            return replace(offset, count=0) if offset.count == _NOT_LOGGED else None
        rows: list[Row] = []
        while most is None or len(rows) < most:
            room = _LOOK_MAX if most is None else min(_LOOK_MAX, most - len(rows))
            at = rows[-1].id if rows else offset.id
            look = self._look(client, at, room, settled)
            rows.extend(look.rows[: look.readable.count])
            self._readable, self._waits = look.readable, look.readable.count < len(look.rows)
            if look.complete and not self._waits:
                known = look.now if self._until is None else self._until[1]
                self._caught_up = (rows[-1].id if rows else offset.id, known)
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
        self._check(client, offset, seen, rows, look.now)
        last = rows[-1]
        known = self._caught_up[1] if self._caught_up[0] == last.id else max(seen, last.created or 0)
        end = TailOffset(self._place, last.id, offset.id, len(rows), known, offset.history)
        self._planned = end, [row.id for row in rows]
        return end

    def _fitting(self, client: Client, rows: Sequence[Row], room: int) -> int:
        """How many of the messages have no more bytes than that; one at least."""
        return max(1, Sizes(self._described(), self._fields).fitting(client, [row.id for row in rows], room)[0])

    def _is_at_the_end(self, client: Client, offset: TailOffset, seen: int) -> bool:
        """Whether no id beyond the offset is committed: one cheap statement, which is all that an idle query sends."""
        table = self._described().quoted
        now, largest = client.rows(f"SELECT {NOW_US}, (SELECT MAX(id) FROM {table})")[0]
        self._horizon.see(int(largest or 0), time.monotonic_ns())
        if largest is not None and int(largest) > offset.id:
            return False
        if largest is not None and int(largest) < offset.id and self._described().is_topic:
            self._insist_on_the_same(client, offset, int(largest), seen)
        else:
            self._caught_up = (offset.id, int(now) * 1000 if self._until is None else self._until[1])
        self._readable, self._waits = Readable(0), False
        return True

    def _insist_on_the_same(self, client: Client, offset: TailOffset, largest: int, seen: int) -> None:
        """That a topic which ends before the offset is not another one of its name: its last message is then younger
        than what was read. Else its end was deleted, and it goes on beyond the offset. Raises QueueError."""
        made = client.row(f"SELECT time_created FROM {self._described().quoted} WHERE id = {largest}")
        if made is not None and int(made[0]) > seen + _NS:
            raise QueueError(
                f"the query has read {self._called} up to id {offset.id}, and now it ends with {largest}, a message"
                " that is younger: it is another topic of that name. Give the query a checkpointLocation of its own"
            )

    def _may_wait(self) -> bool:
        """Whether a micro-batch may wait for more messages."""
        return self._until is None and time.monotonic() - self._given < self._options.max_delay

    def _look(self, client: Client, since: int, most: int, settled: int) -> _Look:
        queue = self._described()
        created = "time_created" if queue.has("time_created") else "NULL"
        until = "" if self._until is None else f" AND id <= {self._until[0]}"
        now = client.now_ns()
        found = client.rows(
            f"SELECT id, {created} FROM {placed(queue.name)} WHERE id > %s{until} ORDER BY id LIMIT %s", (since, most)
        )
        rows = [Row(int(id_), None if made is None else int(made)) for id_, made in found]
        there = self._there(client, since, rows[-1].id) if rows else []
        ripe = Ripe(settled, self._horizon.largest, now)
        return _Look(now, rows, readable(since, rows, there, ripe), len(rows) < most)

    def _there(self, client: Client, since: int, until: int) -> list[int]:
        """The ids that exist, committed or not."""
        client.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
        try:
            sql = f"SELECT id FROM {placed(self._options.queue)} WHERE id > %s AND id <= %s"
            return [int(row[0]) for row in client.rows(sql, (since, until))]
        finally:
            client.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

    # --- what is missing

    def _check(self, client: Client, offset: TailOffset, seen: int, rows: Sequence[Row], now: int) -> None:
        if self._described().is_topic:
            if count := deleted_before(client, self._described(), offset.id, seen, now) if rows else 0:
                self._lost(
                    count,
                    f"the messages from id {offset.id + 1} to {offset.id + count} are not there any more ({count}, if"
                    " none of these ids was rolled back): they were deleted before this query read them",
                )
            return
        options = queue_options(client, self._options.queue)
        purged = now - int(float(options.get("vt_purge_after", PURGE_AFTER)) * _NS)
        found = [gap for gap in gaps(offset.id, seen, rows, purged) if gap.last > offset.history]
        if found:
            count = sum(gap.last - max(gap.first, offset.history + 1) + 1 for gap in found)
            self._lost(
                count,
                f"of the ids from {found[0].first} to {found[-1].last}, {count} are missing: messages that were purged"
                " before this query read them, or that never were (rolled back)",
            )

    def _again(self, offset: TailOffset, client: Client) -> list[int]:
        """The ids of a micro-batch that is repeated."""
        sql = f"SELECT id FROM {placed(self._options.queue)} WHERE id > %s AND id <= %s ORDER BY id"
        ids = [int(row[0]) for row in client.rows(sql, (offset.since, offset.id))]
        if missing := max(0, offset.count - len(ids)):
            self._lost(
                missing,
                f"{missing} messages of the micro-batch from id {offset.since + 1} to {offset.id}, which is repeated,"
                " were purged or deleted since it was planned",
            )
        return ids

    def _lost(self, count: int, what: str) -> None:
        self._missing += count
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{self._called}: {what}. To go on without them: failOnDataLoss=false")
        _log.warning("%s: %s; going on, as failOnDataLoss=false says", self._called, what)

    # --- the rest

    def _behind(self, client: Client) -> int:
        sql = f"SELECT COUNT(*) FROM (SELECT 1 FROM {placed(self._options.queue)} WHERE id > %s LIMIT %s) AS behind"
        return int(client.value(sql, (self._at, _COUNT_MAX)))

    @property
    def _place(self) -> str:
        return f"{self._options.address.database}.{self._options.queue}"

    @property
    def _called(self) -> str:
        return self._described().called

    def _described(self) -> Queue:
        if self._queue is None:
            queue = self._line.run(lambda client: describe(client, self._options.queue))
            _insist(queue)
            if queue.is_topic:
                self._line.run(insist_on_order)
            agree(queue, self._fields)
            self._queue = queue
        return self._queue


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
