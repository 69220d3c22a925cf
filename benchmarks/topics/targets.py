"""What topics have to reach, and whether this run did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.harness import Outcome
from benchmarks.targets import Target

TOPIC = "queuegate, topic"
COMMAND_LINE_REPLAY = "queuegate, replay, mariadb --quick"
COST_MAX_PERCENT = 3.0
SEEK_MAX_MS = 1000.0
SEEK_MESSAGES = 10_000_000  # that the target is meant for
"""The sleeping groups, and what they are compared with: the same without them."""
SLEEPING = (("99 groups that sleep", "no group"), ("100 groups, of which 1 reads", "1 group that reads"))


@dataclass(frozen=True, slots=True)
class _Line:
    """One number of one line of one table. `least` is a lower bound, else it is an upper one."""

    outcome: str
    series: str
    column: str
    bound: float
    unit: str
    least: bool = True

    def judged(self, outcome: Outcome) -> Target | None:
        series = outcome.of(self.series)
        if series is None or self.column not in series.values:
            return None
        reached = series.median(self.column)
        met = reached >= self.bound if self.least else reached <= self.bound
        sign = ">=" if self.least else "<="
        digits: Callable[[float], str] = (lambda v: f"{v:,.0f}") if self.bound >= 100 else (lambda v: f"{v:.2f}")
        wanted = f"{sign} {self.bound:,.0f} {self.unit}"
        return Target(f"{outcome.title}: {self.series}", wanted, f"{digits(reached)} {self.unit}", met)


_LINES = (
    _Line("topic-producers-sysbench", TOPIC, "messages/s", 10_000, "messages/s"),
    _Line("topic-groups-1-1000", TOPIC, "messages/s", 30_000, "messages/s"),
    _Line("topic-groups-3-1000", TOPIC, "messages/s", 60_000, "messages/s"),
    _Line("topic-lone", TOPIC, "median ms", 2, "ms", least=False),
    _Line("topic-replay", COMMAND_LINE_REPLAY, "rows/s", 200_000, "rows/s"),
)


def topic_targets(outcomes: Mapping[str, Outcome]) -> list[Target]:
    """Those that this run has measured."""
    lines = (line.judged(outcomes[line.outcome]) for line in _LINES if line.outcome in outcomes)
    return [*(line for line in lines if line is not None), *_sleepers(outcomes), *_seeks(outcomes)]


def _sleepers(outcomes: Mapping[str, Outcome]) -> Iterator[Target]:
    outcome = outcomes.get("topic-sleepers")
    for many, base in SLEEPING:
        if outcome is not None and (ratio := outcome.ratio(many, base)) is not None:
            cost = (1 - ratio) * 100
            yield Target(
                f"{outcome.title}: what {many} cost beside {base}",
                f"<= {COST_MAX_PERCENT:.0f} %", f"{cost:.1f} %", cost <= COST_MAX_PERCENT,
            )  # fmt: skip


def _seeks(outcomes: Mapping[str, Outcome]) -> Iterator[Target]:
    """Each kind of seek. The title says how long the topic was; the target is meant for SEEK_MESSAGES."""
    outcome = outcomes.get("topic-seek")
    for series in () if outcome is None else outcome.series:
        if outcome is not None:
            reached = series.median(outcome.main)
            wanted = f"<= {SEEK_MAX_MS:,.0f} ms, with {SEEK_MESSAGES:,}"
            yield Target(f"{outcome.title}: {series.rival}", wanted, f"{reached:,.0f} ms", reached <= SEEK_MAX_MS)
