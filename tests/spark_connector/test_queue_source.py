"""mode=queue without Spark: claims, replays, acks and leases over a real gate, by the calls that Spark makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from servers import Gate, Sql
from spark_stand_in import Checkpoint, Query, make_source

from spark_connector.claims import table_name

Begin = Callable[..., Query]


@pytest.fixture
def begin(gate: Gate) -> Iterator[Begin]:
    """Begins a query on a queue; a second one with the same checkpoint is its restart."""
    queries: list[Query] = []

    def make(queue: str, checkpoint: Checkpoint | None = None, limit: int | None = 20_000, **options: Any) -> Query:
        queries.append(Query(make_source(gate, queue, **options), checkpoint or Checkpoint(), limit))
        return queries[-1]

    yield make
    for query in queries:
        query.kill()


def fill(sql: Sql, queue: str, count: int, first: int = 0) -> None:
    for low in range(first, first + count, 5000):
        rows = ", ".join(f"('m{number}')" for number in range(low, min(low + 5000, first + count)))
        sql(f"INSERT INTO {queue} (payload) VALUES {rows}")


def states(sql: Sql, queue: str) -> dict[str, int]:
    return {str(state): int(count) for state, count in sql.rows(f"SELECT state, COUNT(*) FROM {queue} GROUP BY state")}


def test_what_is_due_is_read_once_and_acked_when_the_next_batch_is_asked_for(begin, sql, queue):
    name = queue()
    fill(sql, name, 250)
    query = begin(name)
    assert query.plan()
    assert states(sql, name) == {"fired": 250}
    assert sorted(payload for _, payload in query.run()) == sorted(f"m{number}" for number in range(250))
    query.finish()
    assert states(sql, name) == {"fired": 250}
    assert not query.plan()
    assert states(sql, name) == {"acked": 250}
    assert sql.value(f"SELECT COUNT(*) FROM {table_name(name)}") == 0
