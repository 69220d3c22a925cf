"""Enqueues, drains and times lone tasks on each broker in turn, with workers as processes of their own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import marks
from benchmarks.celery.brokers import Broker, brokers
from benchmarks.harness import Tell, turned
from benchmarks.jobs.watch import drain_seconds, wait_for_lone
from benchmarks.measure import Measurement, latencies, load, machine, of_the_run
from tests.servers import ROOT, wait_until

INSTALL = Path(__file__).resolve().parent.parent / "install_rivals.sh"
WORKERS = 4
WARM_UP = 10
_IDLE = "idle"
"""The queue that workers are started on: they have a backlog from the moment on at which they are told of it."""

_BEGIN = "from benchmarks.celery.tasks import app; app.control.add_consumer('celery')"
_PRODUCER = """
import sys, time
from benchmarks.celery.tasks import lone, nothing
task, count, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
nothing.app.connection_for_write().ensure_connection().release()
began = time.monotonic()
for _ in range(count):
    nothing.delay() if task == "nothing" else lone.delay(time.time())
    time.sleep(pause) if pause else None
print(time.monotonic() - began)
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """How many tasks are drained, and how many lone ones are timed, with how many seconds between two."""

    tasks: int
    lone_tasks: int = 200
    pause_seconds: float = 0.02


@dataclass(frozen=True, slots=True)
class Amounts:
    """How many tasks, and how many turns each broker has."""

    tasks: int = 10_000
    repeats: int = 3


def measure(amounts: Amounts, tell: Tell) -> tuple[list[Measurement], dict[str, str]]:
    """A line for each broker, medians of its turns, and the facts of the run."""
    started, load_before = time.monotonic(), load()
    subprocess.run([INSTALL, "celery", sys.executable], check=False)
    with brokers() as field:
        found: dict[str, list[dict[str, float]]] = {broker.name: [] for broker in field.brokers}
        for repeat in range(amounts.repeats):
            for broker in turned(field.brokers, repeat):
                tell(f"celery: {broker.name}, {repeat + 1} of {amounts.repeats}")
                found[broker.name].append(turn(broker, Turn(amounts.tasks)))
        facts = {**machine(), **field.versions, **of_the_run(started, load_before, amounts.repeats)}
        if field.absent:
            facts["left out"] = "; ".join(field.absent)
    return [_line(broker, found[broker.name], amounts.tasks) for broker in field.brokers], facts


def _line(broker: Broker, turns: Sequence[dict[str, float]], tasks: int) -> Measurement:
    values = {column: round(median(turn[column] for turn in turns), 2) for column in turns[0]}
    return Measurement("celery", broker.name, broker.durability, 1, tasks, values)


def turn(broker: Broker, amounts: Turn) -> dict[str, float]:
    """One turn of a broker, with workers that are started and ended for it."""
    with tempfile.TemporaryDirectory(prefix="queuegate-bench-") as name:
        folder = Path(name)
        with _workers(broker, folder):
            enqueued = _produced(broker, folder, "nothing", amounts.tasks)
            _begin(broker, folder)
            drained = drain_seconds(folder, amounts.tasks)
            _produced(broker, folder, "lone", WARM_UP + amounts.lone_tasks, amounts.pause_seconds)
            wait_for_lone(folder, WARM_UP + amounts.lone_tasks, broker.name)
        took = marks.samples(folder)[WARM_UP:]
        return {
            "enqueue tasks/s": amounts.tasks / enqueued,
            "drain tasks/s": amounts.tasks / drained,
            **latencies(took),
        }


def _produced(broker: Broker, folder: Path, task: str, count: int, pause: float = 0.0) -> float:
    """One producer, one task a call; how many seconds it took."""
    return float(_run(broker, folder, _PRODUCER, task, str(count), str(pause)))


def _begin(broker: Broker, folder: Path) -> None:
    """Has all workers, which are ready, take tasks."""
    _run(broker, folder, _BEGIN)


def _run(broker: Broker, folder: Path, program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=_environment(broker, folder), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{broker.name}: {done.stderr}"
    return done.stdout


@contextlib.contextmanager
def _workers(broker: Broker, folder: Path) -> Iterator[None]:
    """So many `celery worker`, each with one process for tasks, ended in order."""
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=WARNING"]
    started = []
    with (folder / "workers.log").open("wb") as log:
        try:
            for number in range(WORKERS):
                command = [
                    sys.executable,
                    "-m",
                    "celery",
                    "-A",
                    "benchmarks.celery.tasks",
                    "worker",
                    "-c",
                    "1",
                    "-Q",
                    _IDLE,
                    *quiet,
                ]
                started.append(
                    subprocess.Popen(
                        [*command, "-n", f"w{number}@bench"], env=_environment(broker, folder), stdout=log, stderr=log
                    )
                )
            wait_until(lambda: marks.size(folder, marks.READY) == WORKERS, 120, f"{broker.name}: the workers")
            yield
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait(60)


def _environment(broker: Broker, folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        **os.environ, "PYTHONPATH": path, "CELERY_BENCH_BROKER": broker.url, marks.FOLDER: str(folder),
        "C_FORCE_ROOT": "1",
    }  # fmt: skip
