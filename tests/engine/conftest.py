"""Fixtures of the engine's tests: stores of every kind, each with an empty queue table."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import MariaDb, private
from store_benches import MemoryBench, MySQLBench, ShardedBench, SqliteBench, StoreBench

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def engine_mariadb(mariadb: MariaDb) -> Iterator[MariaDb]:
    """A MariaDB of the engine's tests alone. On a shared one the engines of other tests' proxies do the duties of every
    queue there is: purge, dead letters, groups."""
    with private(type(mariadb)()) as server:
        yield server


@pytest.fixture
def fresh_url(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Makes empty databases on the engine's MariaDB; gives their URLs."""

    def make() -> str:
        url: str = request.getfixturevalue("engine_mariadb").fresh_database(f"engine_{next(_numbers)}")
        return url

    return make


@pytest.fixture(params=["memory", "sqlite", "sharded", "mariadb"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoreBench]:
    """Each kind of store in turn."""
    made: Any
    if request.param == "memory":
        made = MemoryBench()
    elif request.param == "sqlite":
        made = await SqliteBench.open(str(tmp_path / "queue.db"))
    elif request.param == "sharded":
        made = await ShardedBench.open(str(tmp_path / "queue.db"))
    else:
        made = await MySQLBench.open(request.getfixturevalue("fresh_url")())
    yield made
    await made.close()


@pytest.fixture(params=["sqlite", "mariadb"])
def open_sql(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Any]:
    """Opens a bench with ids of a kind: integer, text or binary."""
    types = {
        "sqlite": {"integer": "INTEGER", "text": "TEXT", "binary": "BLOB"},
        "mariadb": {"integer": "BIGINT", "text": "VARCHAR(64)", "binary": "VARBINARY(64)"},
    }[request.param]

    async def make(kind: str) -> Any:
        if request.param == "sqlite":
            return await SqliteBench.open(str(tmp_path / "queue.db"), types[kind])
        return await MySQLBench.open(request.getfixturevalue("fresh_url")(), types[kind])

    return make
