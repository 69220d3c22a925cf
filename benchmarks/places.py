"""Where a benchmark runs: a queuegate process on a fresh backend, and the same database without it, for comparison."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers import Gate, MariaDb


@dataclass(frozen=True, slots=True)
class Place:
    """A backend with a queuegate in front. `server` is the database itself where it is a server."""

    backend: str
    durability: str
    gate: Gate
    directory: Path
    server: MariaDb | None = None


@contextlib.contextmanager
def embedded(**config: Any) -> Iterator[Place]:
    """The embedded backend on a temporary file. `config`: keys of the gate's configuration."""
    with tempfile.TemporaryDirectory(prefix="queuegate-bench-") as name:
        directory = Path(name)
        gate = Gate(f"sqlite:///{directory}/queue.db", directory, **config).start()
        try:
            yield Place("embedded", "WAL, synchronous=FULL", gate, directory)
        finally:
            gate.stop()


@contextlib.contextmanager
def mariadb(**config: Any) -> Iterator[Place]:
    """A private MariaDB that flushes its log at every commit."""
    server = MariaDb()
    with tempfile.TemporaryDirectory(prefix="queuegate-bench-") as name:
        try:
            server.install()
            server.start()
            server.prepare()
            gate = Gate(server.url(), Path(name), **config).start()
            try:
                yield Place("MariaDB", "flush per commit", gate, Path(name), server)
            finally:
                gate.stop()
        finally:
            server.remove()


PLACES = {"embedded": embedded, "mariadb": mariadb}
