"""Many queues on one proxy: what a message of one of them takes, and what it costs that the others are there."""

from __future__ import annotations

from functools import partial

from benchmarks.harness import Outcome
from benchmarks.idle import allow_files
from benchmarks.measure import MEDIAN
from benchmarks.scale.amounts import Columns, Course, in_turn
from benchmarks.scale.clients import RATE
from benchmarks.scale.crowds import beside, create
from benchmarks.scale.sites import Ground, both

NAME = "scale-queues"
TITLE = (
    f"Queues on one proxy, of which one has a lone message at {RATE}/s, from the call of the INSERT to the receiver;"
    " idle: nobody does anything"
)
ONE, EACH = "one receiver", "a receiver in each"


def measure(course: Course) -> Outcome:
    """On both backends. The other queues have nothing to do, without receivers and with one each."""
    sizes = course.amounts.queues
    allow_files(4 * max(sizes) + 1000)
    with both(course.facts, connections=max(sizes)) as grounds:
        cases = {
            f"{ground.name}, {who}, {size:,} queues": partial(_case, course, ground, size, who == EACH)
            for ground in grounds
            for who in (ONE, EACH)
            for size in sizes
        }
        return in_turn(course, NAME, TITLE, MEDIAN, cases)


def _case(course: Course, ground: Ground, size: int, each: bool, repeat: int) -> Columns:
    receivers = size if each else 1
    with ground.site(receivers=receivers) as site:
        first = site.queue().table
        others = [f"scale_{number}" for number in range(size - 1)]
        took = create(site, [first, *others])
        found = beside(site, receivers, others, course.amounts, idle=repeat == 0)
        return {**found, "CREATE QUEUE ms": took * 1000}
