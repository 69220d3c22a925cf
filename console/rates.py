"""Numbers over time: for each queue a ring of points, in memory, which ends with the process. Pure; the time is an
argument.

There are two rings: FINE points of FINE_SECONDS for the last minutes, and COARSE points of COARSE_SECONDS for the last
hours. A point is how often each of COUNTED went up in that time, and which delays half and 99 of 100 deliveries did not
exceed, as 32-bit floats: 13 KB for a queue. Only queues in which something happens have rings, and QUEUES_MAX of them:
27 MB. A further queue gets the place of one that was idle for the time of the FINE points, else none: then its numbers
are not known. What was counted between two samples is spread over the time between them.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.delivery.metrics import DELAY_BOUNDS
from engine.model.queue import QueueName

COUNTED = ("enqueued", "sent", "acked", "redelivered", "expired")
DELAYS = {"p50": 0.5, "p99": 0.99}
"""Of the time from when a message is due to its first delivery: the share of deliveries that did not take longer."""

FINE_SECONDS, FINE = 5, 120
COARSE_SECONDS, COARSE = 60, 360
QUEUES_MAX = 2000
STALE_SECONDS = 90.0
"""After this time without a sample nobody knows what was counted lately."""

Counters = Mapping[QueueName, Sequence[float]]
"""By queue the values of COUNTED, and behind them how many deliveries had a delay of each bucket: up to each of
DELAY_BOUNDS, and beyond. A queue that is not there has counted nothing."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one process has counted since it started. `seconds`: how long ago that was, None where it is not told."""

    counters: Counters
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Samples:
    """Of all processes that serve the database, by their names. `missing`: how many more there are. `finds_others`:
    whether the proxy would know of other proxies."""

    processes: Mapping[str, Sample] = field(default_factory=dict)
    missing: int = 0
    finds_others: bool = True


PROCESSES_MAX = 1000
"""Whose last counts are remembered, the latest: each start of a process is another one."""

_WIDTH = len(COUNTED) + len(DELAYS)
_NOTHING = (0.0,) * (len(COUNTED) + len(DELAY_BOUNDS) + 1)


def quantile(share: float, counts: Sequence[float]) -> float:
    """The delay in seconds that this share of deliveries did not exceed, as Prometheus's histogram_quantile has it:
    evenly spread within a bucket, and at most the last bound. `counts`: of each bucket, not all of them 0."""
    wanted, before, least = share * sum(counts), 0.0, 0.0
    for bound, count in zip(DELAY_BOUNDS, counts, strict=False):
        if count and before + count >= wanted:
            return least + (bound - least) * (wanted - before) / count
        before, least = before + count, bound
    return DELAY_BOUNDS[-1]


class _Ring:
    """Points at fixed steps of time; what nobody has added is 0."""

    __slots__ = ("_buckets", "_last", "_length", "_step", "_values")

    def __init__(self, step: int, length: int) -> None:
        self._step, self._length = step, length
        self._values = array("f", bytes(4 * length * _WIDTH))
        self._last = 0  # the newest step that is in it
        self._buckets = array("f", bytes(4 * (len(DELAY_BOUNDS) + 1)))  # of that step

    def add(self, at: float, increases: Sequence[float], seconds: float = 0.0) -> None:
        """`seconds`: in how much time before they came about."""
        newest = self._turned_to(at)
        steps = max(1, round(seconds / self._step))
        places = [(step % self._length) * _WIDTH for step in range(newest - min(steps, self._length) + 1, newest + 1)]
        for place in places:
            for n, value in enumerate(increases[: len(COUNTED)]):
                self._values[place + n] += value / steps
        delays = increases[len(COUNTED) :]
        if not any(delays):
            return
        for n, value in enumerate(delays):
            self._buckets[n] += value
        for n, share in enumerate(DELAYS.values(), len(COUNTED)):
            for place in places[:-1]:
                self._values[place + n] = quantile(share, delays)
            self._values[places[-1] + n] = quantile(share, self._buckets)

    def points(self, now: float, what: int) -> list[float]:
        """One column of the points, the oldest first, up to now."""
        step = self._turned_to(now)
        order = ((step + 1 + n) % self._length for n in range(self._length))
        return [self._values[place * _WIDTH + what] for place in order]

    def _turned_to(self, at: float) -> int:
        step = max(int(at // self._step), self._last)
        for passed in range(max(self._last + 1, step - self._length + 1), step + 1):
            for n in range(_WIDTH):
                self._values[(passed % self._length) * _WIDTH + n] = 0.0
        if step > self._last:
            self._buckets = array("f", bytes(4 * len(self._buckets)))
        self._last = step
        return step


@dataclass(slots=True)
class _Rings:
    """Of one queue. `active`: when something was last counted."""

    fine: _Ring = field(default_factory=lambda: _Ring(FINE_SECONDS, FINE))
    coarse: _Ring = field(default_factory=lambda: _Ring(COARSE_SECONDS, COARSE))
    active: float = 0.0


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of whom the last counters were: of so many `processes`, without those that are `missing`. `finds_others`: whether
    the proxy would know of other proxies."""

    processes: int = 0
    missing: int = 0
    finds_others: bool = True


class Rates:
    """See the module. `since`: when it began to be filled; None: it was never. `coverage`: that of the last sample."""

    def __init__(self) -> None:
        self._rings: OrderedDict[QueueName, _Rings] = OrderedDict()
        self._before: OrderedDict[str, tuple[float, Counters]] = OrderedDict()
        self._refused = self._replaced = float("-inf")  # when a queue got no rings last, and when it lost them
        self.since: float | None = None
        self.last_sampled: float | None = None
        self.coverage = Coverage()

    def __len__(self) -> int:
        return len(self._rings)

    def add(self, samples: Samples, at: float) -> None:
        """The counters as they are now. The first time those of a process say nothing of how fast they go up, unless it
        has started since the last sample."""
        last, self.last_sampled = self.last_sampled, at
        self.coverage = Coverage(len(samples.processes), samples.missing, samples.finds_others)
        self.since = at if self.since is None else self.since
        for process, sample in samples.processes.items():
            before = self._before.get(process)
            if before is None and last is not None and sample.seconds is not None and sample.seconds <= at - last:
                before = at - sample.seconds, {}
            if before is not None:
                self._add(*before, sample.counters, at)
            self._before[process] = at, sample.counters
            self._before.move_to_end(process)
        while len(self._before) > PROCESSES_MAX:
            self._before.popitem(last=False)

    def _add(self, since: float, before: Counters, counters: Counters, at: float) -> None:
        for queue, values in counters.items():
            old = before.get(queue, _NOTHING)
            # A counter that has gone down was reset: its queue was dropped and created again.
            increases = [new - then if new >= then else new for new, then in zip(values, old, strict=False)]
            if any(increases) and (rings := self._rings_of(queue, at)) is not None:
                rings.fine.add(at, increases, at - since)
                rings.coarse.add(at, increases, at - since)

    def _rings_of(self, queue: QueueName, at: float) -> _Rings | None:
        """Those of a queue that is active; None where all are in use."""
        if queue not in self._rings:
            if len(self._rings) >= QUEUES_MAX:
                # Queues come in a fixed order: if the one that was active first made room, each would lose its rings.
                if at - next(iter(self._rings.values())).active < FINE_SECONDS * FINE:
                    self._refused = at
                    return None
                self._rings.popitem(last=False)
                self._replaced = at
            self._rings[queue] = _Rings()
        self._rings[queue].active = at
        self._rings.move_to_end(queue)
        return self._rings[queue]

    def is_known(self, now: float) -> bool:
        """Whether the counters were read lately."""
        return self.last_sampled is not None and now - self.last_sampled <= STALE_SECONDS

    def fine(self, queue: QueueName, what: str, now: float) -> list[float | None]:
        """Increases in the last FINE points; None where they are not known."""
        rings = self._rings.get(queue)
        return self._points(None if rings is None else rings.fine, what, now, FINE_SECONDS, FINE)

    def coarse(self, queue: QueueName, what: str, now: float) -> list[float | None]:
        """Increases in the last COARSE points; None where they are not known."""
        rings = self._rings.get(queue)
        return self._points(None if rings is None else rings.coarse, what, now, COARSE_SECONDS, COARSE)

    def _points(self, ring: _Ring | None, what: str, now: float, step: int, length: int) -> list[float | None]:
        points: list[float | None]
        if ring is not None:
            points = [*ring.points(now, COUNTED.index(what))]
        else:
            # Whose rings another queue got was idle for the time of the fine points.
            lost = self._refused if length == FINE else max(self._refused, self._replaced)
            points = [0.0 if now - lost >= step * length else None] * length
        unread = 0 if self.is_known(now) else int(now // step - (self.last_sampled or 0.0) // step)
        return points[: max(0, length - unread)] + [None] * min(unread, length)

    def delays(self, queue: QueueName, what: str, now: float, *, fine: bool) -> list[float | None]:
        """One of DELAYS in seconds, in the points of the last minutes (`fine`) or hours; None where none was delivered
        for the first time."""
        rings = self._rings.get(queue)
        if rings is None:
            return [None] * (FINE if fine else COARSE)
        points = (rings.fine if fine else rings.coarse).points(now, len(COUNTED) + list(DELAYS).index(what))
        return [value or None for value in points]

    def last_minute(self, queue: QueueName, what: str, now: float) -> float | None:
        """How often in the last minute; None where the counters are not known."""
        return self.lately(queue, what, now, 60)

    def lately(self, queue: QueueName, what: str, now: float, seconds: int) -> float | None:
        """How often in the last seconds before the last sample, at most FINE_SECONDS * FINE; None where the counters
        are not known."""
        if not self.is_known(now) or self.last_sampled is None:
            return None
        later = int(now // FINE_SECONDS - self.last_sampled // FINE_SECONDS)
        points = self.fine(queue, what, now)[-(seconds // FINE_SECONDS + later) :]
        return None if None in points else sum(point or 0.0 for point in points)
