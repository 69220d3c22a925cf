"""Consumer: the driver's part of a streaming query on a queue: it claims messages, renews their leases, and acks
them."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue, group_backlog, queue_options
from spark_connector.client.reconnecting import ReconnectingClient
from spark_connector.errors import ConnectorError, LeaseLostError
from spark_connector.options import StreamReadOptions
from spark_connector.streaming import checkpoints
from spark_connector.streaming.checkpoints import Checkpoints
from spark_connector.streaming.claims import RETENTION_SECONDS, Claims, ClaimStates, Run, clean, prepare
from spark_connector.streaming.due import Due, DueMessage, DueSnapshot
from spark_connector.streaming.heartbeat import Heartbeat
from spark_connector.streaming.pace import Pace
from spark_connector.streaming.sizes import Sizes

NS = 1_000_000_000
CLAIM_MAX = 20_000
"""Messages of one transaction; a larger micro-batch is several claims. Writers on the embedded backend wait
meanwhile."""

_COUNT_MAX = 1_000_000  # a larger backlog is not counted
_COUNT_REST = 20  # the backlog is counted for at most a twentieth of the time
_COUNT_PAUSE = 1.0  # seconds; at most that often
_IDS_SHOWN = 5  # ids in an error
_SPENT = "not acked after {} deliveries"
_BY_THE_PROXY = ("order_key", "max_rate", "max_concurrency")  # options that only the proxy's own claims enforce


@dataclass(frozen=True)
class _ClaimResult:
    """The result of a claim."""

    count: int
    bytes: int  # if they are counted
    more: bool  # more may be due
    rejected: int = 0  # had no attempt left


@dataclass(frozen=True)
class _ClaimLimit:
    """The limits of a claim."""

    messages: int
    bytes: int | None  # None: no limit
    first: bool = True  # the first claim of its micro-batch: at least one message

    def without(self, taken: _ClaimResult) -> _ClaimLimit:
        """The remaining limits."""
        return _ClaimLimit(self.messages - taken.count, None if self.bytes is None else self.bytes - taken.bytes)


@dataclass(frozen=True)
class _DuePoll:
    """A poll for due messages, and its start and end on the local clock: later times are computed from them."""

    snapshot: DueSnapshot
    began: float
    ended: float


class Consumer:
    """One group of claims on one queue. For one thread; its heartbeat has its own connection and thread."""

    def __init__(
        self,
        options: StreamReadOptions,
        queue: Queue,
        group: str,
        connection: ReconnectingClient,
        sizes: Sizes,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options, self._queue, self._connection = options, queue, connection
        self._clock, self._pace = clock, Pace(clock, sleep)
        self.claims = Claims(queue, group)
        self._checkpoint = Checkpoints(queue, group, uuid.uuid4().hex)
        self._joined = False
        self._due = Due(queue)
        self._sizes_of = sizes
        self._lease = int(options.lease * NS)
        self._planned: set[int] = set()  # ends of micro-batches that this process has claimed or redelivered
        self._sizes: dict[int, int] = {}  # the number of messages of each claim of this process
        self._newest: int | None = None  # the last claim; None: unknown, to be queried
        self._nothing_due = False  # at the last poll
        self._acked = self._lost_leases = self._ended_by_others = 0
        self._backlog, self._count_again = 0, -1.0
        self._leased_at = (
            -math.inf
        )  # on the clock: at that time all claimed messages had at least two thirds of a lease left
        self._settled = -1  # all claims up to this one are acked
        self._acks, self._beats = ReconnectingClient(options.address), ReconnectingClient(options.address)
        self._heartbeat = Heartbeat(lambda: self._beats.run(self.renew), options.lease / 3)
        connection.run(self._prepare)

    def start(self) -> None:
        """Start renewing leases."""
        self._heartbeat.start()

    def stop(self) -> None:
        self._heartbeat.stop()
        self._acks.close()

    def _prepare(self, client: Client) -> None:
        prepare(client, self._queue)
        checkpoints.prepare(client, self._queue)
        now = client.now_ns()
        clean(client, self._queue, now - int(RETENTION_SECONDS * NS))
        checkpoints.clean(client, self._queue, now - int(checkpoints.RETENTION_SECONDS * NS))

    def _join(self, after: int, upto: int | None = None) -> None:
        """The first step of a process with its checkpoint. Raises CheckpointError."""
        if not self._joined:
            self._connection.run(lambda client: client.transaction(lambda: self._checkpoint.join(client, after, upto)))
            self._joined = True

    def _done(self, upto: int) -> None:
        """Spark reports these claims as done. Raises CheckpointError; nothing is acked then."""
        self._join(upto)
        unread = self._options.on_unread == "ack"
        self._connection.run(lambda client: self._checkpoint.advance(client, upto, self.claims.escaped, unread=unread))

    def renew(self, client: Client) -> int:
        """Renew the leases of all owned messages; returns how many were renewed."""
        began = self._clock()
        renewed = self.claims.renew(client, client.now_ns(), self._lease)
        self._leased_at = began
        return renewed

    def runs(self, after: int, upto: int) -> list[Run]:
        """The claims after `after` up to `upto`, for a micro-batch.

        A micro-batch of another process is redelivered: that counts, and a message that has reached its `max_attempts`
        goes to the dead-letter queue instead. So a message that crashes every job does not stop its query forever.
        """
        self._join(after, upto)
        if upto not in self._planned:
            self._connection.run(lambda client: client.transaction(lambda: self._deliver_again(client, after, upto)))
            self._planned.add(upto)
        own = {seq: self._sizes.get(seq) for seq in range(after + 1, upto + 1)}
        if None not in own.values():
            return [Run(seq, 0, size) for seq, size in own.items() if size]
        return self._connection.run(lambda client: self.claims.runs(client, after, upto))

    def _deliver_again(self, client: Client, after: int, upto: int) -> None:
        attempts = int(queue_options(client, self._queue.name).get("max_attempts", "0"))
        spent = self.claims.spent(client, after, upto, attempts) if attempts else []
        self.claims.reject(client, spent, _SPENT.format(attempts))
        self.claims.deliver_again(client, after, upto, client.now_ns() + self._lease)

    # --- acks

    def settle(self, upto: int) -> None:
        """Ack the claims up to that number, and delete them. Raises LeaseLostError; nothing is acked then."""
        if upto != self._settled:
            self._done(upto)
            self._record_settled(upto, self._settle_on(self._connection, upto))

    def advance(self, after: int, most: int | None, until: int | None = None) -> int:
        """`settle(after)` and `claim(after, most, until)` in parallel: they are the longest steps between batches.

        Only while the messages to be acked are certainly leased: otherwise they might be due and be claimed again. Not
        for a group: after a seek back it would claim the messages to be acked again. If the claim depends on the ack
        (order_key, max_concurrency), it is repeated after the ack.
        """
        leased = self._clock() - self._leased_at < self._options.lease / 2
        if after == self._settled or not leased or self._options.on_lease_lost == "fail" or self._queue.topic:
            self.settle(after)
            return self.claim(after, most, until)
        self._done(after)  # before the claim: an existing claim was made when all before it was done
        with ThreadPoolExecutor(1, "queuegate-ack") as executor:
            settling = executor.submit(self._settle_on, self._acks, after)
            upto = self._connection.run(lambda client: self._claim(client, after, most, until))
        self._record_settled(after, settling.result())
        if upto == after:
            if self._nothing_due:
                self._pace.on_empty()
            return self.claim(after, most, until)
        self._pace.on_messages()
        self._planned.add(upto)
        return upto

    def _settle_on(self, connection: ReconnectingClient, upto: int) -> ClaimStates:
        return connection.run(lambda client: client.transaction(lambda: self._settle(client, upto)))

    def _record_settled(self, upto: int, states: ClaimStates) -> None:
        self._settled = upto
        self._planned = {seq for seq in self._planned if seq > upto}
        self._sizes = {seq: size for seq, size in self._sizes.items() if seq > upto}
        self._acked += len(states.owned) + len(states.taken)
        self._lost_leases += len(states.taken)
        self._ended_by_others += len(states.ended)

    def _settle(self, client: Client, upto: int) -> ClaimStates:
        fails = self._options.on_lease_lost == "fail"
        states = self.claims.states(client, upto, lock=fails)
        if states.lost and fails:
            raise LeaseLostError(_lease_lost_text(self._queue.name, states))
        self.claims.ack(client, (*states.owned, *states.taken))
        self.claims.forget(client, upto)
        return states

    # --- claims

    def claim(self, after: int, most: int | None, until: int | None = None) -> int:
        """Claim up to `most` due messages; returns the number of the last claim beyond `after`, or `after`.

        Existing claims after `after`, which Spark did not log before it was killed, are returned as they are. Waits for
        messages as long as the options allow. `until` (ns): only messages due then, no waiting.
        """
        patience = self._options.poll_timeout if until is None else 0.0
        for _ in self._pace.polls(patience):
            upto = self._connection.run(lambda client: self._claim(client, after, most, until))
            if upto > after:
                self._pace.on_messages()
                self._planned.add(upto)
                return upto
        return after

    def _claim(self, client: Client, after: int, most: int | None, until: int | None) -> int:
        if self._newest != after:  # at the start, and if the outcome of an earlier call is unknown
            self._newest = self.claims.last(client, after) or after
            if self._newest > after:
                return self._newest
        if self._queue.topic is not None:
            return self._claim_of_group(client, after, most, until)
        began, snapshot, ended = self._clock(), self._due.poll(client, until), self._clock()
        self._nothing_due = not snapshot.ranges and until is None
        if not snapshot.ranges:
            return after
        options = queue_options(client, self._queue.name)
        if options.get("paused") == "1":
            return after
        limited = any(name in options for name in _BY_THE_PROXY)
        due_poll = _DuePoll(snapshot, began, ended)

        def claim(seq: int, limit: _ClaimLimit) -> _ClaimResult:
            if limited:
                return self._claim_by_stream(client, seq, limit, until, due_poll)
            return self._claim_directly(client, seq, limit, due_poll, options)

        self._newest = None
        last, more = self._claims_of(client, after, most, claim)
        self._newest, self._nothing_due = last, until is None and not more and not limited
        return last

    def _claim_of_group(self, client: Client, after: int, most: int | None, until: int | None) -> int:
        """The same for a group's queue, which is fed when a receiver polls it: due messages are not visible before."""
        self._newest, self._nothing_due = None, False
        last, _ = self._claims_of(
            client, after, most, lambda seq, limit: self._claim_by_stream(client, seq, limit, until, None)
        )
        self._newest = last
        return last

    def _claims_of(
        self, client: Client, after: int, most: int | None, claim: Callable[[int, _ClaimLimit], _ClaimResult]
    ) -> tuple[int, bool]:
        """As many claims as needed, each in its own transaction: the last one, and whether more may be due."""
        seq, more = after, True
        limit = _ClaimLimit(CLAIM_MAX, None) if most is None else _ClaimLimit(most, self._options.max_bytes)
        while more and limit.messages:
            taken = claim(seq + 1, replace(limit, messages=min(CLAIM_MAX, limit.messages), first=seq == after))
            more = taken.more
            if not taken.count:
                if taken.rejected:  # messages after them are due, too
                    continue
                break
            seq += 1
            self._sizes[seq] = taken.count
            limit = limit if most is None else limit.without(taken)
        return seq, more

    def _claim_directly(
        self, client: Client, seq: int, limit: _ClaimLimit, due_poll: _DuePoll, options: dict[str, str]
    ) -> _ClaimResult:
        """Makes claim `seq`."""
        attempts = int(options.get("max_attempts", "0"))
        last = min(attempts, self.claims.highest)

        def work() -> _ClaimResult:
            messages = self._due.lock(client, due_poll.snapshot, limit.messages)
            spent = [each.id for each in messages if last and each.epoch >= last]
            if spent:
                self.claims.reject(client, spent, _SPENT.format(attempts))
            now_us = due_poll.snapshot.now // 1000
            fresh = [self.claims.leased(each, now_us) for each in messages if not last or each.epoch < last]
            count, size = self._fitting(client, fresh, limit)
            self._record_claim(client, seq, fresh[:count], due_poll, leasing=True)
            return _ClaimResult(count, size, len(messages) == limit.messages or count < len(fresh), len(spent))

        return client.transaction(work)

    def _fitting(self, client: Client, messages: list[DueMessage], limit: _ClaimLimit) -> tuple[int, int]:
        """How many of the messages fit into the limit, and their bytes; a message that is too large is a claim of its
        own."""
        if limit.bytes is None or not messages:
            return len(messages), 0
        count, size = self._sizes_of.fitting(client, [each.id for each in messages], limit.bytes)
        return (1, limit.bytes) if limit.first and not count else (count, size)

    def _claim_by_stream(
        self, client: Client, seq: int, limit: _ClaimLimit, until: int | None, due_poll: _DuePoll | None
    ) -> _ClaimResult:
        """The same through the proxy's own delivery, which enforces order and limits, and feeds a group. Its leases
        stay after the result ends. `due_poll`: the poll before it, or None.

        If the process is killed before the claim is recorded, the messages are redelivered when their leases end.
        """
        condition = ""
        if until is not None and (column := self._creation_column()):
            condition = f" WHERE {column} <= {until}"
        rows = client.rows(
            f"SELECT {self._due.columns} FROM STREAM {self._queue.quoted}{condition}"
            f" WITH (ack_wait = '{int(self._options.lease * 1000)}ms', prefetch = {limit.messages})"
            f" LIMIT {limit.messages} NOWAIT"
        )
        leased = [self._due.to_message(row) for row in rows]
        count, size = self._fitting(client, leased, limit)
        if count < len(leased):
            self.claims.release(client, [each.id for each in leased[count:]])
        if due_poll is None and count:
            began, now, ended = self._clock(), client.now_ns(), self._clock()
            due_poll = _DuePoll(DueSnapshot(now, until, ()), began, ended)
        if due_poll is not None:
            polled = due_poll
            client.transaction(lambda: self._record_claim(client, seq, leased[:count], polled, leasing=False))
        more = self._queue.topic is not None and count == limit.messages
        return _ClaimResult(count, size, more)

    def _record_claim(
        self, client: Client, seq: int, messages: list[DueMessage], due_poll: _DuePoll, *, leasing: bool
    ) -> None:
        if not messages:
            return
        self._checkpoint.check_owner(client)
        began = self._clock()
        # The database's time without another query: messages created from now on are later than the earliest possible
        # time, and a lease from the latest possible time does not end before the connector expects it.
        earliest, latest = (due_poll.snapshot.now + int((began - at) * NS) for at in (due_poll.ended, due_poll.began))
        self.claims.record(client, seq, messages, earliest)
        if not leasing and self._bounded(client):
            self.claims.count_all(client, seq)
        if leasing and (leased := self.claims.lease(client, seq, latest + self._lease)) != len(messages):
            raise ConnectorError(f"queue {self._queue.name}: {leased} of {len(messages)} locked messages were leased")
        self._leased_at = max(self._leased_at, began)

    def _bounded(self, client: Client) -> bool:
        """Whether the queue limits attempts: only then the proxy marks messages that it delivers together
        (docs/message_lifecycle.md)."""
        return queue_options(client, self._queue.name).get("max_attempts", "0") != "0"

    def _creation_column(self) -> str | None:
        return next((name for name in ("time_created", "time_scheduled") if self._queue.has(name)), None)

    # --- progress

    def report(self) -> dict[str, Any]:
        """Counts: due, claimed, and since the process started: acked, leases lost, ended by others."""
        place = f"{self._options.address.database}.{self._queue.name}"
        counts = {
            "queue": place,
            "acked": self._acked,
            "leasesLost": self._lost_leases,
            "endedByOthers": self._ended_by_others,
        }
        try:
            claimed = self.claimed()
            if self._nothing_due:
                self._backlog = 0
            elif self._clock() >= self._count_again:
                self._count()
        except ConnectorError as error:
            return {**counts, "error": str(error)}
        return {**counts, "backlog": self._backlog, "claimed": claimed}

    def claimed(self) -> int:
        """How many messages are claimed; without a query if this process has made all claims."""
        if self._newest is not None:
            sizes = [self._sizes.get(seq) for seq in range(max(self._settled, 0) + 1, self._newest + 1)]
            if self._settled >= 0 and None not in sizes:
                return sum(size for size in sizes if size)
        return self._connection.run(self.claims.count)

    def _count(self) -> None:
        began = self._clock()
        self._backlog = self._connection.run(self._waiting)
        ended = self._clock()
        self._count_again = ended + max(_COUNT_PAUSE, _COUNT_REST * (ended - began))

    def _waiting(self, client: Client) -> int:
        """How many messages are due; for a group also the unread ones."""
        topic, group = self._queue.topic, self._queue.options.get("consumer_group")
        if topic is None or group is None:
            return self._due.count(client, _COUNT_MAX)
        return group_backlog(client, topic, group)


def _lease_lost_text(queue: str, states: ClaimStates) -> str:
    some = ", ".join(str(id_) for id_ in states.lost[:_IDS_SHOWN])
    more = ", ..." if len(states.lost) > _IDS_SHOWN else ""
    return (
        f"queue {queue}: of the messages of this query, {len(states.taken)} were leased to somebody else and"
        f" {len(states.ended)} were ended by somebody else ({some}{more})."
        " Nothing was acked. Give a longer leaseSeconds; to go on from here, run once with onLeaseLost=redeliver"
    )
