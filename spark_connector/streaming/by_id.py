"""ById: mode=tail in the order of AUTO_INCREMENT ids, assigned by one server.

Ids are assigned before transactions commit. spark_connector.streaming.tail decides how far may be read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from spark_connector.client.connection import NOW_US, Client
from spark_connector.client.queue import PURGE_AFTER, Queue, queue_options
from spark_connector.client.topic_log import deleted_before, first_since
from spark_connector.streaming.offsets import By, TailOffset
from spark_connector.streaming.order import Loss, PollResult, Starting, offset_before
from spark_connector.streaming.tail import SETTLED_IDS, ClosedGaps, Horizon, Row, gaps, readable

_NS = 1_000_000_000


class ById:
    """An Order; see the module."""

    by: By = "id"
    settings: tuple[str, ...] = ()
    holds_back = False  # it only waits for uncommitted messages

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._horizon = Horizon()
        self._settled = 0

    def begin(self, client: Client, starting: Starting, time: int | None) -> tuple[int, int]:
        queue, largest = self.queue, self._largest(client)
        if time is not None:
            return first_since(client, queue, time, "startingTimestamp") - 1, largest
        if starting == "latest":
            return self._end_of_order(client, largest) if queue.is_topic else largest, largest
        if starting == "earliest" and queue.is_topic:
            return 0, largest  # not the first visible id: a smaller one may be uncommitted
        if starting == "earliest":
            smallest = client.value(f"SELECT MIN(id) FROM {queue.quoted}")
            return largest if smallest is None else int(smallest) - 1, largest
        return offset_before(queue, starting, largest) if queue.is_topic else starting, largest

    def end(self, client: Client) -> tuple[int, int | None]:
        self._settled = self._horizon.settled(
            time.monotonic_ns()
        )  # computed first: ids observed later are not old enough
        now, largest = client.rows(f"SELECT {NOW_US}, (SELECT MAX(id) FROM {self.queue.quoted})")[0]
        self._horizon.observe(int(largest or 0), time.monotonic_ns())
        return int(now) * 1000, None if largest is None else int(largest)

    def poll(self, client: Client, since: int, most: int, until: int | None) -> PollResult:
        created = "time_created" if self.queue.has("time_created") else "NULL"
        bound = "" if until is None else f" AND id <= {until}"
        now = client.now_ns()
        messages = client.rows(
            f"SELECT id, {created} FROM {self.queue.quoted} WHERE id > {since}{bound} ORDER BY id LIMIT {most}"
        )
        rows = [Row(int(id_), None if created_ns is None else int(created_ns)) for id_, created_ns in messages]
        existing = self._existing_ids(client, since, rows[-1].at) if rows else []
        closed_gaps = ClosedGaps(self._settled, self._horizon.largest, now)
        return PollResult(now, rows, readable(since, rows, existing, closed_gaps), len(rows) < most)

    def behind(self, client: Client, since: int, most: int) -> int:
        beyond = f"SELECT 1 FROM {self.queue.quoted} WHERE id > {since} LIMIT {most}"
        return int(client.value(f"SELECT COUNT(*) FROM ({beyond}) AS behind"))

    def lost(self, client: Client, offset: TailOffset, seen: int, rows: Sequence[Row], now: int) -> Loss | None:
        if offset.at == 0 and (self.queue.is_topic or not offset.history):
            return None  # nothing was read yet: the first id is unknown, of a queue where it was empty at the start
        if self.queue.is_topic:
            return self._deleted(client, offset, seen, now)
        return self._purged(client, offset, seen, rows, now)

    def _largest(self, client: Client) -> int:
        largest = int(client.value(f"SELECT COALESCE(MAX(id), 0) FROM {self.queue.quoted}"))
        self._horizon.observe(largest, time.monotonic_ns())
        return largest

    def _end_of_order(self, client: Client, largest: int) -> int:
        """The id after which a reader starts that must read everything committed from now on: before the first
        uncommitted one of the last ids, although some after it are committed already."""
        since = max(0, largest - SETTLED_IDS)
        committed = {int(row[0]) for row in client.rows(f"SELECT id FROM {self.queue.quoted} WHERE id > {since}")}
        return min(
            (id_ - 1 for id_ in self._existing_ids(client, since, largest) if id_ not in committed), default=largest
        )

    def _existing_ids(self, client: Client, since: int, until: int) -> list[int]:
        """The ids that exist, committed or not."""
        client.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
        try:
            sql = f"SELECT id FROM {self.queue.quoted} WHERE id > {since} AND id <= {until}"
            return [int(row[0]) for row in client.rows(sql)]
        finally:
            client.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

    def _deleted(self, client: Client, offset: TailOffset, seen: int, now: int) -> Loss | None:
        count = deleted_before(client, self.queue, offset.at, seen, now)
        what = (
            f"the messages from id {offset.at + 1} to {offset.at + count} are not there any more ({count}, if none of"
            " these ids was rolled back): they were deleted before this query read them"
        )
        return Loss(count, what) if count else None

    def _purged(self, client: Client, offset: TailOffset, seen: int, rows: Sequence[Row], now: int) -> Loss | None:
        options = queue_options(client, self.queue.name)
        purged = now - int(float(options.get("vt_purge_after", PURGE_AFTER)) * _NS)
        missing = [gap for gap in gaps(offset.at, seen, rows, purged) if gap.last > offset.history]
        if not missing:
            return None
        count = sum(gap.last - max(gap.first, offset.history + 1) + 1 for gap in missing)
        what = (
            f"of the ids from {missing[0].first} to {missing[-1].last}, {count} are missing: messages that were purged"
            " before this query read them, or that never were (rolled back)"
        )
        return Loss(count, what)
