"""Fixtures for sources that are driven by hand, as Spark would, over the gates of tests/conftest.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from servers import Gate
from spark_stand_in import Checkpoint, Query, make_source

Begin = Callable[..., Query]


@pytest.fixture
def begin(gate: Gate) -> Iterator[Begin]:
    """Begins a query on a queue; a second one with the same checkpoint is its restart. `at`: another gate."""
    queries: list[Query] = []

    def make(
        queue: str,
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
