"""`python -m benchmarks vitess`: the queue on MySQL beside SKIP LOCKED by hand, and Vitess's own figures.

Vitess is not here to be run. Its figures are those of version 22 over MySQL 8.0.31, over gRPC, on another machine with
two cores, where SKIP LOCKED by hand came to 23,000 messages a second on MariaDB. So what is compared is the ratio to
SKIP LOCKED by hand: Vitess's on that machine, ours on this one.
"""

from __future__ import annotations

import time

from benchmarks.harness import Outcome, Tell
from benchmarks.measure import MEDIAN, load, machine, of_the_run
from benchmarks.queues.run import MESSAGES, RATE, RECEIVERS, Amounts, Stage, ours
from benchmarks.queues.targets import MYSQL, MYSQL_BY_HAND, VITESS, vitess_drain
from benchmarks.report import Report
from benchmarks.rivals import DIRECT, QUEUEGATE, arena
from tests.mysql_server import MySql


def measure(amounts: Amounts, tell: Tell) -> Report:
    """Both rivals in each case, in turn."""
    started, load_before = time.monotonic(), load()
    with arena((DIRECT, QUEUEGATE), MySql) as place:
        stage = Stage(ours(place, MYSQL, MYSQL_BY_HAND), amounts, tell, MYSQL_BY_HAND)
        found = [
            *(_drained(stage, batch) for batch in VITESS),
            stage.outcome(
                "vitess-lone", f"A lone message at {RATE}/s: from the call of the INSERT to the receiver; then its ack",
                MEDIAN, stage.lone,
            ),
        ]  # fmt: skip
        facts = {**machine(), **place.versions}
    return Report({**facts, **of_the_run(started, load_before, amounts.repeats)}, [], found)


def _drained(stage: Stage, batch: int) -> Outcome:
    messages = stage.amounts.drained
    title = f"{RECEIVERS} receivers, a backlog of {messages:,}, acks of {batch}, on MySQL"
    return stage.outcome(vitess_drain(batch), title, MESSAGES, lambda rival: stage.drained(rival, batch, messages))
