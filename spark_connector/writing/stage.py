"""Stage tables: tasks store rows there until all of a write's rows become messages at once.

Each attempt at a task has its own number, so rows of failed, repeated or speculative attempts are never published: only
those of attempts that reported. A number starts with the time of its creation, so that old rows of failed writers are
found by the primary key.
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
from spark_connector.client.connection import Client
from spark_connector.client.reconnecting import ReconnectingClient
from spark_connector.errors import WriteError
from spark_connector.mysql_client.driver import quoted
from spark_connector.writing.inserts import rows, statements
from spark_connector.writing.plan import WritePlan

PREFIX = "queuegate_spark_stage_"
RETENTION_MS = (
    2 * 86_400_000
)  # rows of attempts are deleted at this age: no job takes that long from its rows to its commit
COPIED = 20_000  # rows of one INSERT ... SELECT: producers may wait while it allocates ids
TOGETHER = 200  # attempts in one statement: with more MySQL only estimates the rows of each
_SWEPT = 20_000  # rows of one DELETE
_OTHERS_SWEPT = 3  # how many tables of other writes a write cleans
_RANDOM_BITS = 20
_ATTEMPT, _SEQ = "queuegate_attempt", "queuegate_seq"


@dataclass(frozen=True)
class Staged:
    """What a task reports to the committer."""

    attempt: int
    count: int  # rows
    query: str | None = None  # a streaming query's id
    parts: tuple[tuple[str, Staged], ...] = ()  # for several queues and topics: by their names


def name(plan: WritePlan) -> str:
    """The stage table of a plan: one for each set of columns and types that is written to a queue."""
    shape = repr((plan.queue, [(c.name, c.type, c.collation) for c in plan.columns]))
    return PREFIX + hashlib.sha256(shape.encode()).hexdigest()[:16]


def define(client: Client, plan: WritePlan) -> None:
    """Creates the table if it is missing. All columns are nullable: NULLs were checked before. Raises pymysql's
    errors."""
    columns = ", ".join(_declared(column) for column in plan.columns)
    client.execute(
        f"CREATE TABLE IF NOT EXISTS {quoted(name(plan))} ({_ATTEMPT} BIGINT NOT NULL, {_SEQ} BIGINT NOT NULL, "
        f"{columns}, PRIMARY KEY ({_ATTEMPT}, {_SEQ})) ENGINE=InnoDB"
    )


def _declared(column: Column) -> str:
    collation = f" COLLATE {column.collation}" if column.collation else ""
    # information_schema shows `?` for characters outside its character set, such as emojis: members cannot be compared.
    garbled = column.base in ("enum", "set") and "?" in column.type
    return f"{quoted(column.name)} {'LONGTEXT' if garbled else column.type}{collation} NULL"


def attempt(now: int) -> int:
    """A number for an attempt that starts now, by the database's clock in nanoseconds."""
    return _first(now // 10**6) + secrets.randbits(_RANDOM_BITS)


def _first(ms: int) -> int:
    """The smallest number of a millisecond."""
    return ms << _RANDOM_BITS


class Attempt:
    """An attempt at a task: its rows are identified by its number. Each statement is a transaction.

    A batch is repeated if the connection broke. Some of its rows may exist then, and a statement of the broken
    connection may still run: the first batch gets another number, a later one replaces its own rows. If both statements
    run, the key refuses one of them, so that no row exists twice.
    """

    def __init__(self, plan: WritePlan, most: int) -> None:
        self._plan, self._most = plan, most
        self._numbers: list[int] = []  # the last one counts
        self._rows = 0

    @property
    def staged(self) -> Staged:
        """What was staged so far."""
        return Staged(self._numbers[-1], self._rows)

    def put(self, connection: ReconnectingClient, batch: pa.RecordBatch) -> None:
        """Stages the next rows. Raises WriteError, ConnectorError, ConnectionFailed."""
        tries = count()
        connection.run(lambda client: self._put(client, batch, again=next(tries) > 0))
        self._rows += batch.num_rows

    def forget(self, connection: ReconnectingClient) -> None:
        """Deletes all of it. Raises ConnectorError, ConnectionFailed."""
        connection.run(lambda client: forget(client, self._plan, self._numbers))

    def _put(self, client: Client, batch: pa.RecordBatch, *, again: bool) -> None:
        if not self._rows:
            self._numbers.append(attempt(client.approximate_now_ns()))
        table, number = quoted(name(self._plan)), self._numbers[-1]
        if self._rows and again:
            client.statement(f"DELETE FROM {table} WHERE {_ATTEMPT} = {number} AND {_SEQ} >= {self._rows}")
        head = f"INSERT INTO {table} ({_ATTEMPT}, {_SEQ}, {self._plan.names})"
        texts = rows(batch, self._plan, client.now_ns)
        numbered = [f"{number},{index},{row}" for index, row in enumerate(texts, self._rows)]
        for statement in statements(head, numbered, "", self._most):
            client.statement(statement)


def copy(client: Client, plan: WritePlan, staged: Sequence[Staged]) -> int:
    """Creates messages from staged rows, in order, in the client's transaction; returns how many are new.

    Raises WriteError if rows are missing, pymysql's errors if the queue refuses one.
    """
    return sum(_copy(client, plan, *part) for group in _groups(staged) for part in _parts(group))


def _groups(staged: Iterable[Staged]) -> Iterator[list[Staged]]:
    """Groups of attempts for one statement each: most tasks have few rows."""
    group: list[Staged] = []
    for one in staged:
        if group and (len(group) == TOGETHER or sum(other.count for other in group) + one.count > COPIED):
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _parts(group: Sequence[Staged]) -> Iterator[tuple[str, str, int]]:
    """Condition, order and number of rows of each statement."""
    if len(group) > 1:
        order = " ".join(f"WHEN {one.attempt} THEN {index}" for index, one in enumerate(group))
        yield _among(one.attempt for one in group), f"CASE {_ATTEMPT} {order} END, {_SEQ}", sum(o.count for o in group)
        return
    (one,) = group
    for begin in range(0, one.count, COPIED):
        end = min(begin + COPIED, one.count)
        yield f"{_ATTEMPT} = {one.attempt} AND {_SEQ} >= {begin} AND {_SEQ} < {end}", _SEQ, end - begin


def _copy(client: Client, plan: WritePlan, where: str, order: str, staged: int) -> int:
    table = f"{quoted(name(plan))} WHERE {where}"
    # Existing messages do not count as changed, so with a key the rows are counted before.
    counted = int(client.value(f"SELECT COUNT(*) FROM {table} LOCK IN SHARE MODE")) if plan.key else None
    changed = client.execute(
        f"INSERT INTO {quoted(plan.queue)} ({plan.names}) SELECT {plan.names} FROM {table} ORDER BY {order}"
        f"{plan.on_duplicate}"
    )
    if (changed if counted is None else counted) != staged:
        raise WriteError(
            "rows that its tasks staged are gone: somebody deleted them, or the write took longer than "
            f"{RETENTION_MS // 3_600_000} hours; write again"
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
    """Deletes some rows of writers that died: in the table of this write, and in a few others, chosen at random. So
    every table is cleaned in time, and the cost of a write does not depend on their number. Raises pymysql's errors."""
    tables = client.rows(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE %s",
        (PREFIX.replace("_", r"\_") + "%",),
    )
    others = [table for (table,) in tables if table != name(plan)]
    oldest = _first(now // 10**6 - RETENTION_MS)
    for table in (name(plan), *random.sample(others, min(_OTHERS_SWEPT, len(others)))):
        client.execute(f"DELETE FROM {quoted(table)} WHERE {_ATTEMPT} < {oldest} LIMIT {_SWEPT}")
