"""Consumer: what a streaming query does to its queue from the driver: it claims, acks, and holds on to what it has."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from spark_connector.claims import KEPT_SECONDS, Claims, Run, Standing, clean, prepare
from spark_connector.client import Client
from spark_connector.due import Bounds, Due, Found, as_found
from spark_connector.errors import ConnectorError, LeaseLostError
from spark_connector.heartbeat import Heartbeat
from spark_connector.line import Line
from spark_connector.options import StreamReadOptions
from spark_connector.queue import Queue, queue_options

NS = 1_000_000_000
CLAIM_MAX = 20_000
"""Messages of one transaction; a larger micro-batch is several claims. Whoever writes on the embedded backend waits."""

_PAUSE, _PAUSE_MAX = 0.01, 0.1  # seconds between looks at an idle queue: ten a second, and as late as that at most
_COUNT_MAX = 1_000_000  # backlog beyond it is not counted
_COUNT_REST = 20  # the backlog is counted for at most a twentieth of the time
_TOLD = 5  # ids in an error
_SPENT = "not acked after {} deliveries"
_BY_THE_PROXY = ("order_key", "max_rate", "max_concurrency")  # options that only its claims keep


class Consumer:
    """One group of claims on one queue. For one thread; its heartbeat has a line and a thread of its own."""

    def __init__(
        self,
        options: StreamReadOptions,
        queue: Queue,
        group: str,
        line: Line,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options, self._queue, self._line = options, queue, line
        self._clock, self._sleep = clock, sleep
        self.claims = Claims(queue, group)
        self._due = Due(queue)
        self._lease = int(options.lease * NS)
        self._pause = _PAUSE
        self._planned: set[int] = set()  # ends of micro-batches that this process has claimed, or delivered again
        self._acked = self._taken = self._ended = 0
        self._backlog, self._count_again = 0, -1.0
        self._leased_at = -math.inf  # on the clock: then all that is claimed had two thirds of a lease left, or more
        self._settled = -1  # all claims up to this one are acked
        self._acks, self._beats = Line(options.address), Line(options.address)
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
        clean(client, self._queue, client.now_ns() - int(KEPT_SECONDS * NS))

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
        if upto not in self._planned:
            self._line.run(lambda client: client.transaction(lambda: self._deliver_again(client, after, upto)))
            self._planned.add(upto)
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
            self._note(upto, self._settle_on(self._line, upto))

    def advance(self, after: int, most: int | None, until: int | None = None) -> int:
        """`settle(after)` and `claim(after, most, until)`, both at a time: they are the longest steps between batches.

        Only while what is to be acked is certainly leased: else it might be due again, and be claimed once more.
        Where the one lets the other go (order_key, max_concurrency) the claim is repeated when the ack is done.
        """
        leased = self._clock() - self._leased_at < self._options.lease / 2
        if after == self._settled or not leased or self._options.on_lease_lost == "fail":
            self.settle(after)
            return self.claim(after, most, until)
        with ThreadPoolExecutor(1, "queuegate-ack") as beside:
            settling = beside.submit(self._settle_on, self._acks, after)
            upto = self._line.run(lambda client: self._claim(client, after, most, until))
        self._note(after, settling.result())
        if upto == after:
            return self.claim(after, most, until)
        self._planned.add(upto)
        return upto

    def _settle_on(self, line: Line, upto: int) -> Standing:
        return line.run(lambda client: client.transaction(lambda: self._settle(client, upto)))

    def _note(self, upto: int, standing: Standing) -> None:
        self._settled = upto
        self._planned = {seq for seq in self._planned if seq > upto}
        self._acked += len(standing.held) + len(standing.taken)
        self._taken += len(standing.taken)
        self._ended += len(standing.ended)

    def _settle(self, client: Client, upto: int) -> Standing:
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
        deadline = self._clock() + (self._options.poll_timeout if until is None else 0)
        while True:
            upto = self._line.run(lambda client: self._claim(client, after, most, until))
            if upto > after:
                self._pause = _PAUSE
                self._planned.add(upto)
                return upto
            if self._clock() + self._pause > deadline:
                return after
            self._sleep(self._pause)
            self._pause = min(2 * self._pause, _PAUSE_MAX)

    def _claim(self, client: Client, after: int, most: int | None, until: int | None) -> int:
        adopted = self.claims.last(client, after)
        if adopted is not None:
            return adopted
        now = client.now_ns()
        bounds = Bounds(now) if until is None else Bounds(until, until)
        if not self._due.count(client, bounds, 1):
            return after
        options = queue_options(client, self._queue.name)
        limited = options.get("paused") == "1" or any(name in options for name in _BY_THE_PROXY)
        claim = self._claim_by_stream if limited else self._claim_directly
        return self._claims_of(client, after, most, lambda seq, count: claim(client, seq, count, bounds, options))

    def _claims_of(
        self, client: Client, after: int, most: int | None, claim: Callable[[int, int], tuple[int, bool]]
    ) -> int:
        """As many claims as it takes, each in a transaction of its own."""
        seq, total, more = after, 0, True
        while more and (most is None or total < most):
            room = CLAIM_MAX if most is None else min(CLAIM_MAX, most - total)
            count, more = claim(seq + 1, room)
            total += count
            seq += 1 if count else 0
        return seq

    def _claim_directly(
        self, client: Client, seq: int, most: int, bounds: Bounds, options: dict[str, str]
    ) -> tuple[int, bool]:
        """How many messages claim `seq` has now, and whether more may be due."""
        attempts = int(options.get("max_attempts", "0"))

        def work() -> tuple[int, bool]:
            found = self._due.lock(client, bounds, most)
            spent = [id_ for id_, epoch, _ in found if attempts and epoch >= attempts]
            if spent:
                self.claims.reject(client, spent, _SPENT.format(attempts))
            fresh = [(id_, epoch + 1, made) for id_, epoch, made in found if not attempts or epoch < attempts]
            self._write_down(client, seq, fresh, leasing=True)
            return len(fresh), len(found) == most

        return client.transaction(work)

    def _claim_by_stream(
        self, client: Client, seq: int, most: int, bounds: Bounds, options: dict[str, str]
    ) -> tuple[int, bool]:
        """The same through the proxy's own delivery, which alone keeps order and limits. Leases outlast its result.

        Killed between the two, the messages come back when their lease ends: later, not lost.
        """
        condition = ""
        if bounds.created is not None and (column := self._made()):
            condition = f" WHERE {column} <= {bounds.created}"
        found = client.rows(
            f"SELECT {self._due.found} FROM STREAM {self._queue.quoted}{condition}"
            f" WITH (ack_wait = '{int(self._options.lease * 1000)}ms', prefetch = {most}) LIMIT {most} NOWAIT"
        )
        leased = [as_found(row) for row in found]
        client.transaction(lambda: self._write_down(client, seq, leased, leasing=False))
        return len(leased), False

    def _write_down(self, client: Client, seq: int, found: list[Found], *, leasing: bool) -> None:
        if not found:
            return
        began, now = self._clock(), client.now_ns()
        self.claims.record(client, seq, found, now)
        if leasing and (leased := self.claims.lease(client, seq, now + self._lease)) != len(found):
            raise ConnectorError(f"queue {self._queue.name}: {leased} of {len(found)} locked messages were leased")
        self._leased_at = max(self._leased_at, began)

    def _made(self) -> str | None:
        return next((name for name in ("time_created", "time_scheduled") if self._queue.has(name)), None)

    # --- how it stands

    def report(self) -> dict[str, Any]:
        """Counts: what is due, what is claimed, and since the process began: acked, leases lost, ended by others."""
        counts = {"acked": self._acked, "leasesLost": self._taken, "endedByOthers": self._ended}
        try:
            claimed = self._line.run(self.claims.count)
            if self._clock() >= self._count_again:
                self._count()
        except ConnectorError as error:
            return {"error": str(error), **counts}
        return {"backlog": self._backlog, "claimed": claimed, **counts}

    def _count(self) -> None:
        began = self._clock()
        self._backlog = self._line.run(lambda client: self._due.count(client, Bounds(client.now_ns()), _COUNT_MAX))
        ended = self._clock()
        self._count_again = ended + _COUNT_REST * (ended - began)


def _lost(queue: str, standing: Standing) -> str:
    some = ", ".join(str(id_) for id_ in standing.lost[:_TOLD])
    return (
        f"queue {queue}: of the messages of this query, {len(standing.taken)} were leased to somebody else and"
        f" {len(standing.ended)} were ended by somebody else ({some}{', ...' if len(standing.lost) > _TOLD else ''})."
        " Nothing was acked. Give a longer leaseSeconds; to go on from here, run once with onLeaseLost=redeliver"
    )
