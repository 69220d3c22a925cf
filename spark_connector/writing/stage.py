"""Stage tables: where tasks put rows that nobody receives, until all of a write's rows become messages at once.

Each attempt at a task has a number of its own, so what a failed, repeated or speculative attempt left is never
published: only attempts that reported are. A number begins with the time it was given out at, so that what the dead
left is found by the primary key.
"""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import pyarrow as pa

from spark_connector.client.columns import Column
from spark_connector.client.connection import Client, quoted
from spark_connector.client.reconnecting import ReconnectingClient
from spark_connector.errors import WriteError
from spark_connector.writing.inserts import rows, statements
from spark_connector.writing.plan import WritePlan

PREFIX = "queuegate_spark_stage_"
KEPT_MS = (
    2 * 86_400_000
)  # what an attempt left is deleted at this age: no job takes so long from its rows to its commit
COPIED = (
    20_000  # rows of one INSERT ... SELECT: producers wait for the ids that it takes, where those are locked at all
)
TOGETHER = 200  # attempts that one statement names: beyond it MySQL only guesses how many rows each of them has
_SWEPT = 20_000  # rows of one DELETE
_OTHERS_SWEPT = 3  # tables of other writes that a write cleans
_RANDOM_BITS = 20
_ATTEMPT, _SEQ = "queuegate_attempt", "queuegate_seq"


@dataclass(frozen=True)
class Staged:
    """What a task tells whoever commits."""

    attempt: int
    count: int  # rows
    query: str | None = None  # a streaming query's id
    parts: tuple[tuple[str, Staged], ...] = ()  # where rows go to several queues and topics: by their names


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
    # information_schema has `?` for what is not in its own character set, an emoji for one: no member to compare with.
    garbled = column.base in ("enum", "set") and "?" in column.type
    return f"{quoted(column.name)} {'LONGTEXT' if garbled else column.type}{collation} NULL"


def attempt(now: int) -> int:
    """A number for an attempt that begins now, by the database's clock in nanoseconds."""
    return _first(now // 10**6) + secrets.randbits(_RANDOM_BITS)


def _first(ms: int) -> int:
    """The least number that is given out in a millisecond."""
    return ms << _RANDOM_BITS


class Attempt:
    """An attempt at a task: its rows go where only its number finds them. Each statement is a transaction.

    A batch is put again where the connection broke. Rows of it may be there then, and a statement of the broken
    connection may still be on its way: the first batch gets another number, a later one replaces its own rows. If both
    statements meet, the key refuses one of them, so that no row is there twice.
    """

    def __init__(self, plan: WritePlan, most: int) -> None:
        self._plan, self._most = plan, most
        self._numbers: list[int] = []  # the last one counts
        self._rows = 0

    @property
    def staged(self) -> Staged:
        """What was put."""
        return Staged(self._numbers[-1], self._rows)

    def put(self, line: ReconnectingClient, batch: pa.RecordBatch) -> None:
        """Puts the next rows. Raises WriteError, ConnectorError, ConnectionFailed."""
        tries = count()
        line.run(lambda client: self._put(client, batch, again=next(tries) > 0))
        self._rows += batch.num_rows

    def forget(self, line: ReconnectingClient) -> None:
        """Deletes all of it. Raises ConnectorError, ConnectionFailed."""
        line.run(lambda client: forget(client, self._plan, self._numbers))

    def _put(self, client: Client, batch: pa.RecordBatch, *, again: bool) -> None:
        if not self._rows:
            self._numbers.append(attempt(client.about_now_ns()))
        table, number = quoted(name(self._plan)), self._numbers[-1]
        if self._rows and again:
            client.statement(f"DELETE FROM {table} WHERE {_ATTEMPT} = {number} AND {_SEQ} >= {self._rows}")
        head = f"INSERT INTO {table} ({_ATTEMPT}, {_SEQ}, {self._plan.names})"
        texts = rows(batch, self._plan, client.now_ns)
        numbered = [f"{number},{place},{row}" for place, row in enumerate(texts, self._rows)]
        for statement in statements(head, numbered, "", self._most):
            client.statement(statement)


def copy(client: Client, plan: WritePlan, staged: Sequence[Staged]) -> int:
    """Makes messages of what was staged, in order, in the client's transaction; returns how many are new.

    Raises WriteError where rows are gone, pymysql's errors where the queue refuses one.
    """
    return sum(_copy(client, plan, *part) for group in _groups(staged) for part in _parts(group))


def _groups(staged: Iterable[Staged]) -> Iterator[list[Staged]]:
    """Attempts that are copied by one statement: most tasks have few rows."""
    group: list[Staged] = []
    for one in staged:
        if group and (len(group) == TOGETHER or sum(other.count for other in group) + one.count > COPIED):
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _parts(group: Sequence[Staged]) -> Iterator[tuple[str, str, int]]:
    """What each statement copies: a condition, its order, and how many rows."""
    if len(group) > 1:
        order = " ".join(f"WHEN {one.attempt} THEN {place}" for place, one in enumerate(group))
        yield _among(one.attempt for one in group), f"CASE {_ATTEMPT} {order} END, {_SEQ}", sum(o.count for o in group)
        return
    (one,) = group
    for begin in range(0, one.count, COPIED):
        end = min(begin + COPIED, one.count)
        yield f"{_ATTEMPT} = {one.attempt} AND {_SEQ} >= {begin} AND {_SEQ} < {end}", _SEQ, end - begin


def _copy(client: Client, plan: WritePlan, where: str, order: str, staged: int) -> int:
    table = f"{quoted(name(plan))} WHERE {where}"
    # Messages that are there already do not count as changed, so with a key the rows are counted before.
    counted = int(client.value(f"SELECT COUNT(*) FROM {table} LOCK IN SHARE MODE")) if plan.key else None
    changed = client.execute(
        f"INSERT INTO {quoted(plan.queue)} ({plan.names}) SELECT {plan.names} FROM {table} ORDER BY {order}"
        f"{plan.on_duplicate}"
    )
    if (changed if counted is None else counted) != staged:
        raise WriteError(
            "rows that its tasks staged are gone: somebody deleted them, or the write took longer than "
            f"{KEPT_MS // 3_600_000} hours; write again"
        )
    return changed


def forget(client: Client, plan: WritePlan, attempts: Sequence[int]) -> None:
    """Deletes what attempts staged. Raises pymysql's errors, ConnectorError."""
    for begin in range(0, len(attempts), TOGETHER):
        some = _among(attempts[begin : begin + TOGETHER])
        while client.statement(f"DELETE FROM {quoted(name(plan))} WHERE {some} LIMIT {_SWEPT}") == _SWEPT:
            pass


def _among(attempts: Iterable[int]) -> str:
    return f"{_ATTEMPT} IN ({', '.join(map(str, attempts))})"


def sweep(client: Client, plan: WritePlan, now: int) -> None:
    """Deletes some of what writers that died have left: in the table of this write, and in a few others, chosen by
    chance. So each table has its turn, and a write costs the same however many there are. Raises pymysql's errors."""
    tables = client.rows(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE %s",
        (PREFIX.replace("_", r"\_") + "%",),
    )
    others = [table for (table,) in tables if table != name(plan)]
    oldest = _first(now // 10**6 - KEPT_MS)
    for table in (name(plan), *random.sample(others, min(_OTHERS_SWEPT, len(others)))):
        client.execute(f"DELETE FROM {quoted(table)} WHERE {_ATTEMPT} < {oldest} LIMIT {_SWEPT}")
