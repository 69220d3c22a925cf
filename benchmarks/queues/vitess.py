"""`python -m benchmarks vitess`: the queue on Vitess beside Vitess's own messages, and on MySQL beside SKIP LOCKED.

The Vitess is a vtcombo of version 24 over MySQL 8.0.31: vtgate and all tablets in one process. Both queues are in the
same keyspaces, of one shard and of two, and both are received from by the MySQL protocol.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.harness import Outcome, Tell
from benchmarks.measure import MEDIAN, load, machine, of_the_run
from benchmarks.queues.base import Rival
from benchmarks.queues.run import LEFT, MESSAGES, RATE, RECEIVERS, Amounts, Stage, ours
from benchmarks.queues.targets import BATCHES, MYSQL, MYSQL_BY_HAND, SHARDS, VITESS_OWN, vitess_drain, vitess_lone
from benchmarks.queues.vitess_messaging import ours as ours_on_vitess
from benchmarks.queues.vitess_messaging import theirs
from benchmarks.report import Report
from benchmarks.rivals import CLIENTS_MAX, DIRECT, QUEUEGATE, arena, start_gate
from benchmarks.topics.crew import ClientFailed
from tests.mysql_server import MySql
from tests.servers import DATABASE, private
from tests.vitess_programs import VITESS
from tests.vitess_server import SHARDED, Vitess

_LONE = f"A lone message at {RATE}/s: from the call of the INSERT to the receiver; then its ack"
_KEYSPACES = {1: DATABASE, 2: SHARDED}
_TURNS_MAX = 5  # of one drain


class Drains:
    """Backlogs drained. Now and then some of Vitess's own messages do not come before they are sent again, after
    `vt_ack_wait`. Such a turn is made again, and the report says so."""

    def __init__(self) -> None:
        self._again = 0

    @property
    def facts(self) -> dict[str, str]:
        """What the head of the report says."""
        return {f"{VITESS_OWN}, turns made again": f"{self._again}: messages had not come"} if self._again else {}

    def outcome(self, stage: Stage, name: str, batch: int, where: str) -> Outcome:
        """A case of it."""
        messages = stage.amounts.acked_each if batch == 1 else stage.amounts.drained
        title = f"{RECEIVERS} receivers, a backlog of {messages:,}, acks of {batch}, {where}"
        return stage.outcome(name, title, MESSAGES, lambda rival: self._drained(stage, rival, batch, messages))

    def _drained(self, stage: Stage, rival: Rival, batch: int, messages: int) -> Mapping[str, float]:
        for _ in range(_TURNS_MAX):
            try:
                return stage.drained(rival, batch, messages)
            except ClientFailed as failed:
                if rival.name != VITESS_OWN or LEFT not in str(failed):
                    raise
                stage.tell(f"{VITESS_OWN}: {str(failed).splitlines()[-1]}; once more")
                self._again += 1
        raise ClientFailed(f"{VITESS_OWN}: {LEFT}, {_TURNS_MAX} times")


def measure(amounts: Amounts, tell: Tell) -> Report:
    """Both rivals in each case, in turn."""
    started, load_before = time.monotonic(), load()
    drains = Drains()
    found = list(_on_vitess(amounts, tell, drains))
    with arena((DIRECT, QUEUEGATE), MySql) as place:
        stage = Stage(ours(place, MYSQL, MYSQL_BY_HAND), amounts, tell, MYSQL_BY_HAND)
        found += [
            *(drains.outcome(stage, f"mysql-drain-{batch}", batch, "on MySQL") for batch in BATCHES),
            stage.outcome("mysql-lone", f"{_LONE}; on MySQL", MEDIAN, stage.lone),
        ]
        facts = {**machine(), **place.versions, "Vitess": f"{VITESS}: a vtcombo over this MySQL", **drains.facts}
    return Report({**facts, **of_the_run(started, load_before, amounts.repeats)}, [], found)


def _on_vitess(amounts: Amounts, tell: Tell, drains: Drains) -> Iterator[Outcome]:
    with private(Vitess([f"--max-connections={CLIENTS_MAX}"])) as server, contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="queuegate-bench-")))
        gate = start_gate(server, folder, stack)
        for shards in SHARDS:
            keyspace = _KEYSPACES[shards]
            rivals = [ours_on_vitess(keyspace, gate, server), theirs(keyspace, server)]
            where = "on Vitess, one shard" if shards == 1 else f"on Vitess, {shards} shards"
            cases = Stage(rivals, amounts, tell, VITESS_OWN)
            for batch in BATCHES:
                yield drains.outcome(cases, vitess_drain(batch, shards), batch, where)
            yield cases.outcome(vitess_lone(shards), f"{_LONE}; {where}", MEDIAN, cases.lone)
