"""How the rivals are measured: warm-up, repeats in turn, medians and spread, CPU time beside the wall clock.

Rules:
- Within each repeat every rival has its turn before the next repeat begins, and each repeat begins with another one: a
  machine that grows slow or busy hits all alike.
- Rivals are compared within a repeat, and the median of those ratios is told. That stays true where the absolute
  numbers wander.
- CPU seconds of the proxy divided by the operations: what other programs do besides hardly changes that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

from benchmarks.rivals import DIRECT, HAPROXY, Arena, Rival

T = TypeVar("T")
Tell = Callable[[str], None]
WARM_UP_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Sample:
    """What one turn of one rival gave. `operations` and `proxy_cpu`, `database_cpu` are of the same stretch of time."""

    operations: int
    values: Mapping[str, float]
    proxy_cpu: float | None = None
    database_cpu: float | None = None


Run = Callable[[Arena, Rival, float], Sample]


@dataclass(frozen=True, slots=True)
class Part:
    """Something that is done the same way through every rival.

    `main` is the column that rivals are compared by. `seconds` is the length of a turn where it is a matter of time.
    `quick` parts are those of a quick run, `needs` names a program without which the part is left out.
    """

    name: str
    title: str
    run: Run
    main: str
    rivals: tuple[str, ...]
    seconds: float = 1.0
    operation: str = "query"
    needs: str | None = None
    prepare: Callable[[Arena], None] | None = None
    quick: bool = True


@dataclass(frozen=True, slots=True)
class Special:
    """Something measured in a way of its own."""

    name: str
    title: str
    measure: Callable[[Arena, int, Tell], Outcome]
    needs: str | None = None
    quick: bool = True


@dataclass(frozen=True, slots=True)
class Series:
    """All samples of one rival (or case) in one part: a list of values for each column, in the order of the repeats."""

    rival: str
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, values: Mapping[str, float]) -> None:
        for column, value in values.items():
            self.values.setdefault(column, []).append(value)

    def median(self, column: str) -> float:
        return median(self.values[column])

    def spread(self, column: str) -> tuple[float, float]:
        return min(self.values[column]), max(self.values[column])


@dataclass(frozen=True, slots=True)
class Outcome:
    """A part, measured. `bases` are the rivals that the others are compared with."""

    name: str
    title: str
    main: str
    series: list[Series]
    bases: tuple[str, ...] = (DIRECT, HAPROXY)

    def of(self, rival: str) -> Series | None:
        return next((series for series in self.series if series.rival == rival), None)

    def ratio(self, rival: str, base: str, column: str | None = None) -> float | None:
        """The median over the repeats of this rival's value by that of `base` in the same repeat."""
        column = column or self.main
        ours, theirs = self.of(rival), self.of(base)
        if ours is None or theirs is None or column not in ours.values or column not in theirs.values:
            return None
        return median(a / b for a, b in zip(ours.values[column], theirs.values[column], strict=True))

    def added(self, rival: str, column: str) -> list[float] | None:
        """What this rival adds to the direct way in each repeat."""
        ours, direct = self.of(rival), self.of(DIRECT)
        if ours is None or direct is None:
            return None
        return [a - b for a, b in zip(ours.values[column], direct.values[column], strict=True)]


def measure(part: Part | Special, arena: Arena, repeats: int, tell: Tell) -> Outcome:
    """All repeats of a part."""
    if isinstance(part, Special):
        return part.measure(arena, repeats, tell)
    rivals = arena.named(*part.rivals)
    if part.prepare is not None:
        part.prepare(arena)
    series = {rival.name: Series(rival.name) for rival in rivals}
    for rival in rivals:
        part.run(arena, rival, WARM_UP_SECONDS)
    for repeat in range(repeats):
        tell(f"{part.title}: {repeat + 1} of {repeats}")
        for rival in turned(rivals, repeat):
            series[rival.name].add(_columns(part, part.run(arena, rival, part.seconds)))
    return Outcome(part.name, part.title, part.main, list(series.values()))


def turned(items: Sequence[T], by: int) -> list[T]:
    """The same in the same order, begun at another place."""
    start = by % len(items)
    return [*items[start:], *items[:start]]


def _columns(part: Part, sample: Sample) -> dict[str, float]:
    columns = dict(sample.values)
    for name, used in (("proxy", sample.proxy_cpu), ("database", sample.database_cpu)):
        if used is not None and sample.operations:
            columns[f"{name} CPU us/{part.operation}"] = used / sample.operations * 1e6
    return columns


class Stretch:
    """CPU seconds of proxy and database from the moment it is made until `sample`."""

    def __init__(self, arena: Arena, rival: Rival) -> None:
        self._arena, self._rival = arena, rival
        self._proxy, self._database = rival.cpu(), arena.database_cpu()
        self._ended: tuple[float, float] | None = None

    def end(self) -> None:
        """Count no further; `sample` does so itself where nobody did before."""
        self._ended = self._rival.cpu() - self._proxy, self._arena.database_cpu() - self._database

    def sample(self, operations: int, values: Mapping[str, float]) -> Sample:
        if self._ended is None:
            self.end()
        assert self._ended is not None
        proxy, database = self._ended
        return Sample(operations, values, proxy, database)
