"""Databases to begin with: what a real CREATE QUEUE leaves in a real embedded database, as bytes for one in memory.

Made once per shape of table and process; a simulation then only writes its own options into the table's comment.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from embedded.database.sqlite import SqliteDatabase
from embedded.session.results import RowsResult
from embedded.session.session import EmbeddedSession
from embedded.session.state import Identity
from engine.model.queue import QueueCatalog
from rewriter.plan import Execute, Passthrough, PlanContext
from rewriter.planner import Planner

T = TypeVar("T")

META_TABLES = ("queuegate_meta_tables", "queuegate_meta_columns")


@cache
def template(shape: str) -> bytes:
    """The database file after the statements of a shape, one a line, in MySQL's words."""
    return _in_thread(shape)


@dataclass(frozen=True, slots=True)
class Definition:
    """What a statement adds to a database: SQLite's own statements, and rows of the data dictionary by its table."""

    statements: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Any, ...]], ...]


@cache
def definition(shape: str, sql: str) -> Definition:
    """What this statement makes in a database of that shape."""
    before, after = _opened(template(shape)), _opened(_in_thread(f"{shape}\n{' '.join(sql.split())}"))
    listed = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%' ORDER BY rowid"
    known = set(before.execute(listed))
    rows = [(table, row) for table in META_TABLES for row in _added(before, after, f"SELECT * FROM {table}")]
    return Definition(tuple(row[0] for row in after.execute(listed) if row not in known), tuple(rows))


@cache
def table_definition(shape: str, table: str) -> str:
    """What SHOW CREATE TABLE says of a table in a database of that shape."""
    return _run_in_thread(lambda: asyncio.run(_shown(template(shape), table)))


async def _shown(data: bytes, table: str) -> str:
    with tempfile.TemporaryDirectory(prefix="queuegate-simulation-") as folder:
        path = Path(folder) / "shown.db"
        path.write_bytes(data)
        database = await SqliteDatabase.open(str(path))
        session = _session(database)
        result = await session.execute(f"SHOW CREATE TABLE {table}", None)
        assert isinstance(result, RowsResult)
        ((_, text),) = [row async for batch in result.batches for row in batch]
        await session.close()
        await database.close()
    return text.decode() if isinstance(text, bytes) else str(text)


def _added(before: sqlite3.Connection, after: sqlite3.Connection, sql: str) -> list[tuple[Any, ...]]:
    known = {row[0] for row in before.execute(sql)}  # a table's name; of when it was made the rest may tell
    return [row for row in after.execute(sql) if row[0] not in known]


def _opened(data: bytes) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.deserialize(data)
    return database


def _in_thread(shape: str) -> bytes:
    """In a thread, because the caller may be on a simulated loop, and this needs a real one."""
    return _run_in_thread(lambda: _make(shape))


def _run_in_thread(work: Callable[[], T]) -> T:
    made: list[T] = []
    thread = threading.Thread(target=lambda: made.append(work()))
    thread.start()
    thread.join()
    return made[0]


def _make(shape: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="queuegate-simulation-") as folder:
        path = str(Path(folder) / "template.db")
        asyncio.run(_create(path, shape.splitlines()))
        database = sqlite3.connect(path)
        database.execute("PRAGMA journal_mode = DELETE").close()  # a database in memory has no other
        data = database.serialize()
        database.close()
    return data


def _session(database: SqliteDatabase) -> EmbeddedSession:
    return EmbeddedSession(database, Identity(1, "root", "127.0.0.1:5000", "8.0.40-simulation"), lambda: ())


async def _create(path: str, statements: list[str]) -> None:
    database = await SqliteDatabase.open(path)
    session = _session(database)
    for sql in statements:
        plan = Planner(QueueCatalog()).plan(sql, PlanContext(database="main"))
        assert isinstance(plan, Execute | Passthrough), plan
        await session.execute(plan.sql if isinstance(plan, Execute) else sql, None)
    await session.close()
    await database.close()
