"""How much of everything, and what all parts share: the sizes, the progress, and what had to be left out."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.harness import Outcome, Series, Tell, turned

EMBEDDED, MARIADB = "embedded", "MariaDB"
MILLION = 1_000_000
_LINE = "\n"


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much of everything.

    `idle_seconds` is a period of the safety scan, so that each queue is looked at as often as it is over hours;
    `rest_seconds` is how long one waits, at the most, for a site to come to rest before that.
    Of the waiting messages the `first` ones are drained, and `enqueued` ones come behind them. All numbers of messages
    that are acked or sent in batches are multiples of the batch.
    """

    queues: tuple[int, ...] = (10, 100, 1_000)
    receivers: tuple[int, ...] = (10, 1_000, 10_000)
    waiting: tuple[int, ...] = (MILLION, 10 * MILLION)
    bodies: tuple[int, ...] = (1_000, 10_000, 100_000, MILLION, 10 * MILLION)
    proxies: tuple[int, ...] = (1, 2, 4)
    fleet_queues: tuple[int, ...] = (200, 1_000)
    lone: int = 600
    rest_seconds: float = 5.0
    idle_seconds: float = 30.0
    first: int = 20_000
    enqueued: int = 100_000
    body_bytes: int = 200 * MILLION
    bodies_most: int = 5_000
    drained: int = 100_000
    seconds: float = 4.0
    repeats: int = 3


QUICK = Amounts(
    queues=(50,),
    receivers=(100,),
    waiting=(100_000,),
    bodies=(1_000, MILLION),
    proxies=(1, 2),
    fleet_queues=(50,),
    lone=50,
    rest_seconds=0.5,
    idle_seconds=0.5,
    first=5_000,
    enqueued=10_000,
    body_bytes=5 * MILLION,
    bodies_most=200,
    drained=5_000,
    seconds=1.0,
    repeats=1,
)


@dataclass(frozen=True, slots=True)
class Course:
    """One run: its amounts, what it tells on its way, what it leaves out, and what the report's head says of it."""

    amounts: Amounts
    tell: Tell
    left_out: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)


Columns = Mapping[str, float]


def in_turn(course: Course, name: str, title: str, main: str, cases: Mapping[str, Callable[[int], Columns]]) -> Outcome:
    """Each case once in each repeat, and each repeat begun with another. A case gets the repeat's number, from 0.

    Its name is that of a line of the plot and of a point on the axis, with ", " between. The run takes long:
    a case that fails is left out, and the report says so.
    """
    found = {case: Series(case) for case in cases}
    for repeat in range(course.amounts.repeats):
        for case in [case for case in turned(list(cases), repeat) if case in found]:
            course.tell(f"{name}, {repeat + 1} of {course.amounts.repeats}: {case}")
            try:
                found[case].add(cases[case](repeat))
            except Exception as failure:
                del found[case]
                course.tell(traceback.format_exc())
                course.left_out.append(f"{name}: {case}, which failed: {str(failure).strip().rpartition(_LINE)[2]}")
    return Outcome(name, title, main, list(found.values()), ())


def named(what: str, columns: Columns) -> dict[str, float]:
    """The columns of one of several things that a case does."""
    return {f"{what} {column}": value for column, value in columns.items()}
