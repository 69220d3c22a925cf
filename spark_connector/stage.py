"""Stage tables: where tasks put rows that nobody receives, until all of a write's rows become messages at once.

Each attempt at a task has a number of its own, so what a failed, repeated or speculative attempt left is never
published: only attempts that reported are. A number begins with the time it was given out at, so that what the dead
left behind is found by the primary key.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from spark_connector.client import Client, quoted
from spark_connector.columns import Column
from spark_connector.errors import WriteError
from spark_connector.inserts import rows, statements
from spark_connector.write_plan import WritePlan

PREFIX = "queuegate_spark_stage_"
KEPT_MS = (
    2 * 86_400_000
)  # what an attempt left is deleted at this age: no job takes so long from its rows to its commit
COPIED = (
    20_000  # rows of one INSERT ... SELECT: producers wait for the ids that it takes, where those are locked at all
)
_SWEPT = 20_000  # rows of one DELETE
_RANDOM_BITS = 20
_ATTEMPT, _SEQ = "queuegate_attempt", "queuegate_seq"


@dataclass(frozen=True)
class Staged:
    """What a task tells whoever commits."""

    attempt: int
    count: int  # rows
    query: str | None = None  # a streaming query's id


def name(plan: WritePlan) -> str:
    """The stage table of a plan: one for each set of columns and types that is written to a queue."""
    shape = repr((plan.queue, [(c.name, c.type, c.collation) for c in plan.columns]))
    return PREFIX + hashlib.sha256(shape.encode()).hexdigest()[:16]


def define(client: Client, plan: WritePlan) -> None:
    """Makes the table where there is none; what may not be NULL was looked at before. Raises pymysql's errors."""
    columns = ", ".join(_declared(column) for column in plan.columns)
    client.execute(
        f"CREATE TABLE IF NOT EXISTS {quoted(name(plan))} ({_ATTEMPT} BIGINT NOT NULL, {_SEQ} BIGINT NOT NULL, "
        f"{columns}, PRIMARY KEY ({_ATTEMPT}, {_SEQ}))"
    )


def _declared(column: Column) -> str:
    collation = f" COLLATE {column.collation}" if column.collation else ""
    return f"{quoted(column.name)} {column.type}{collation} NULL"


def attempt(now: int) -> int:
    """A number for an attempt that begins now, by the database's clock in nanoseconds."""
    return _first(now // 10**6) + secrets.randbits(_RANDOM_BITS)


def _first(ms: int) -> int:
    """The least number that is given out in a millisecond."""
    return ms << _RANDOM_BITS


def put(client: Client, plan: WritePlan, batches: Iterable[pa.RecordBatch], number: int, most: int) -> Staged:
    """Puts rows where only their attempt's number finds them; each statement is a transaction."""
    count = 0
    head = f"INSERT INTO {quoted(name(plan))} ({_ATTEMPT}, {_SEQ}, {plan.names})"
    for batch in batches:
        numbered = [f"{number},{count + place},{row}" for place, row in enumerate(rows(batch, plan, client.now_ns))]
        for statement in statements(head, numbered, "", most):
            client.transaction(partial(client.execute, statement))
        count += batch.num_rows
    return Staged(number, count)


def copy(client: Client, plan: WritePlan, staged: Sequence[Staged]) -> int:
    """Makes messages of what was staged, in order, in the client's transaction; returns how many are new.

    Raises WriteError where rows are gone, pymysql's errors where the queue refuses one.
    """
    return sum(
        _copy(client, plan, one.attempt, begin, min(begin + COPIED, one.count))
        for one in staged
        for begin in range(0, one.count, COPIED)
    )


def _copy(client: Client, plan: WritePlan, number: int, begin: int, end: int) -> int:
    table = f"{quoted(name(plan))} WHERE {_ATTEMPT} = {number} AND {_SEQ} >= {begin} AND {_SEQ} < {end}"
    # Messages that are there already do not count as changed, so with a key the rows are counted before.
    counted = int(client.value(f"SELECT COUNT(*) FROM {table} LOCK IN SHARE MODE")) if plan.key else None
    changed = client.execute(
        f"INSERT INTO {quoted(plan.queue)} ({plan.names}) SELECT {plan.names} FROM {table} ORDER BY {_SEQ}"
        f"{plan.on_duplicate}"
    )
    if (changed if counted is None else counted) != end - begin:
        raise WriteError(
            "rows that its tasks staged are gone: somebody deleted them, or the write took longer than "
            f"{KEPT_MS // 3_600_000} hours; write again"
        )
    return changed


def forget(client: Client, plan: WritePlan, staged: Iterable[Staged]) -> None:
    """Deletes what attempts staged. Raises pymysql's errors."""
    for one in staged:
        delete = f"DELETE FROM {quoted(name(plan))} WHERE {_ATTEMPT} = {one.attempt} LIMIT {_SWEPT}"
        while client.execute(delete) == _SWEPT:
            pass


def sweep(client: Client, now: int) -> None:
    """Deletes some of what the dead left behind, whatever columns they wrote. Raises pymysql's errors."""
    tables = client.rows(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE %s",
        (PREFIX.replace("_", r"\_") + "%",),
    )
    oldest = _first(now // 10**6 - KEPT_MS)
    for (table,) in tables:
        client.execute(f"DELETE FROM {quoted(table)} WHERE {_ATTEMPT} < {oldest} LIMIT {_SWEPT}")
