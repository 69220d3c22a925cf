"""Proxies in front of the nodes of a cluster; `make test-galera` runs these tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from servers import Gate, MariaDb


@pytest.fixture
def gate_at(tmp_path: Path) -> Iterator[Callable[..., Gate]]:
    """Starts a proxy in front of a node."""
    with ExitStack() as gates:

        def make(node: MariaDb, database: str = "main") -> Gate:
            directory = tmp_path / f"node{node.port}"
            directory.mkdir()
            gate = Gate(node.url(database), directory, database=database).start()
            gates.callback(gate.stop)
            return gate

        yield make
