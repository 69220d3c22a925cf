"""Twenty producers of single INSERTs, each its own transaction, flushed: into a table every way, and into a queue.

The queue is filled through queuegate only. Its rows carry ids, times and indexes besides the payload, so the database
has more to do for each; that is the queue's price, not the proxy's.
"""

from __future__ import annotations

from benchmarks import sysbench
from benchmarks.harness import Part, Sample
from benchmarks.rivals import QUEUEGATE, WORKERS, Arena, Rival
from tests.servers import DATABASE, Sql

PRODUCERS = 20
TABLE, QUEUE = "bench_rows", "bench_queue"


def prepare(arena: Arena) -> None:
    """An empty table and an empty queue."""
    with arena.server.connect(database=DATABASE) as link, link.cursor() as cursor:
        cursor.execute(
            f"CREATE OR REPLACE TABLE {TABLE} (id BIGINT AUTO_INCREMENT PRIMARY KEY, payload VARCHAR(300) NOT NULL)"
        )
    client = Sql(arena.named(QUEUEGATE)[0].connect())
    client(f"DROP QUEUE IF EXISTS {QUEUE}")
    client(f"CREATE QUEUE {QUEUE} (payload VARCHAR(300))")
    client.close()


def _insert(arena: Arena, rival: Rival, seconds: float, target: str) -> Sample:
    script = str(sysbench.LUA / "insert.lua")
    return sysbench.run(arena, rival, script, PRODUCERS, seconds, f"--table={target}")


def _table(arena: Arena, rival: Rival, seconds: float) -> Sample:
    return _insert(arena, rival, seconds, TABLE)


def _queue(arena: Arena, rival: Rival, seconds: float) -> Sample:
    return _insert(arena, rival, seconds, QUEUE)


PARTS = (
    Part(
        name="insert-table",
        title=f"{PRODUCERS} producers of single INSERTs into a table",
        run=_table,
        main="queries/s",
        rivals=sysbench.ALL,
        needs="sysbench",
        prepare=prepare,
    ),
    Part(
        name="insert-queue",
        title=f"{PRODUCERS} producers of single INSERTs into a queue",
        run=_queue,
        main="queries/s",
        rivals=(QUEUEGATE, WORKERS),
        needs="sysbench",
        prepare=prepare,
    ),
)
