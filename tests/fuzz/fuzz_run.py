"""Runs the fuzzer: many inputs, three worlds, some processes; what fails is made small and kept in a file.

    python tests/fuzz/fuzz_run.py --inputs 1000000              # what `make fuzz` does
    python tests/fuzz/fuzz_run.py --inputs 20000 --seed 7 --world relay
    python tests/fuzz/fuzz_run.py --replay fuzz-failures/3f2a.txt

An input is told by the run's seed and its own number; a run prints its seed, so every run can be made again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import fuzz_paths  # noqa: F401
from fuzz_corpus import Conversation, load_all
from fuzz_drive import play
from fuzz_gate import EmbeddedWorld, ProxyWorld, RelayWorld, World
from fuzz_input import Input, dump, load
from fuzz_mutate import Script, compose, script
from fuzz_small import kind_of, smallest

CORPORA = {"embedded": "embedded", "relay": "mariadb", "proxy": "embedded"}
WORLD_INPUTS = {"embedded": 100, "relay": 500, "proxy": 500}
"""How many inputs one world serves: what they leave behind must not become what is tested."""

TLS_EVERY = 4  # world offers its clients encryption
CPU_SECONDS_MAX = 20.0  # of one input; the largest, of 17 MiB, take one

FAILURES_MAX = 50  # of one run; then it is broken and not to be fuzzed any further


Job = tuple[int, str, range]
"""A seed, a world, and numbers of inputs."""


class Fuzzer:
    """One process's share of a run."""

    def __init__(self, seed: int, kind: str) -> None:
        self.seed, self.kind = seed, kind
        self.conversations = corpus_of(kind)
        self.scripts: list[Script] = [script(one) for one in self.conversations.values()]

    def input(self, number: int) -> Input:
        """The input of that number."""
        random = Random(f"{self.seed}/{self.kind}/{number}")
        tls = number // WORLD_INPUTS[self.kind] % TLS_EVERY == TLS_EVERY - 1
        world = f"{self.kind}+tls" if tls else self.kind
        return compose(random, world, self.scripts, f"seed={self.seed} number={number}")

    def run(self, numbers: range) -> tuple[list[Input], list[str]] | None:
        """One world's worth; what failed, with all that was before it in the same world, and the complaints."""
        world = new_world(self.input(numbers[0]).world, list(self.conversations.values()))
        played: list[Input] = []
        complaints: list[str] = []
        try:
            for number in numbers:
                played.append(self.input(number))
                complaints = complained(world, self.conversations[played[-1].conversation], played[-1])
                if complaints:
                    return played, complaints
        finally:
            complaints += world.close()
        return (played, complaints) if complaints else None


def new_world(name: str, conversations: list[Conversation]) -> World:
    kind, _, tls = name.partition("+")
    if kind == "embedded":
        return EmbeddedWorld(tls=bool(tls))
    return {"relay": RelayWorld, "proxy": ProxyWorld}[kind](conversations, tls=bool(tls))


def corpus_of(name: str) -> dict[str, Conversation]:
    """The conversations for a world, by name."""
    return {one.name: one for one in load_all(CORPORA[name.partition("+")[0]])}


def complained(world: World, conversation: Conversation, given: Input) -> list[str]:
    """As `play`; what it raises, and how long it takes, are complaints too."""

    def too_long(*_: object) -> None:
        raise TimeoutError(f"more than {CPU_SECONDS_MAX} s of the processor")

    before = signal.signal(signal.SIGVTALRM, too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS_MAX)
    try:
        return play(world, conversation, given)
    except Exception as error:
        return [f"raised {error!r}"]
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def play_all(inputs: list[Input]) -> list[str]:
    """Complaints of inputs in one fresh world."""
    conversations = corpus_of(inputs[0].world)
    world = new_world(inputs[0].world, list(conversations.values()))
    complaints: list[str] = []
    try:
        for given in inputs:
            complaints += complained(world, conversations[given.conversation], given)
    finally:
        complaints += world.close()
    return complaints


# --- a run


_known: set[str] = set()
"""Kinds of failure that this process has made small once; all the others of the kind are kept as they came."""


def _work(job: Job) -> tuple[int, list[tuple[str, list[str]]]]:
    """In a process of the pool: how many inputs, and the texts of those that failed with the complaints."""
    seed, kind, numbers = job
    found: list[tuple[str, list[str]]] = []
    left = numbers
    while left:
        failed = Fuzzer(seed, kind).run(left)
        if failed is None:
            break
        inputs, complaints = failed
        told = kind_of(complaints[0])
        if told not in _known:
            _known.add(told)
            inputs = smallest(inputs, play_all)
        found.append((dump(inputs), complaints))
        left = left[len(failed[0]) :]
    return len(numbers), found


def jobs(seed: int, inputs: int, kinds: list[str]) -> Iterator[Job]:
    """Worlds' worths of numbers, the worlds in turn, each by its share."""
    begun = dict.fromkeys(kinds, 0)
    while inputs:
        for kind in kinds:
            for _ in range(SHARES[kind]):
                size = min(WORLD_INPUTS[kind], inputs)
                if size:
                    yield seed, kind, range(begun[kind], begun[kind] + size)
                    begun[kind] += size
                    inputs -= size


SHARES = {"relay": 2, "proxy": 1, "embedded": 3}
"""Worlds' worths in turn. One of the embedded backend serves fewer inputs."""


@dataclass
class Run:
    """A whole run: what was asked for, and how it stands."""

    seed: int
    inputs: int
    kinds: list[str]
    folder: Path
    done: int = 0
    failures: int = 0
    seen: set[str] = field(default_factory=set)

    def go(self, processes: int) -> int:
        """All of it; how many failed."""
        print(f"seed {self.seed}, {self.inputs} inputs, {', '.join(self.kinds)}, {processes} processes", flush=True)
        began = said = time.monotonic()
        waiting = jobs(self.seed, self.inputs, self.kinds)
        running: dict[Future[Any], Job] = {}
        with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
            while self.failures < FAILURES_MAX:
                for job in islice(waiting, 2 * processes - len(running)):
                    running[pool.submit(_work, job)] = job
                if not running:
                    break
                for ended in wait(running, return_when=FIRST_COMPLETED).done:
                    self._take(ended, running)
                if time.monotonic() - said > 10:
                    said = time.monotonic()
                    self._tell(said - began)
            pool.shutdown(cancel_futures=True)
        self._tell(time.monotonic() - began)
        return self.failures

    def _take(self, ended: Future[Any], running: dict[Future[Any], Job]) -> None:
        try:
            count, found = ended.result()
        except BrokenProcessPool:
            raise SystemExit(f"seed {self.seed}: a process died over one of {list(running.values())}") from None
        del running[ended]
        self.done += count
        self.failures += len(found)
        for text, complaints in found:
            _keep(self.folder, text, complaints, self.seen)

    def _tell(self, seconds: float) -> None:
        rate = f"{self.done} of {self.inputs} inputs in {seconds:.0f} s, {self.done / seconds:.0f} a second"
        print(f"seed {self.seed}: {rate}, {self.failures} failures", flush=True)


def _keep(folder: Path, text: str, complaints: list[str], seen: set[str]) -> None:
    """Write a failure down; of each kind the first is told in full."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{sha256(text.encode()).hexdigest()[:12]}.txt"
    path.write_text(text + "".join(f"# {line}\n" for one in complaints for line in one.splitlines()))
    kind = kind_of(complaints[0])
    if kind not in seen:
        seen.add(kind)
        print(f"FAILED: {kind}\n  python tests/fuzz/fuzz_run.py --replay {path}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None, help="of the run; a fresh one otherwise")
    parser.add_argument("--world", choices=sorted(CORPORA), action="append")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--folder", type=Path, default=Path("fuzz-failures"), help="where failing inputs are kept")
    parser.add_argument("--replay", type=Path, help="a file of inputs, to be played again")
    given = parser.parse_args()
    if given.replay is not None:
        complaints = play_all(load(given.replay))
        print("\n".join(complaints) or "nothing is wrong with it")
        return 1 if complaints else 0
    seed = SystemRandom().getrandbits(32) if given.seed is None else given.seed
    kinds = sorted(given.world or CORPORA, reverse=True)
    return 1 if Run(seed, given.inputs, kinds, given.folder).go(given.jobs) else 0


if __name__ == "__main__":
    sys.exit(main())
