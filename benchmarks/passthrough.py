"""Ordinary SQL through queuegate, beside the direct way and HAProxy: all parts, one report.

`python -m benchmarks passthrough` takes about six minutes, with --quick a minute and a half. --json keeps every sample,
--document writes the tables into a document, from this run or (--from) from the JSON of an earlier one.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import beside_queues, idle, loops, producers, results, stalled, sysbench
from benchmarks.harness import Outcome, Part, Special, Tell, measure
from benchmarks.measure import load, machine
from benchmarks.report import Report
from benchmarks.rivals import Arena, arena
from tests.servers import find_binary

PARTS: tuple[Part | Special, ...] = (
    *loops.PARTS,
    *sysbench.PARTS,
    *results.PARTS,
    *producers.PARTS,
    *beside_queues.PARTS,
    *idle.PARTS,
    *stalled.PARTS,
)
PASSTHROUGH = "passthrough"
REPEATS, REPEATS_QUICK = 3, 1
DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for. No `parts` means all."""

    parts: Sequence[str] = ()
    quick: bool = False
    repeats: int | None = None


def run(options: Options, tell: Tell) -> Report:
    """Measure; rivals or parts that this machine lacks the programs for are left out, and named."""
    started, load_before = time.monotonic(), load()
    subprocess.run([Path(__file__).with_name("install_rivals.sh"), PASSTHROUGH], check=False)
    parts, left_out = _possible(_chosen(options))
    if find_binary("haproxy") is None:
        left_out.append("HAProxy, which is not installed (apt-get install haproxy)")
    repeats = options.repeats or (REPEATS_QUICK if options.quick else REPEATS)
    with arena() as place:
        outcomes = _measured(parts, place, repeats, tell)
        facts = {**machine(), **place.versions}
    facts["load"] = f"{load_before} before, {load()} after (1, 5 and 15 minutes)"
    took = f"{time.monotonic() - started:.0f} s"
    facts["run"] = f"{time.strftime('%Y-%m-%d')}, {'1 repeat' if repeats == 1 else f'{repeats} repeats'}, {took}"
    return Report(facts, left_out, outcomes)


def _measured(parts: Iterable[Part | Special], place: Arena, repeats: int, tell: Tell) -> list[Outcome]:
    return [measure(part, place, repeats, tell) for part in parts]


def _chosen(options: Options) -> list[Part | Special]:
    if options.parts:
        return [part for part in PARTS if part.name in options.parts]
    return [part for part in PARTS if part.quick or not options.quick]


def _possible(parts: Iterable[Part | Special]) -> tuple[list[Part | Special], list[str]]:
    found, missing = [], []
    for part in parts:
        if part.needs is None or find_binary(part.needs) is not None:
            found.append(part)
        else:
            missing.append(f"{part.title}: {part.needs} is not installed (apt-get install {part.needs})")
    return found, missing
