"""Fixtures for sources and sinks that are driven by hand, as Spark would, over the gates of tests/conftest.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest
from pymysql.constants import COMMAND
from servers import Gate, Sql, wait_until
from spark_stand_in import Checkpoint, Query, make_source

from spark_connector.client import pool

Begin = Callable[..., Query]


@pytest.fixture
def begin(gate: Gate) -> Iterator[Begin]:
    """Begins a query on a queue; a second one with the same checkpoint is its restart. `at`: another gate."""
    queries: list[Query] = []

    def make(
        queue: str | None,
        checkpoint: Checkpoint | None = None,
        limit: int | None = 20_000,
        at: Gate = gate,
        **options: Any,
    ) -> Query:
        queries.append(Query(make_source(at, queue, **options), checkpoint or Checkpoint(), limit))
        return queries[-1]

    yield make
    for query in queries:
        query.kill()


@pytest.fixture
def tick(sql: Sql) -> Callable[[], None]:
    """Waits until what is enqueued is certainly later than what was read of the database's clock before.

    The embedded backend keeps the times of messages in whole milliseconds, cut off.
    """

    def now() -> int:
        return int(sql.value("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)"))

    def wait() -> None:
        begun = now()
        wait_until(lambda: now() > begun + 2000, what="the database's clock to go on by two milliseconds")

    return wait


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every statement that a connection of this process sends from now on, those that PyMySQL makes up included."""
    texts: list[str] = []
    send = pymysql.connections.Connection._execute_command

    def noted(connection: Any, command: int, text: Any) -> Any:
        if command == COMMAND.COM_QUERY:
            texts.append(text if isinstance(text, str) else bytes(text).decode())
        return send(connection, command, text)

    monkeypatch.setattr(pymysql.connections.Connection, "_execute_command", noted)
    yield texts
    pool.close_all()
