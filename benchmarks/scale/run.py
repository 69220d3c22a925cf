"""`python -m benchmarks scale`: all parts in one run, and a report with plots."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from benchmarks.harness import Outcome, Tell
from benchmarks.measure import load, machine, of_the_run
from benchmarks.report import Report
from benchmarks.scale import bodies, proxies, queues, receivers, waiting
from benchmarks.scale.amounts import Amounts, Course

PARTS: Mapping[str, Callable[[Course], Outcome]] = {
    part.NAME: part.measure for part in (queues, receivers, waiting, bodies, proxies)
}


def measure(
    parts: Sequence[str], amounts: Amounts, tell: Tell, of: Mapping[str, Callable[[Course], Outcome]] = PARTS
) -> Report:
    """The parts of these names, or all; what this system does not allow is named in the report."""
    started, load_before = time.monotonic(), load()
    course = Course(amounts, tell)
    outcomes = [run(course) for name, run in of.items() if name in parts or not parts]
    facts = {**machine(), **course.facts, **of_the_run(started, load_before, amounts.repeats)}
    return Report(facts, course.left_out, outcomes)
