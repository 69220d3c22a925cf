"""Outcomes of suites by test id, and what two ways of running the same suite differ in.

A run is a mapping from test id to outcome. Several runs of each way tell a difference from a test that is not even
equal to itself: it counts as a difference only where no direct run had the outcome of any run through the proxy.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MISSING = "not run"
_WORST = ("failed", "passed", "skipped")


@dataclass(frozen=True)
class Outcome:
    """How a test ended, and the first words of why."""

    verdict: str  # passed, failed or skipped
    detail: str = ""


Run = Mapping[str, Outcome]


@dataclass(frozen=True)
class Difference:
    """A test that ends otherwise through the proxy than it does directly."""

    test: str
    direct: str
    proxied: str
    detail: str

    @property
    def lost(self) -> bool:
        """Whether it is worse through the proxy. A test that only fails directly (on a busy machine, say) is not."""
        return self.proxied != "passed"


@dataclass(frozen=True)
class Comparison:
    """What the runs of one suite had in common and what not."""

    suite: str
    tests: int
    direct: Mapping[str, int]
    proxied: Mapping[str, int]
    differences: Sequence[Difference]
    flaky: Sequence[str]
    reworded: Sequence[Difference] = field(default=())
    """Failed both ways, with other words: a hint for whoever looks for a cause, not a difference in what passes."""
    faults: Sequence[str] = field(default=())
    """What was wrong with the proxy itself, whatever the tests said."""

    @property
    def nothing_lost(self) -> bool:
        """Whether nothing is lost through the proxy."""
        return (
            not any(difference.lost for difference in self.differences)
            and not self.faults
            and self.direct.get("passed", 0) > 0
        )


def read_results(file: Path) -> dict[str, Outcome]:
    """The outcomes that a recorder wrote. A test that was run twice keeps its worst outcome."""
    found: dict[str, Outcome] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        entry = json.loads(line)
        keep_worst(found, entry["id"], Outcome(entry["outcome"], entry["detail"]))
    return found


def keep_worst(found: dict[str, Outcome], test: str, outcome: Outcome) -> None:
    """Enter an outcome; of several for one id the one counts that says most against it."""
    known = found.get(test)
    if known is None or _WORST.index(outcome.verdict) < _WORST.index(known.verdict):
        found[test] = outcome


def read_go(lines: Iterable[str]) -> dict[str, Outcome]:
    """The outcomes in what `go test -json` prints."""
    verdicts = {"pass": "passed", "fail": "failed", "skip": "skipped"}
    found: dict[str, Outcome] = {}
    said: dict[str, list[str]] = {}
    for line in lines:
        if not line.startswith("{"):
            continue
        entry = json.loads(line)
        test = f"{entry.get('Package', '')}:{entry.get('Test', '')}"
        if entry.get("Action") == "output":
            said.setdefault(test, []).append(entry["Output"].strip())
        elif entry.get("Action") in verdicts and "Test" in entry:
            words = " ".join(text for text in said.get(test, ()) if not text.startswith(("===", "---")))
            keep_worst(found, test, Outcome(verdicts[entry["Action"]], words[:400]))
    return found


def compare(suite: str, direct: Sequence[Run], proxied: Sequence[Run], faults: Sequence[str] = ()) -> Comparison:
    """What the runs differ in, by test id."""
    tests = sorted({test for run in (*direct, *proxied) for test in run})
    differences = list(_differences(tests, direct, proxied))
    flaky = [test for test in tests if len(_verdicts(test, direct)) > 1 or len(_verdicts(test, proxied)) > 1]
    return Comparison(
        suite, len(tests), _counts(direct[-1]), _counts(proxied[-1]), differences, flaky,
        list(_reworded(tests, direct[-1], proxied[-1])), list(faults),
    )  # fmt: skip


def _differences(tests: Iterable[str], direct: Sequence[Run], proxied: Sequence[Run]) -> Iterator[Difference]:
    for test in tests:
        one, other = _verdicts(test, direct), _verdicts(test, proxied)
        if one.isdisjoint(other):
            detail = proxied[-1].get(test) or direct[-1].get(test)
            yield Difference(test, "/".join(sorted(one)), "/".join(sorted(other)), detail.detail if detail else "")


def _reworded(tests: Iterable[str], direct: Run, proxied: Run) -> Iterator[Difference]:
    for test in tests:
        one, other = direct.get(test), proxied.get(test)
        if one and other and one.verdict == other.verdict == "failed" and one.detail != other.detail:
            yield Difference(test, one.detail, other.detail, "")


def _verdicts(test: str, runs: Sequence[Run]) -> set[str]:
    return {run[test].verdict if test in run else MISSING for run in runs}


def _counts(run: Run) -> dict[str, int]:
    return dict(Counter(outcome.verdict for outcome in run.values()))
