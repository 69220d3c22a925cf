"""ClaimMaker: makes one claim of a streaming query: directly in the queue's table, or through the proxy's delivery."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue, queue_options
from spark_connector.errors import ConnectorError
from spark_connector.streaming.checkpoints import Checkpoints
from spark_connector.streaming.claims import Claims
from spark_connector.streaming.due import Due, DueMessage, DueSnapshot
from spark_connector.streaming.sizes import Sizes

NS = 1_000_000_000
_RECEIVERS_LEASE_MAX = 12 * 3600 * NS  # what the proxy gives a receiver; a longer one is renewed at once
SPENT = "not acked after {} deliveries"


@dataclass(frozen=True)
class ClaimResult:
    """The result of a claim."""

    count: int
    bytes: int  # if they are counted
    more: bool  # more may be due
    rejected: int = 0  # had no attempt left


@dataclass(frozen=True)
class ClaimLimit:
    """The limits of a claim."""

    messages: int
    bytes: int | None  # None: no limit
    first: bool = True  # the first claim of its micro-batch: at least one message

    def without(self, taken: ClaimResult) -> ClaimLimit:
        """The remaining limits."""
        return ClaimLimit(self.messages - taken.count, None if self.bytes is None else self.bytes - taken.bytes)


@dataclass(frozen=True)
class DuePoll:
    """A poll for due messages, and its start and end on the local clock: later times are computed from them."""

    snapshot: DueSnapshot
    began: float
    ended: float


class ClaimMaker:
    """See the module. `lease` is in nanoseconds.

    `leased_at`, on the clock: at that time all claimed messages had at least two thirds of a lease left.
    """

    def __init__(
        self,
        queue: Queue,
        claims: Claims,
        checkpoint: Checkpoints,
        sizes: Sizes,
        lease: int,
        clock: Callable[[], float],
    ) -> None:
        self._queue, self._claims, self._checkpoint = queue, claims, checkpoint
        self._sizes_of, self._lease, self._clock = sizes, lease, clock
        self.due = Due(queue)
        self.leased_at = -math.inf

    def poll(self, client: Client, until: int | None) -> DuePoll:
        """What is due now."""
        began, snapshot, ended = self._clock(), self.due.poll(client, until), self._clock()
        return DuePoll(snapshot, began, ended)

    @property
    def certainly_leased(self) -> bool:
        """Whether all claimed messages are leased for some time to come."""
        return self._clock() - self.leased_at < self._lease / NS / 2

    def renew(self, client: Client) -> int:
        """Renew the leases of all owned messages; returns how many were renewed."""
        began = self._clock()
        renewed = self._claims.renew(client, client.now_ns(), self._lease)
        self.leased_at = began
        return renewed

    def directly(
        self, client: Client, seq: int, limit: ClaimLimit, due_poll: DuePoll, options: dict[str, str]
    ) -> ClaimResult:
        """Makes claim `seq`."""
        attempts = int(options.get("max_attempts", "0"))
        last = min(attempts, self._claims.highest)

        def work() -> ClaimResult:
            messages = self.due.lock(client, due_poll.snapshot, limit.messages)
            spent = [each.id for each in messages if last and each.epoch >= last]
            if spent:
                self._claims.reject(client, spent, SPENT.format(attempts))
            now_us = due_poll.snapshot.now // 1000
            fresh = [self._claims.leased(each, now_us) for each in messages if not last or each.epoch < last]
            count, size = self._fitting(client, fresh, limit)
            self._record_claim(client, seq, fresh[:count], due_poll, leasing=True)
            return ClaimResult(count, size, len(messages) == limit.messages or count < len(fresh), len(spent))

        return client.transaction(work)

    def by_stream(
        self, client: Client, seq: int, limit: ClaimLimit, until: int | None, due_poll: DuePoll | None
    ) -> ClaimResult:
        """The same through the proxy's own delivery, which enforces order and limits, and feeds a group. Its leases
        stay after the result ends. `due_poll`: the poll before it, or None.

        If the process is killed before the claim is recorded, the messages are redelivered when their leases end.
        """
        condition = ""
        if until is not None and (column := self._creation_column()):
            condition = f" WHERE {column} <= {until}"
        rows = client.rows(
            f"SELECT {self.due.columns} FROM STREAM {self._queue.quoted}{condition}"
            f" WITH (ack_wait = '{min(self._lease, _RECEIVERS_LEASE_MAX) // 1_000_000}ms', prefetch = {limit.messages})"
            f" LIMIT {limit.messages} NOWAIT"
        )
        leased = [self.due.to_message(row) for row in rows]
        count, size = self._fitting(client, leased, limit)
        if count < len(leased):
            self._claims.release(client, [each.id for each in leased[count:]])
        if due_poll is None and count:
            began, now, ended = self._clock(), client.now_ns(), self._clock()
            due_poll = DuePoll(DueSnapshot(now, until, ()), began, ended)
        if due_poll is not None:
            polled = due_poll
            client.transaction(lambda: self._record_claim(client, seq, leased[:count], polled, leasing=False))
        more = self._queue.topic is not None and count == limit.messages
        return ClaimResult(count, size, more)

    def _fitting(self, client: Client, messages: list[DueMessage], limit: ClaimLimit) -> tuple[int, int]:
        """How many of the messages fit into the limit, and their bytes; a message that is too large is a claim of its
        own."""
        if limit.bytes is None or not messages:
            return len(messages), 0
        count, size = self._sizes_of.fitting(client, [each.id for each in messages], limit.bytes)
        return (1, limit.bytes) if limit.first and not count else (count, size)

    def _record_claim(
        self, client: Client, seq: int, messages: list[DueMessage], due_poll: DuePoll, *, leasing: bool
    ) -> None:
        if not messages:
            return
        self._checkpoint.check_owner(client)
        began = self._clock()
        # The database's time without another query: messages created from now on are later than the earliest possible
        # time, and a lease from the latest possible time does not end before the connector expects it.
        earliest, latest = (due_poll.snapshot.now + int((began - at) * NS) for at in (due_poll.ended, due_poll.began))
        self._claims.record(client, seq, messages, earliest)
        if not leasing and self._bounded(client):
            self._claims.count_all(client, seq)
        if not leasing and self._lease > _RECEIVERS_LEASE_MAX:
            self._claims.renew(client, earliest, self._lease)
        if leasing and (leased := self._claims.lease(client, seq, latest + self._lease)) != len(messages):
            raise ConnectorError(f"queue {self._queue.name}: {leased} of {len(messages)} locked messages were leased")
        self.leased_at = max(self.leased_at, began)

    def _bounded(self, client: Client) -> bool:
        """Whether the queue limits attempts: only then the proxy marks messages that it delivers together
        (docs/message_lifecycle.md)."""
        return queue_options(client, self._queue.name).get("max_attempts", "0") != "0"

    def _creation_column(self) -> str | None:
        return next((name for name in ("time_created", "time_scheduled") if self._queue.has(name)), None)
