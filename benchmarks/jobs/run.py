"""The turns of all, one after the other within each repeat, and their report."""

from __future__ import annotations

import time

from benchmarks.harness import Outcome, Series, Tell, turned
from benchmarks.jobs.rivals import Amounts, field
from benchmarks.jobs.targets import BY_HAND, CELERY_RABBITMQ, DRAINED, JOBS
from benchmarks.measure import load, machine, of_the_run
from benchmarks.report import Report

QUICK = Amounts(backlog=500, slow_backlog=100, lone_jobs=20, repeats=1)
TITLE = (
    "A job that does nothing, four slots: a backlog drained, one producer, and from the enqueue of a lone job to the"
    " first line of its handler"
)


def measure(amounts: Amounts, tell: Tell) -> Report:
    """All repeats."""
    started, load_before = time.monotonic(), load()
    with field() as rivals:
        series = [Series(queue.name) for queue in rivals.queues]
        for repeat in range(amounts.repeats):
            for queue, found in turned(list(zip(rivals.queues, series, strict=True)), repeat):
                tell(f"{JOBS}: {queue.name}, {repeat + 1} of {amounts.repeats}")
                found.add(queue.turn(amounts))
        facts = {**machine(), **rivals.versions, **of_the_run(started, load_before, amounts.repeats)}
        return Report(facts, list(rivals.absent), [Outcome(JOBS, TITLE, DRAINED, series, (BY_HAND, CELERY_RABBITMQ))])
