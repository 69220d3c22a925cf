"""Many receivers, of which most wait: memory of each, what they cost, and what a lone message takes beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.harness import Outcome, Series
from benchmarks.idle import allow_files
from benchmarks.measure import MEDIAN
from benchmarks.scale.amounts import EMBEDDED, Columns, Course, in_turn
from benchmarks.scale.clients import RATE
from benchmarks.scale.crowds import beside, create
from benchmarks.scale.sites import Ground, both

NAME = "scale-receivers"
TITLE = (
    f"Receivers at one proxy; a lone message at {RATE}/s, from the call of the INSERT to whom it is handed to; idle:"
    " nobody does anything"
)
MEMORY, PER_RECEIVER = "proxy MB", "proxy KB/receiver"
OTHER_QUEUES = 10
_FILES_BESIDE = 1000
_OTHERS = tuple(f"scale_others_{number}" for number in range(OTHER_QUEUES))


@dataclass(frozen=True, slots=True)
class _Way:
    """How clients log in, and how many files each costs the proxy: with the database's accounts it has a line there."""

    ground: Ground
    name: str
    config: Mapping[str, Any]
    files: int


def measure(course: Course) -> Outcome:
    """On both backends; all receivers in the queue of the message, and all but one in ten others."""
    sizes = course.amounts.receivers
    with both(course.facts, connections=max(sizes)) as grounds:
        cases = {
            f"{way.name}, {where}, {size:,} receivers": partial(_case, course, way, size, others)
            for ground in grounds
            for way in _ways(ground)
            for where, others in ((f"{OTHER_QUEUES} other queues", _OTHERS), ("one queue", ()))
            for size in sizes
            if _allowed(course, way, size)
        }
        found = in_turn(course, NAME, TITLE, MEDIAN, cases)
    add_memory(found, sizes[0])
    return found


def _ways(ground: Ground) -> list[_Way]:
    if ground.name == EMBEDDED:
        return [_Way(ground, ground.name, {}, 1)]
    by_proxy = {"auth": "proxy", "users": [{"name": "root", "password": ""}]}
    return [
        _Way(ground, f"{ground.name}, auth: proxy", by_proxy, 1),
        _Way(ground, f"{ground.name}, auth: backend", {}, 2),
    ]


def _allowed(course: Course, way: _Way, size: int) -> bool:
    """Whether this system lets a process open that many files. What is left out is named once."""
    needed = way.files * size + _FILES_BESIDE
    if (allowed := allow_files(needed)) >= needed:
        return True
    reason = f"{size:,} receivers of {way.name}, for which the proxy opens {needed:,} files, of {allowed:,} allowed"
    if reason not in course.left_out:
        course.left_out.append(reason)
    return False


def _case(course: Course, way: _Way, size: int, others: tuple[str, ...], repeat: int) -> Columns:
    with way.ground.site(receivers=size, **way.config) as site:
        create(site, [site.queue().table, *others])
        return beside(site, size, others, course.amounts, idle=repeat == 0)


def add_memory(outcome: Outcome, fewest: int) -> None:
    """What each receiver adds to the memory of the proxy, beyond a proxy with the fewest of the same repeat."""
    first: dict[str, Series] = {}
    for series in outcome.series:
        line, _, point = series.rival.rpartition(", ")
        size = int(point.split()[0].replace(",", ""))
        if size == fewest:
            first[line] = series
        elif line in first:
            pairs = zip(series.values[MEMORY], first[line].values[MEMORY], strict=True)
            series.values[PER_RECEIVER] = [(many - few) * 1000 / (size - fewest) for many, few in pairs]
