"""A share of the simulation in every run of the tests, and its own tests: it repeats itself, and it finds bugs."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from sim_planted import PLANTED, planted
from sim_run import KINDS, Outcome, report, run_chunk, simulate, smallest
from sim_scenario import scenario
from sim_topic_scenario import topic_scenario

FIXED = 10  # seeds of each part: the same in every run
MORE = 4  # and so many that were never run before
PLANTED_SEEDS_MAX = 400
FOUND = (504621,)  # seeds that once failed and are none of the fixed ones
FOUND_WITH_TOPICS = (50, 75, 1045, 1054, 303818, 403414, 160949290)

# What a killed process was about to do is never done: its coroutines are thrown away as they are.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnraisableExceptionWarning", "ignore:coroutine .* was never awaited:RuntimeWarning"
    ),
    pytest.mark.timeout(600),  # seconds of work, minutes where the machine has other work
    pytest.mark.long,
]


def hold(seeds: range, kind: str = "queues") -> None:
    tally = run_chunk(kind, seeds)
    assert tally.counts["handed"] > len(seeds), "hardly anything happened"
    assert not tally.failed, report(simulate(KINDS[kind](tally.failed[0])))


@pytest.mark.parametrize("part", range(8))
def test_all_claims_hold(part):
    hold(range(1 + part * FIXED, 1 + (part + 1) * FIXED))


@pytest.mark.parametrize("part", range(6))
def test_all_claims_on_topics_hold(part):
    hold(range(1 + part * FIXED, 1 + (part + 1) * FIXED), "topics")


@pytest.mark.parametrize(
    "told", [*map(scenario, FOUND), *map(topic_scenario, FOUND_WITH_TOPICS)], ids=lambda told: f"{told.seed}"
)
def test_what_once_failed_holds(told):
    outcome = simulate(told)
    assert outcome.violation is None, report(outcome)


@pytest.mark.parametrize("part", range(4))
def test_all_claims_hold_with_more_seeds(part):
    """SIMULATION_SEED=n takes others; `make simulate` does by the thousand. A failure tells the seed that failed."""
    first = int(os.environ.get("SIMULATION_SEED", str(10**6))) + part * MORE
    hold(range(first, first + MORE))
    hold(range(first, first + MORE), "topics")


def test_a_seed_gives_the_same_history_in_any_process():
    """Whatever the hashes of the process are, and whatever it has simulated before."""
    script = "; ".join(
        (
            "from sim_run import KINDS, simulate",
            "seeds = range(int(__import__('sys').argv[1]), 25)",
            "[print(simulate(of(seed)).history) for seed in seeds for of in KINDS.values()]",
        )
    )
    histories = []
    for hash_seed, first in (("1", 20), ("2", 18)):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", script, str(first)],
            cwd=Path(__file__).parent,
            env={**environment, "PYTHONPATH": os.pathsep.join((".", "../.."))},
            capture_output=True,
            text=True,
            check=True,
        )
        histories.append(done.stdout)
    assert len(histories[0]) > 10_000
    assert histories[1].endswith(histories[0])


def found(name: str) -> Outcome:
    """The first simulation that finds the bug."""
    bug = PLANTED[name]
    for told in islice(filter(bug.able, map(KINDS[bug.kind], range(bug.first, 10**6))), PLANTED_SEEDS_MAX):
        outcome = simulate(told)
        if outcome.violation is not None and outcome.violation.claim == bug.claim:
            return outcome
    pytest.fail(f"not found in {PLANTED_SEEDS_MAX} seeds")


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name):
    with planted(name):
        outcome = found(name)
    assert simulate(outcome.scenario).violation is None, "without the bug the same seed is clean"


def test_a_failure_is_made_small_and_still_the_same():
    with planted("claim ignores leases"):
        outcome = found("claim ignores leases")
        small, dropped = smallest(outcome)
        assert dropped, "nothing could be left out"
        assert small.violation is not None and small.violation.claim == PLANTED["claim ignores leases"].claim
        again = simulate(outcome.scenario.without(dropped))
    assert again.history == small.history
    assert "--replay" in report(outcome)
