"""ByNumber: mode=tail in the order of the numbers of a topic's messages (option `sequence`).

A reader that sees a number sees all smaller ones that are not deleted, at any node of a cluster. So all messages with a
number may be read, without waiting. If a poll finds a message without a number, it has the proxy assign one.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_connector.client.connection import NOW_US, Client
from spark_connector.client.queue import NUMBER, Queue
from spark_connector.client.topic_log import deleted_before, first_since, number_all
from spark_connector.streaming.offsets import By, TailOffset
from spark_connector.streaming.order import Loss, PollResult, Starting, offset_before
from spark_connector.streaming.tail import Readable, Row


class ByNumber:
    """An Order; see the module."""

    by: By = "number"

    def __init__(self, topic: Queue, settings: tuple[str, ...]) -> None:
        self.queue, self.settings = topic, settings
        self.holds_back = False
        self._unnumbered = f"SELECT 1 FROM {topic.log} WHERE {NUMBER} IS NULL"

    def begin(self, client: Client, starting: Starting, time: int | None) -> tuple[int, int]:
        largest = self.end(client)[1] or 0
        if time is not None:
            return first_since(client, self.queue, time, "startingTimestamp") - 1, largest
        if starting == "latest":
            return largest, largest
        if starting == "earliest":
            smallest = client.value(f"SELECT MIN({NUMBER}) FROM {self.queue.quoted}")
            return largest if smallest is None else int(smallest) - 1, largest
        return offset_before(self.queue, starting, largest), largest

    def end(self, client: Client) -> tuple[int, int | None]:
        now, largest, more = self._query_end(client)
        self.holds_back = False
        if more:
            number_all(client, self.queue)
            now, largest, self.holds_back = self._query_end(client)
        return now, largest

    def poll(self, client: Client, since: int, most: int, until: int | None) -> PollResult:
        bound = "" if until is None else f" AND {NUMBER} <= {until}"
        now = client.now_ns()
        beyond = f"FROM {self.queue.log} WHERE {NUMBER} > {since}{bound} ORDER BY {NUMBER} LIMIT {most}"
        messages = client.rows(f"SELECT {NUMBER}, time_created {beyond}")
        rows = [Row(int(at), None if created_ns is None else int(created_ns)) for at, created_ns in messages]
        return PollResult(now, rows, Readable(len(rows)), len(rows) < most)

    def behind(self, client: Client, since: int, most: int) -> int:
        """Includes messages without a number."""
        numbered = f"SELECT 1 FROM {self.queue.log} WHERE {NUMBER} > {since} LIMIT {most}"
        counted = (numbered, f"{self._unnumbered} LIMIT {most}")
        return min(most, sum(int(client.value(f"SELECT COUNT(*) FROM ({each}) AS behind")) for each in counted))

    def lost(self, client: Client, offset: TailOffset, seen: int, rows: Sequence[Row], now: int) -> Loss | None:
        if offset.at == offset.history == 0:
            return None  # it started when the topic was empty: the first number was unknown
        count = deleted_before(client, self.queue, offset.at, seen, now)
        what = (
            f"the messages with the numbers from {offset.at + 1} to {offset.at + count} are not there any more"
            f" ({count}): they were deleted before this query read them"
        )
        return Loss(count, what) if count else None

    def _query_end(self, client: Client) -> tuple[int, int | None, bool]:
        """The time, the largest number, and whether a message has none."""
        largest = f"(SELECT MAX({NUMBER}) FROM {self.queue.quoted})"
        now, last, more = client.rows(f"SELECT {NOW_US}, {largest}, EXISTS ({self._unnumbered})")[0]
        return int(now) * 1000, None if last is None else int(last), bool(more)
