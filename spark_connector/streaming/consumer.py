"""Consumer: the driver's part of a streaming query on a queue: it claims messages, renews their leases, and acks
them."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue, group_backlog, queue_options
from spark_connector.client.reconnecting import ReconnectingClient
from spark_connector.errors import ConnectorError, LeaseLostError
from spark_connector.options import StreamReadOptions
from spark_connector.streaming import checkpoints
from spark_connector.streaming.checkpoints import Checkpoints
from spark_connector.streaming.claim_maker import NS, SPENT, ClaimLimit, ClaimMaker, ClaimResult
from spark_connector.streaming.claims import RETENTION_SECONDS, Claims, ClaimStates, Run, clean, prepare
from spark_connector.streaming.due import Due
from spark_connector.streaming.pace import Pace
from spark_connector.streaming.sizes import Sizes

CLAIM_MAX = 20_000
"""Messages of one transaction; a larger micro-batch is several claims. Writers on the embedded backend wait
meanwhile."""

_COUNT_MAX = 1_000_000  # a larger backlog is not counted
_COUNT_REST = 20  # the backlog is counted for at most a twentieth of the time
_COUNT_PAUSE = 1.0  # seconds; at most that often
_IDS_SHOWN = 5  # ids in an error
_BY_THE_PROXY = ("order_key", "max_rate", "max_concurrency")  # options that only the proxy's own claims enforce


class _Progress:
    """What a query reports. `nothing_due`: at the last poll."""

    def __init__(self, queue: Queue, due: Due, connection: ReconnectingClient, clock: Callable[[], float]) -> None:
        self._queue, self._due, self._connection, self._clock = queue, due, connection, clock
        self._acked = self._lost_leases = self._ended_by_others = 0
        self._backlog, self._count_again = 0, -1.0
        self.nothing_due = False

    def settled(self, states: ClaimStates) -> None:
        """Claims were acked."""
        self._acked += len(states.owned) + len(states.taken)
        self._lost_leases += len(states.taken)
        self._ended_by_others += len(states.ended)

    def counts(self) -> dict[str, Any]:
        """Since the process started."""
        return {"acked": self._acked, "leasesLost": self._lost_leases, "endedByOthers": self._ended_by_others}

    def backlog(self) -> int:
        """How many messages are due, as counted last. Raises ConnectorError."""
        if self.nothing_due:
            self._backlog = 0
        elif self._clock() >= self._count_again:
            self._count()
        return self._backlog

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
        self._pace = Pace(clock, sleep)
        self.claims = Claims(queue, group)
        self._checkpoint = Checkpoints(queue, group, uuid.uuid4().hex)
        self._joined = False
        self._maker = ClaimMaker(queue, self.claims, self._checkpoint, sizes, int(options.lease * NS), clock)
        self._progress = _Progress(queue, self._maker.due, connection, clock)
        self._planned: set[int] = set()  # ends of micro-batches that this process has claimed or redelivered
        self._sizes: dict[int, int] = {}  # the number of messages of each claim of this process
        self._newest: int | None = None  # the last claim; None: unknown, to be queried
        self._settled = -1  # all claims up to this one are acked
        self._acks, beats = connection.another(), connection.another()
        self._heartbeat = Heartbeat(lambda: beats.run(self._maker.renew), options.lease / 3)
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

    def runs(self, after: int, upto: int) -> list[Run]:
        """The claims after `after` up to `upto`, for a micro-batch.

        A micro-batch of another process is redelivered: that counts, and a message that has reached its `max_attempts`
        goes to the dead-letter queue instead. So a message that crashes every job does not stop its query forever.
        """
        self._join(after, upto)
        if upto not in self._planned:
            self._connection.run(lambda client: client.transaction(lambda: self._deliver_again(client, after, upto)))
            self._checkpoint.redelivered(upto)
            self._planned.add(upto)
        own = {seq: self._sizes.get(seq) for seq in range(after + 1, upto + 1)}
        if None not in own.values():
            return [Run(seq, 0, size) for seq, size in own.items() if size]
        return self._connection.run(lambda client: self.claims.runs(client, after, upto))

    def _deliver_again(self, client: Client, after: int, upto: int) -> None:
        def deliver() -> None:
            attempts = int(queue_options(client, self._queue.name).get("max_attempts", "0"))
            spent = self.claims.spent(client, after, upto, attempts) if attempts else []
            self.claims.reject(client, spent, SPENT.format(attempts))
            self.claims.deliver_again(client, after, upto, client.now_ns() + int(self._options.lease * NS))

        self._checkpoint.redeliver(client, upto, deliver)

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
        leased = self._maker.certainly_leased
        if after == self._settled or not leased or self._options.on_lease_lost == "fail" or self._queue.topic:
            self.settle(after)
            return self.claim(after, most, until)
        self._done(after)  # before the claim: an existing claim was made when all before it was done
        with ThreadPoolExecutor(1, "queuegate-ack") as executor:
            settling = executor.submit(self._settle_on, self._acks, after)
            upto = self._connection.run(lambda client: self._claim(client, after, most, until))
        self._record_settled(after, settling.result())
        if upto == after:
            if self._progress.nothing_due:
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
        self._progress.settled(states)

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
        due_poll = self._maker.poll(client, until)
        self._progress.nothing_due = not due_poll.snapshot.ranges and until is None
        if not due_poll.snapshot.ranges:
            return after
        options = queue_options(client, self._queue.name)
        if options.get("paused") == "1":
            return after
        limited = any(name in options for name in _BY_THE_PROXY)

        def claim(seq: int, limit: ClaimLimit) -> ClaimResult:
            if limited:
                return self._maker.by_stream(client, seq, limit, until, due_poll)
            return self._maker.directly(client, seq, limit, due_poll, options)

        self._newest = None
        last, more = self._claims_of(client, after, most, claim)
        self._newest, self._progress.nothing_due = last, until is None and not more and not limited
        return last

    def _claim_of_group(self, client: Client, after: int, most: int | None, until: int | None) -> int:
        """The same for a group's queue, which is fed when a receiver polls it: due messages are not visible before."""
        self._newest, self._progress.nothing_due = None, False
        last, _ = self._claims_of(
            client, after, most, lambda seq, limit: self._maker.by_stream(client, seq, limit, until, None)
        )
        self._newest = last
        return last

    def _claims_of(
        self, client: Client, after: int, most: int | None, claim: Callable[[int, ClaimLimit], ClaimResult]
    ) -> tuple[int, bool]:
        """As many claims as needed, each in its own transaction: the last one, and whether more may be due."""
        seq, more = after, True
        limit = ClaimLimit(CLAIM_MAX, None) if most is None else ClaimLimit(most, self._options.max_bytes)
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

    # --- progress

    def report(self) -> dict[str, Any]:
        """Counts: due, claimed, and since the process started: acked, leases lost, ended by others."""
        counts = {"queue": f"{self._options.address.database}.{self._queue.name}", **self._progress.counts()}
        try:
            claimed = self.claimed()
            backlog = self._progress.backlog()
        except ConnectorError as error:
            return {**counts, "error": str(error)}
        return {**counts, "backlog": backlog, "claimed": claimed}

    def claimed(self) -> int:
        """How many messages are claimed; without a query if this process has made all claims."""
        if self._newest is not None:
            sizes = [self._sizes.get(seq) for seq in range(max(self._settled, 0) + 1, self._newest + 1)]
            if self._settled >= 0 and None not in sizes:
                return sum(size for size in sizes if size)
        return self._connection.run(self.claims.count)


def _lease_lost_text(queue: str, states: ClaimStates) -> str:
    some = ", ".join(str(id_) for id_ in states.lost[:_IDS_SHOWN])
    more = ", ..." if len(states.lost) > _IDS_SHOWN else ""
    return (
        f"queue {queue}: of the messages of this query, {len(states.taken)} were leased to somebody else and"
        f" {len(states.ended)} were ended by somebody else ({some}{more})."
        " Nothing was acked. Give a longer leaseSeconds; to go on from here, run once with onLeaseLost=redeliver"
    )


# Heartbeat: a thread of a streaming query that renews its leases while a micro-batch runs.
#
# It ends with the process, and also if the parent process ends: after a JVM was killed, no orphan process must renew
# its leases forever.

_log = logging.getLogger("queuegate.spark")


class Heartbeat:
    """Calls `beat` at once and then every `every` seconds, in its own thread, until it is stopped."""

    def __init__(self, beat: Callable[[], object], every: float, parent: Callable[[], int] = os.getppid) -> None:
        self._beat, self._every = beat, every
        self._parent, self._parent_pid = parent, parent()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="queuegate-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Stops beating; waits up to `timeout` seconds for a beat in progress."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._ended.is_set() and self._parent() == self._parent_pid:
            try:
                self._beat()
            except (
                Exception
            ) as error:  # after any error: the next beat may succeed, and there is no other thread for it
                _log.warning("leases were not renewed, and will be tried again: %s", error)
            self._ended.wait(self._every)
