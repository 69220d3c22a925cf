"""Runs simulations: many seeds on some processes, or one again, made small where it fails.

    python tests/simulation/sim_run.py --seeds 10000           # what `make simulate` does
    python tests/simulation/sim_run.py --kind topics           # only worlds with a topic
    python tests/simulation/sim_run.py --kind topics --replay 4711           # one seed, with its history
    python tests/simulation/sim_run.py --kind queues --replay 4711 --drop kill,receiver1

A run prints its first seed; every failure prints its own seed, and what could be dropped without losing it.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import SystemRandom

import sim_paths  # noqa: F401
from sim_claims import Violation
from sim_scenario import Scenario, scenario
from sim_topic_scenario import TopicScenario, topic_scenario
from sim_topic_world import TopicWorld
from sim_world import World

KINDS: Mapping[str, Callable[[int], Scenario]] = {"queues": scenario, "topics": topic_scenario}
"""What can be simulated: the scenario of a seed."""


CHUNK = 50  # seeds that a process does between two words about its progress
SHRINK_RUNS_MAX = 120


@dataclass
class Outcome:
    """Of one simulation."""

    scenario: Scenario
    violation: Violation | None
    world: World

    @property
    def history(self) -> str:
        lines = [f"{at:10.4f} {actor:<14} {text}" for at, actor, text in self.world.claims.history]
        return "\n".join(lines)


def simulate(told: Scenario) -> Outcome:
    """Run one scenario."""
    world = TopicWorld(told) if isinstance(told, TopicScenario) else World(told)
    return Outcome(told, world.run(), world)


def smallest(failed: Outcome) -> tuple[Outcome, frozenset[str]]:
    """The same claim violated with less: parts are dropped one by one as long as it still fails."""
    assert failed.violation is not None
    whole, dropped, best = failed.scenario, frozenset[str](), failed
    runs = 0
    again = True
    while again and runs < SHRINK_RUNS_MAX:
        again = False
        for part in [part for part in whole.parts if part not in dropped]:
            runs += 1
            tried = simulate(whole.without(dropped | {part}))
            if tried.violation is not None and tried.violation.claim == failed.violation.claim:
                dropped, best, again = dropped | {part}, tried, True
    return best, dropped


def report(failed: Outcome) -> str:
    """A failure for people: seed, scenario, what happened last, and how to see it again."""
    assert failed.violation is not None
    small, dropped = smallest(failed)
    kind = "topics" if isinstance(failed.scenario, TopicScenario) else "queues"
    again = f"--kind {kind} --replay {failed.scenario.seed}" + (
        f" --drop {','.join(sorted(dropped))}" if dropped else ""
    )
    return (
        f"{small.scenario.describe()}\n{small.history}\n"
        f"seed {failed.scenario.seed}: {failed.violation}\n  again: python tests/simulation/sim_run.py {again}\n"
    )


@dataclass
class Tally:
    """What many simulations came to."""

    seeds: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failed: list[int] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.counts.update(outcome.world.claims.counts)
        self.counts["messages"] += len(outcome.world.claims.committed)
        if outcome.violation is not None:
            self.failed.append(outcome.scenario.seed)

    def __iadd__(self, other: Tally) -> Tally:
        self.seeds += other.seeds
        self.counts.update(other.counts)
        self.failed += other.failed
        return self


def run_chunk(kind: str, seeds: range) -> Tally:
    """Some seeds, one after the other."""
    tally = Tally()
    gc.freeze()
    gc.disable()  # a world is garbage as a whole
    for seed in seeds:
        tally.add(simulate(KINDS[kind](seed)))
        if seed % 10 == 0:
            gc.collect()
    gc.enable()
    return tally


def run_many(kind: str, first: int, count: int, jobs: int) -> Iterator[Tally]:
    """All seeds from `first` on; yields what is known so far."""
    chunks = [range(at, min(at + CHUNK, first + count)) for at in range(first, first + count, CHUNK)]
    total = Tally()
    if jobs == 1:
        for chunk in chunks:
            total += run_chunk(kind, chunk)
            yield total
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for tally in pool.imap_unordered(partial(run_chunk, kind), chunks):
            total += tally
            yield total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=list(KINDS), help="what is simulated; both where not given")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, help="the first seed; a random one where not given")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replay", type=int, help="run this seed alone and tell its history")
    parser.add_argument("--drop", default="", help="parts of the scenario to leave out, separated by commas")
    arguments = parser.parse_args()
    kinds = list(KINDS) if arguments.kind is None else [arguments.kind]
    if arguments.replay is not None:
        dropped = frozenset(filter(None, arguments.drop.split(",")))
        return max(replay(kind, arguments.replay, dropped) for kind in kinds)
    first = SystemRandom().randrange(1, 1_000_000_000) if arguments.first is None else arguments.first
    return max(run(kind, first, arguments.seeds, arguments.jobs) for kind in kinds)


def replay(kind: str, seed: int, dropped: frozenset[str]) -> int:
    outcome = simulate(KINDS[kind](seed).without(dropped))
    print(outcome.scenario.describe())
    print(outcome.history)
    print(f"seed {seed}: {outcome.violation or 'all claims hold'}; {dict(outcome.world.claims.counts)}")
    return 1 if outcome.violation else 0


def run(kind: str, first: int, count: int, jobs: int) -> int:
    print(f"{kind}: seeds {first} to {first + count - 1}, {jobs} processes", flush=True)
    began = told = time.monotonic()
    total = Tally()
    for total in run_many(kind, first, count, jobs):
        if time.monotonic() - told > 5 or total.seeds == count:
            told = time.monotonic()
            rate = total.seeds / (told - began)
            failed = f"{len(total.failed)} failed" + "".join(f" {seed}" for seed in sorted(total.failed)[:5])
            print(f"{total.seeds} of {count} seeds, {rate:.0f} a second, {failed}", flush=True)
    print(", ".join(f"{number} {name}" for name, number in sorted(total.counts.items())))
    for seed in sorted(total.failed)[:3]:
        print(report(simulate(KINDS[kind](seed))))
    if len(total.failed) > 3:
        print(f"failed too: {sorted(total.failed)[3:]}")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
