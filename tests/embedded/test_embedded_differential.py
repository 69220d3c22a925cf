"""The same statements on the embedded backend and on a MariaDB server: rows, columns, counts, errors must agree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from servers import MariaDb

from embedded.session.results import RowsResult
from engine.model.errors import EngineError
from rewriter.errors import RewriteError

FILES = sorted((Path(__file__).parent / "statements").glob("*.sql"))
DATABASE = "queuegate_differential"
MODES = "STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

# Servers differ in the width of a type; its family must be the same.
FAMILIES = dict.fromkeys((1, 2, 3, 8, 9, 13), "int") | dict.fromkeys((15, 245, 249, 250, 251, 252, 253, 254), "text")
UNTYPED = ("text", 6)  # NULL, and user variables that were never set


def statements(path: Path) -> Iterator[tuple[str, bool]]:
    """Each statement, and whether its answers must agree."""
    compared = True
    for line in path.read_text().splitlines():
        if line.startswith("~"):
            compared = False
        elif line and not line.startswith("# "):
            yield line, compared
            compared = True


@pytest.fixture
def server(mariadb: MariaDb) -> Iterator[pymysql.connections.Connection]:
    connection = mariadb.connect(charset="utf8mb4")
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
        cursor.execute(f"USE {DATABASE}")
        cursor.execute("SET sql_mode = %s", (MODES,))
        yield connection
        cursor.execute(f"DROP DATABASE {DATABASE}")
    connection.close()


def plain(value: Any) -> Any:
    return float(f"{value:.12g}") if isinstance(value, float) else value


def ask_server(connection: pymysql.connections.Connection, sql: str) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        try:
            count = cursor.execute(sql)
        except pymysql.MySQLError as error:
            return ("error", error.args[0])
        if cursor.description is None:
            return ("done", count, cursor.lastrowid)
        rows = [tuple(plain(value) for value in row) for row in cursor.fetchall()]
        return (
            "rows",
            rows,
            [c[0] for c in cursor.description],
            [FAMILIES.get(c[1], c[1]) for c in cursor.description],
        )


async def ask_embedded(session: Any, sql: str) -> tuple[Any, ...]:
    try:
        result = await session.execute(sql)
        if not isinstance(result, RowsResult):
            return ("done", result.affected_rows, result.last_insert_id)
        rows = [tuple(plain(value) for value in row) async for batch in result.batches for row in batch]
    except (EngineError, RewriteError) as error:
        return ("error", error.errno)
    return ("rows", rows, [c.name for c in result.columns], [FAMILIES.get(c.type, c.type) for c in result.columns])


def agree(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    if one[:3] != other[:3] or one[0] != "rows":
        return one == other
    pairs = zip(one[3], other[3], strict=True)
    return all(a == b or (a in UNTYPED and b in UNTYPED) for a, b in pairs)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
async def test_same_answers(path, client, server):
    differences = []
    for sql, compared in statements(path):
        expected, got = ask_server(server, sql), await ask_embedded(client.session, sql)
        if compared and not agree(expected, got):
            differences.append(f"{sql}\n    MariaDB:  {expected}\n    embedded: {got}")
    assert not differences, "\n".join(differences)
