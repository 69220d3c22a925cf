"""Asks both backends and compares everything that a client is told: rows, columns, counts, ids, warnings, errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import dq_schema
import pymysql
from dq_changes import LAST_ID, SEED
from dq_grammar import Case

from embedded.database.sqlite import SqliteDatabase
from embedded.session.results import RowsResult
from embedded.session.session import EmbeddedSession
from embedded.session.state import Identity
from engine.model.errors import EngineError
from rewriter.errors import RewriteError

DATABASE = "queuegate_generated"
MODES = "STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
FAMILIES = dict.fromkeys((1, 2, 3, 8, 9, 13), "int") | dict.fromkeys((15, 245, 249, 250, 251, 252, 253, 254), "text")
DECIMAL, TEMPORAL = 246, frozenset((7, 10, 11, 12))
UNSIGNED, NULL_TYPE = 32, 6
NOT_SUPPORTED = 1235
NUMBERS = {4025: 3819, 1906: 3105}  # MySQL's for a check that fails, and a value for a computed column


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement was answered, in a form of its own."""

    kind: str
    rows: tuple[Any, ...] = ()
    columns: tuple[Any, ...] = ()
    counts: tuple[int, ...] = ()


def refused(answer: Answer) -> bool:
    return answer.kind == "error" and answer.counts == (NOT_SUPPORTED,)


def _plain(value: Any) -> Any:
    """Values that are equal but look different to a client are made different; of a DOUBLE, 12 digits count."""
    if isinstance(value, float):
        return float(f"{value:.12g}")
    return f"decimal {value}" if isinstance(value, Decimal) else value


def _folded(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else _plain(value)


def _rows(rows: Iterable[Sequence[Any]], ordered: bool, folded: bool) -> tuple[Any, ...]:
    found = [tuple(map(_folded if folded else _plain, row)) for row in rows]
    return tuple(found if ordered else sorted(found, key=repr))


def _column(name: str, code: int, decimals: int, flags: int) -> tuple[Any, ...]:
    """Servers differ in the width of a type: its family must be the same, and its decimals where they are shown."""
    if code == NULL_TYPE:
        return (name, "text", 0, 0)
    return (
        name,
        FAMILIES.get(code, code),
        decimals if code == DECIMAL or code in TEMPORAL else 0,
        flags & UNSIGNED if FAMILIES.get(code) == "int" else 0,
    )


@dataclass(slots=True)
class Server:
    """A MariaDB connection."""

    connection: pymysql.connections.Connection[Any]

    def ask(self, sql: str, ordered: bool = False, folded: bool = False) -> Answer:
        with self.connection.cursor() as cursor:
            try:
                count = cursor.execute(sql)
            except pymysql.MySQLError as error:
                return Answer("error", counts=(NUMBERS.get(error.args[0], error.args[0]),))
            if cursor.description is None:
                result = cursor._result
                warnings = result.warning_count if result is not None else 0
                return Answer("done", counts=(count, cursor.lastrowid or 0, warnings))
            fields = cursor._result.fields if cursor._result is not None else ()
            columns = tuple(_column(one.name, one.type_code, one.scale, one.flags) for one in fields)
            return Answer("rows", _rows(cursor.fetchall(), ordered, folded), columns)


@dataclass(slots=True)
class Embedded:
    """A session of the embedded backend."""

    session: EmbeddedSession

    async def ask(self, sql: str, ordered: bool = False, folded: bool = False) -> Answer:
        try:
            result = await self.session.execute(sql)
            if not isinstance(result, RowsResult):
                return Answer("done", counts=(result.affected_rows, result.last_insert_id, result.warnings))
            rows = [row async for batch in result.batches for row in batch]
        except (EngineError, RewriteError) as error:
            return Answer("error", counts=(error.errno,))
        columns = tuple(_column(one.name, one.type, one.decimals, one.flags) for one in result.columns)
        return Answer("rows", _rows(rows, ordered, folded), columns)


@asynccontextmanager
async def embedded(path: Path) -> AsyncIterator[Embedded]:
    """A fresh embedded database with the tables."""
    database = await SqliteDatabase.open(str(path), lock_wait_seconds=5)
    session = EmbeddedSession(database, Identity(1, "root", "127.0.0.1:5000", "8.0.40-test"), lambda: ())
    try:
        made = Embedded(session)
        for sql in _prelude():
            answer = await made.ask(sql)
            assert answer.kind == "done", (sql, answer)
        yield made
    finally:
        await session.close()
        await database.close()


def prepare(connection: pymysql.connections.Connection[Any]) -> Server:
    """The tables on a MariaDB server, in a database of their own."""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
        cursor.execute(f"USE {DATABASE}")
        cursor.execute("SET sql_mode = %s", (MODES,))
        # With it, NOT IN forgets a NULL in a query of narrower numbers: see docs/testing.md.
        cursor.execute("SET optimizer_switch = 'materialization=off'")
        cursor.execute("SET sql_notes = 0")  # of decimals that were cut, the embedded backend gives none
        for sql in _prelude():
            cursor.execute(sql)
    return Server(connection)


def _prelude() -> list[str]:
    return [*dq_schema.definitions(), *(sql for name in dq_schema.TABLES for sql in dq_schema.rows(name, SEED))]


@dataclass(slots=True)
class Tally:
    """How a run stands."""

    agreed: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    failed: int = 0  # cases in which both answered the same error

    @property
    def cases(self) -> int:
        return self.agreed + sum(self.refused.values()) + len(self.differences)


async def play(case: Case, one: Embedded, other: Server, tally: Tally, name: str) -> None:
    """Play a case on both. What the embedded backend refuses is not asked of the server."""
    answers: list[Answer] = []
    for sql in case.statements:
        answer = await one.ask(sql, case.ordered, case.folded)
        if refused(answer):
            await one.ask("ROLLBACK")
            reason = await _reason(one, sql)
            tally.refused[reason] = tally.refused.get(reason, 0) + 1
            return
        answers.append(answer)
    failed = False
    for sql, got in zip(case.statements, answers, strict=True):
        if failed and sql == LAST_ID:
            continue  # after a failed statement it is undefined
        expected = other.ask(sql, case.ordered, case.folded)
        if got != expected:
            other.ask("ROLLBACK")
            await one.ask("ROLLBACK")
            tally.differences.append(f"{name}: {sql}\n    MariaDB:  {_shown(expected)}\n    embedded: {_shown(got)}")
            return
        failed |= got.kind == "error"
        tally.failed += got.kind == "error"
    tally.agreed += 1


def _shown(answer: Answer) -> str:
    return f"{answer.kind} {answer.counts or ''} {answer.rows} {answer.columns}"


async def _reason(one: Embedded, sql: str) -> str:
    try:
        await one.session.execute(sql)
    except (EngineError, RewriteError) as error:
        return str(error.message)
    finally:
        await one.ask("ROLLBACK")
    return "?"
