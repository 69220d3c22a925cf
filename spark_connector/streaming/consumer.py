"""Consumer: what a streaming query does to its queue from the driver: it claims, acks, and holds on to what it has."""

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
from spark_connector.streaming.claims import KEPT_SECONDS, Claims, ClaimStanding, Run, clean, prepare
from spark_connector.streaming.due import Due, Found, Sight
from spark_connector.streaming.heartbeat import Heartbeat
from spark_connector.streaming.pace import Pace
from spark_connector.streaming.sizes import Sizes

NS = 1_000_000_000
CLAIM_MAX = 20_000
"""Messages of one transaction; a larger micro-batch is several claims. Whoever writes on the embedded backend waits."""

_COUNT_MAX = 1_000_000  # backlog beyond it is not counted
_COUNT_REST = 20  # the backlog is counted for at most a twentieth of the time
_COUNT_PAUSE = 1.0  # seconds, and no more often than that
_TOLD = 5  # ids in an error
_SPENT = "not acked after {} deliveries"
_BY_THE_PROXY = ("order_key", "max_rate", "max_concurrency")  # options that only its claims keep


@dataclass(frozen=True)
class _Taken:
    """What a claim took."""

    count: int
    bytes: int  # where they are counted
    more: bool  # more may be due
    rejected: int = 0  # had no attempt left


@dataclass(frozen=True)
class _Room:
    """What a claim may take."""

    messages: int
    bytes: int | None  # None: any number
    first: bool = True  # of its micro-batch: one message at least

    def without(self, taken: _Taken) -> _Room:
        """What is left of it."""
        return _Room(self.messages - taken.count, None if self.bytes is None else self.bytes - taken.bytes)


@dataclass(frozen=True)
class _Seen:
    """A look at what is due, and between which times it was, on the own clock: what is written later counts its time
    from there."""

    sight: Sight
    began: float
    ended: float


class Consumer:
    """One group of claims on one queue. For one thread; its heartbeat has a line and a thread of its own."""

    def __init__(
        self,
        options: StreamReadOptions,
        queue: Queue,
        group: str,
        line: ReconnectingClient,
        sizes: Sizes,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options, self._queue, self._line = options, queue, line
        self._clock, self._pace = clock, Pace(clock, sleep)
        self.claims = Claims(queue, group)
        self._checkpoint = Checkpoints(queue, group, uuid.uuid4().hex)
        self._joined = False
        self._due = Due(queue)
        self._sizes_of = sizes
        self._lease = int(options.lease * NS)
        self._planned: set[int] = set()  # ends of micro-batches that this process has claimed, or delivered again
        self._sizes: dict[int, int] = {}  # how many messages the claims have that this process has made
        self._newest: int | None = None  # the last claim there is; None: to be asked for
        self._nothing_due = False  # as of the last look
        self._acked = self._taken = self._ended = 0
        self._backlog, self._count_again = 0, -1.0
        self._leased_at = -math.inf  # on the clock: then all that is claimed had two thirds of a lease left, or more
        self._settled = -1  # all claims up to this one are acked
        self._acks, self._beats = ReconnectingClient(options.address), ReconnectingClient(options.address)
        self._heartbeat = Heartbeat(lambda: self._beats.run(self.renew), options.lease / 3)
        line.run(self._prepare)

    def start(self) -> None:
        """Begin to hold on to what is claimed."""
        self._heartbeat.start()

    def stop(self) -> None:
        self._heartbeat.stop()
        self._acks.close()

    def _prepare(self, client: Client) -> None:
        prepare(client, self._queue)
        checkpoints.prepare(client, self._queue)
        now = client.now_ns()
        clean(client, self._queue, now - int(KEPT_SECONDS * NS))
        checkpoints.clean(client, self._queue, now - int(checkpoints.KEPT_SECONDS * NS))

    def _join(self, after: int, upto: int | None = None) -> None:
        """The first thing that a process does with its checkpoint. Raises CheckpointError."""
        if not self._joined:
            self._line.run(lambda client: client.transaction(lambda: self._checkpoint.join(client, after, upto)))
            self._joined = True

    def _done(self, upto: int) -> None:
        """Spark says so. Raises CheckpointError: nothing is acked then."""
        self._join(upto)
        unread = self._options.on_unread == "ack"
        self._line.run(lambda client: self._checkpoint.advance(client, upto, self.claims.placed, unread=unread))

    def renew(self, client: Client) -> int:
        """Hold on to all that is claimed and still ours; returns how many leases were made longer."""
        began = self._clock()
        renewed = self.claims.renew(client, client.now_ns(), self._lease)
        self._leased_at = began
        return renewed

    def runs(self, after: int, upto: int) -> list[Run]:
        """What is claimed beyond `after` up to `upto`, for a micro-batch.

        One that another process has planned is delivered again: that counts, and what has had its `max_attempts`
        goes to the dead-letter queue instead. So a message that no job survives does not stop its query for ever.
        """
        self._join(after, upto)
        if upto not in self._planned:
            self._line.run(lambda client: client.transaction(lambda: self._deliver_again(client, after, upto)))
            self._planned.add(upto)
        own = {seq: self._sizes.get(seq) for seq in range(after + 1, upto + 1)}
        if None not in own.values():
            return [Run(seq, 0, size) for seq, size in own.items() if size]
        return self._line.run(lambda client: self.claims.runs(client, after, upto))

    def _deliver_again(self, client: Client, after: int, upto: int) -> None:
        attempts = int(queue_options(client, self._queue.name).get("max_attempts", "0"))
        spent = self.claims.spent(client, after, upto, attempts) if attempts else []
        self.claims.reject(client, spent, _SPENT.format(attempts))
        self.claims.deliver_again(client, after, upto, client.now_ns() + self._lease)

    # --- acks

    def settle(self, upto: int) -> None:
        """Ack what is claimed up to that number, and forget the claims. Raises LeaseLostError, nothing acked then."""
        if upto != self._settled:
            self._done(upto)
            self._note(upto, self._settle_on(self._line, upto))

    def advance(self, after: int, most: int | None, until: int | None = None) -> int:
        """`settle(after)` and `claim(after, most, until)`, both at a time: they are the longest steps between batches.

        Only while what is to be acked is certainly leased: else it might be due again, and be claimed once more. And
        not for a group: after a seek back it would claim once more what is to be acked. Where the one lets the other go
        (order_key, max_concurrency) the claim is repeated when the ack is done.
        """
        leased = self._clock() - self._leased_at < self._options.lease / 2
        if after == self._settled or not leased or self._options.on_lease_lost == "fail" or self._queue.topic:
            self.settle(after)
            return self.claim(after, most, until)
        self._done(after)  # before the claim: one that is there was made when all before it was done
        with ThreadPoolExecutor(1, "queuegate-ack") as beside:
            settling = beside.submit(self._settle_on, self._acks, after)
            upto = self._line.run(lambda client: self._claim(client, after, most, until))
        self._note(after, settling.result())
        if upto == after:
            if self._nothing_due:
                self._pace.nothing()
            return self.claim(after, most, until)
        self._pace.found()
        self._planned.add(upto)
        return upto

    def _settle_on(self, line: ReconnectingClient, upto: int) -> ClaimStanding:
        return line.run(lambda client: client.transaction(lambda: self._settle(client, upto)))

    def _note(self, upto: int, standing: ClaimStanding) -> None:
        self._settled = upto
        self._planned = {seq for seq in self._planned if seq > upto}
        self._sizes = {seq: size for seq, size in self._sizes.items() if seq > upto}
        self._acked += len(standing.held) + len(standing.taken)
        self._taken += len(standing.taken)
        self._ended += len(standing.ended)

    def _settle(self, client: Client, upto: int) -> ClaimStanding:
        fails = self._options.on_lease_lost == "fail"
        standing = self.claims.standing(client, upto, lock=fails)
        if standing.lost and fails:
            raise LeaseLostError(_lost(self._queue.name, standing))
        self.claims.ack(client, (*standing.held, *standing.taken))
        self.claims.forget(client, upto)
        return standing

    # --- claims

    def claim(self, after: int, most: int | None, until: int | None = None) -> int:
        """Claim up to `most` due messages; returns the number of the last claim beyond `after`, or `after`.

        Claims beyond `after` that are there already, because Spark was killed before it logged them, are returned
        as they are. Waits for messages as long as the options say. `until` (ns): only what was due then, no waiting.
        """
        patience = self._options.poll_timeout if until is None else 0.0
        for _ in self._pace.looks(patience):
            upto = self._line.run(lambda client: self._claim(client, after, most, until))
            if upto > after:
                self._pace.found()
                self._planned.add(upto)
                return upto
        return after

    def _claim(self, client: Client, after: int, most: int | None, until: int | None) -> int:
        if self._newest != after:  # at the beginning, and where nobody knows how an earlier call ended
            self._newest = self.claims.last(client, after) or after
            if self._newest > after:
                return self._newest
        if self._queue.topic is not None:
            return self._claim_of_group(client, after, most, until)
        began, sight, looked = self._clock(), self._due.look(client, until), self._clock()
        self._nothing_due = not sight.stretches and until is None
        if not sight.stretches:
            return after
        options = queue_options(client, self._queue.name)
        if options.get("paused") == "1":
            return after
        limited = any(name in options for name in _BY_THE_PROXY)
        seen = _Seen(sight, began, looked)

        def claim(seq: int, room: _Room) -> _Taken:
            if limited:
                return self._claim_by_stream(client, seq, room, until, seen)
            return self._claim_directly(client, seq, room, seen, options)

        self._newest = None
        last, more = self._claims_of(client, after, most, claim)
        self._newest, self._nothing_due = last, until is None and not more and not limited
        return last

    def _claim_of_group(self, client: Client, after: int, most: int | None, until: int | None) -> int:
        """The same of a queue that is fed when somebody receives from it: nobody can look at what is due before."""
        self._newest, self._nothing_due = None, False
        last, _ = self._claims_of(
            client, after, most, lambda seq, room: self._claim_by_stream(client, seq, room, until, None)
        )
        self._newest = last
        return last

    def _claims_of(
        self, client: Client, after: int, most: int | None, claim: Callable[[int, _Room], _Taken]
    ) -> tuple[int, bool]:
        """As many claims as it takes, each in a transaction of its own: the last one, and whether more may be due."""
        seq, more = after, True
        room = _Room(CLAIM_MAX, None) if most is None else _Room(most, self._options.max_bytes)
        while more and room.messages:
            taken = claim(seq + 1, replace(room, messages=min(CLAIM_MAX, room.messages), first=seq == after))
            more = taken.more
            if not taken.count:
                if taken.rejected:  # what comes after them is due, too
                    continue
                break
            seq += 1
            self._sizes[seq] = taken.count
            room = room if most is None else room.without(taken)
        return seq, more

    def _claim_directly(self, client: Client, seq: int, room: _Room, seen: _Seen, options: dict[str, str]) -> _Taken:
        """What claim `seq` has now, and whether more may be due."""
        attempts = int(options.get("max_attempts", "0"))
        last = min(attempts, self.claims.highest)

        def work() -> _Taken:
            found = self._due.lock(client, seen.sight, room.messages)
            spent = [each.id for each in found if last and each.epoch >= last]
            if spent:
                self.claims.reject(client, spent, _SPENT.format(attempts))
            now_us = seen.sight.now // 1000
            fresh = [self.claims.leased(each, now_us) for each in found if not last or each.epoch < last]
            count, size = self._fitting(client, fresh, room)
            self._write_down(client, seq, fresh[:count], seen, leasing=True)
            return _Taken(count, size, len(found) == room.messages or count < len(fresh), len(spent))

        return client.transaction(work)

    def _fitting(self, client: Client, found: list[Found], room: _Room) -> tuple[int, int]:
        """How many of the messages there is room for, and their bytes; a message too large for any is one by itself."""
        if room.bytes is None or not found:
            return len(found), 0
        count, size = self._sizes_of.fitting(client, [each.id for each in found], room.bytes)
        return (1, room.bytes) if room.first and not count else (count, size)

    def _claim_by_stream(self, client: Client, seq: int, room: _Room, until: int | None, seen: _Seen | None) -> _Taken:
        """The same through the proxy's own delivery, which alone keeps order and limits, and feeds a group. Leases
        outlast its result. `seen`: a look before it; None: there was none.

        Killed between the two, the messages come back when their lease ends: later, not lost.
        """
        condition = ""
        if until is not None and (column := self._made()):
            condition = f" WHERE {column} <= {until}"
        found = client.rows(
            f"SELECT {self._due.found} FROM STREAM {self._queue.quoted}{condition}"
            f" WITH (ack_wait = '{int(self._options.lease * 1000)}ms', prefetch = {room.messages})"
            f" LIMIT {room.messages} NOWAIT"
        )
        leased = [self._due.as_found(row) for row in found]
        count, size = self._fitting(client, leased, room)
        if count < len(leased):
            self.claims.give_back(client, [each.id for each in leased[count:]])
        if seen is None and count:
            began, now, ended = self._clock(), client.now_ns(), self._clock()
            seen = _Seen(Sight(now, until, ()), began, ended)
        if seen is not None:
            known = seen
            client.transaction(lambda: self._write_down(client, seq, leased[:count], known, leasing=False))
        more = self._queue.topic is not None and count == room.messages
        return _Taken(count, size, more)

    def _write_down(self, client: Client, seq: int, found: list[Found], seen: _Seen, *, leasing: bool) -> None:
        if not found:
            return
        self._checkpoint.insist_on_own(client)
        began = self._clock()
        # The database's time without asking again: what is made from here on is later than the earliest that it may
        # be, and a lease that counts from the latest does not end before the connector expects it.
        earliest, latest = (seen.sight.now + int((began - at) * NS) for at in (seen.ended, seen.began))
        self.claims.record(client, seq, found, earliest)
        if not leasing and self._bounded(client):
            self.claims.count_all(client, seq)
        if leasing and (leased := self.claims.lease(client, seq, latest + self._lease)) != len(found):
            raise ConnectorError(f"queue {self._queue.name}: {leased} of {len(found)} locked messages were leased")
        self._leased_at = max(self._leased_at, began)

    def _bounded(self, client: Client) -> bool:
        """Whether the queue bounds attempts: only there the proxy tells messages that it hands out together from others
        (docs/message_lifecycle.md)."""
        return queue_options(client, self._queue.name).get("max_attempts", "0") != "0"

    def _made(self) -> str | None:
        return next((name for name in ("time_created", "time_scheduled") if self._queue.has(name)), None)

    # --- how it stands

    def report(self) -> dict[str, Any]:
        """Counts: what is due, what is claimed, and since the process began: acked, leases lost, ended by others."""
        place = f"{self._options.address.database}.{self._queue.name}"
        counts = {"queue": place, "acked": self._acked, "leasesLost": self._taken, "endedByOthers": self._ended}
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
        """How many messages are claimed; without a look at the table where this process has made all claims."""
        if self._newest is not None:
            sizes = [self._sizes.get(seq) for seq in range(max(self._settled, 0) + 1, self._newest + 1)]
            if self._settled >= 0 and None not in sizes:
                return sum(size for size in sizes if size)
        return self._line.run(self.claims.count)

    def _count(self) -> None:
        began = self._clock()
        self._backlog = self._line.run(self._waiting)
        ended = self._clock()
        self._count_again = ended + max(_COUNT_PAUSE, _COUNT_REST * (ended - began))

    def _waiting(self, client: Client) -> int:
        """How many messages are due; of a group also those that it has not read yet."""
        topic, group = self._queue.topic, self._queue.options.get("consumer_group")
        if topic is None or group is None:
            return self._due.count(client, _COUNT_MAX)
        return group_backlog(client, topic, group)


def _lost(queue: str, standing: ClaimStanding) -> str:
    some = ", ".join(str(id_) for id_ in standing.lost[:_TOLD])
    return (
        f"queue {queue}: of the messages of this query, {len(standing.taken)} were leased to somebody else and"
        f" {len(standing.ended)} were ended by somebody else ({some}{', ...' if len(standing.lost) > _TOLD else ''})."
        " Nothing was acked. Give a longer leaseSeconds; to go on from here, run once with onLeaseLost=redeliver"
    )
