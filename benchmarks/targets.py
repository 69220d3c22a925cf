"""What a release has to reach, and whether this run did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from benchmarks.harness import Outcome
from benchmarks.rivals import DIRECT, HAPROXY, HAPROXY_DEFAULT, QUEUEGATE, WORKERS
from benchmarks.stalled import ONE_READER

THROUGHPUT_MIN = 0.8  # of HAProxy's point selects with 8 connections
ADDED_LATENCY_MAX = 1.2  # times what HAProxy adds to one connection
RESULT_MIN = 0.8  # of the direct way's rows a second
STALLED_MB_MAX = 100.0  # resident, while readers stand still before 1 GB of results
IDLE_KB_MAX = 60.0  # for each idle connection

SINGLE = ("point_select-1-prepared", "point_select-1-text", "loop-pymysql", "loop-bare")
MEDIAN = "median us"


@dataclass(frozen=True, slots=True)
class Target:
    """One line of the verdict."""

    what: str
    wanted: str
    reached: str
    met: bool


def targets(outcomes: Mapping[str, Outcome]) -> list[Target]:
    """Those that this run has measured."""
    return [*_throughput(outcomes), *_latency(outcomes), *_results(outcomes), *_memory(outcomes)]


def _throughput(outcomes: Mapping[str, Outcome]) -> Iterator[Target]:
    for mode in ("prepared", "text"):
        outcome = outcomes.get(f"point_select-8-{mode}")
        for ours, theirs in ((QUEUEGATE, HAPROXY), (WORKERS, HAPROXY_DEFAULT)):
            if outcome is not None and (ratio := outcome.ratio(ours, theirs)) is not None:
                what = f"point selects, 8 connections, {mode}: {ours} / {theirs}"
                yield Target(what, f">= {THROUGHPUT_MIN}", f"{ratio:.2f}", ratio >= THROUGHPUT_MIN)


def added_latency(outcome: Outcome) -> tuple[float, float, float] | None:
    """What HAProxy adds, what queuegate adds (us, medians), and the median of their ratios within each repeat.

    A repeat in which HAProxy seems to be quicker than the direct way (the scheduler's doing) cannot be compared with.
    """
    theirs, ours = outcome.added(HAPROXY, MEDIAN), outcome.added(QUEUEGATE, MEDIAN)
    pairs = [(b, a) for a, b in zip(ours or (), theirs or (), strict=True) if b > 0]
    if not pairs:
        return None
    return median(b for b, _ in pairs), median(a for _, a in pairs), median(a / b for b, a in pairs)


def _latency(outcomes: Mapping[str, Outcome]) -> Iterator[Target]:
    for name in SINGLE:
        outcome = outcomes.get(name)
        if outcome is not None and (added := added_latency(outcome)) is not None:
            theirs, ours, ratio = added
            reached = f"{ratio:.2f} ({ours:.1f} us / {theirs:.1f} us)"
            what = f"added latency, {outcome.title}"
            yield Target(what, f"<= {ADDED_LATENCY_MAX} x HAProxy", reached, ratio <= ADDED_LATENCY_MAX)


def _results(outcomes: Mapping[str, Outcome]) -> Iterator[Target]:
    for name in ("result-bare", "result-cli"):
        outcome = outcomes.get(name)
        if outcome is not None and (ratio := outcome.ratio(QUEUEGATE, DIRECT)) is not None:
            yield Target(f"{outcome.title}: of direct", f">= {RESULT_MIN}", f"{ratio:.2f}", ratio >= RESULT_MIN)


def _memory(outcomes: Mapping[str, Outcome]) -> Iterator[Target]:
    stalled = outcomes.get("stalled")
    for series in () if stalled is None else stalled.series:
        if stalled is not None and series.rival in ONE_READER:
            peak = series.median(stalled.main)
            what, wanted = f"resident memory, {series.rival}", f"< {STALLED_MB_MAX:.0f} MB"
            yield Target(what, wanted, f"{peak:.0f} MB", peak < STALLED_MB_MAX)
    if (idle := outcomes.get("idle")) is not None and (ours := idle.of(QUEUEGATE)) is not None:
        for column in ours.values:
            size = ours.median(column)
            yield Target(f"{column}, idle", f"< {IDLE_KB_MAX:.0f} KB", f"{size:.1f} KB", size < IDLE_KB_MAX)
