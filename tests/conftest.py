"""Fixtures of every suite: the two backends, a running queuegate on each, and clients.

A test that takes `gate` runs once on each backend. The process is shared by the tests of a session, so each test
makes queues and tables of names its own (`queue`, `name`). A test that kills or reconfigures takes `new_gate`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import Gate, MariaDb, Sql, Stream, find_binary

_numbers = itertools.count(1)
SPARK = Path(__file__).parent / "spark"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """tests/spark needs a JVM and the extra `spark`: it runs where it is named, which `make test-spark` does."""
    return True if collection_path == SPARK and not _names_spark(config) else None


def pytest_report_header(config: pytest.Config) -> str | None:
    return None if _names_spark(config) else "tests/spark is left out: run `make test-spark`"


def _names_spark(config: pytest.Config) -> bool:
    paths = [(config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args]
    return any(path.is_relative_to(SPARK) for path in paths)


@contextlib.contextmanager
def _private_mariadb() -> Iterator[MariaDb]:
    server = MariaDb()
    try:
        server.install()
        server.start()
        server.prepare()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """A private MariaDB. Missing: a skip at a desk, a failure in CI."""
    if find_binary("mariadbd") is None or find_binary("mariadb-install-db") is None:
        reason = "MariaDB is not installed (mariadb-server, mariadb-client): half of the promises are NOT tested"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with _private_mariadb() as server:
        yield server


@pytest.fixture
def own_mariadb(mariadb: MariaDb) -> Iterator[MariaDb]:
    """A MariaDB of this test alone, to be killed, or to be counted on: the shared one hears from other tests' gates."""
    with _private_mariadb() as server:
        yield server


@pytest.fixture(scope="session", params=["embedded", "mariadb"])
def place(request: pytest.FixtureRequest) -> str:
    """Where a test is run: each backend in turn. The contract suite has one more, `proxy_accounts`."""
    return str(request.param)


class Places:
    """Backends and shared gates by place, each made when it is first needed and kept to the session's end.

    Fixtures of the session that depended on `place` would not do: there are two of that name, and what was made
    for a value of one would be kept for a test that has another value of the other.
    """

    def __init__(self, server: Callable[[], MariaDb], directory: Callable[[str], Path]) -> None:
        self._server, self._directory = server, directory
        self._backends: dict[str, str] = {}
        self._gates: dict[str, Gate] = {}

    def backend(self, place: str) -> str:
        if place not in self._backends:
            embedded = place == "embedded"
            url = f"sqlite:///{self._directory('embedded')}/queue.db" if embedded else self._server().url()
            self._backends[place] = url
        return self._backends[place]

    def gate(self, place: str) -> Gate:
        if place not in self._gates:
            gate = Gate(self.backend(place), self._directory("gate"), **options_of(place))
            self._gates[place] = gate.start()
        return self._gates[place]

    def stop(self) -> None:
        with contextlib.ExitStack() as all_of_them:
            for gate in self._gates.values():
                all_of_them.callback(gate.stop)


@pytest.fixture(scope="session")
def places(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    kept = Places(lambda: request.getfixturevalue("mariadb"), tmp_path_factory.mktemp)
    yield kept
    kept.stop()


@pytest.fixture
def backend(place: str, places: Places, request: pytest.FixtureRequest) -> str:
    """The URL of the place's backend."""
    if place != "embedded":
        request.getfixturevalue("mariadb")  # a test that has none is skipped by itself
    return places.backend(place)


def options_of(place: str) -> dict[str, Any]:
    """What a gate's configuration has besides, there."""
    return {"auth": "proxy", "users": [{"name": "root", "password": ""}]} if place == "proxy_accounts" else {}


@pytest.fixture
def gate(backend: str, place: str, places: Places) -> Gate:
    """A queuegate that the tests of this session share."""
    return places.gate(place)


@pytest.fixture
def new_gate(backend: str, place: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Gate]]:
    """Makes a queuegate for this test alone, on an empty database; keyword arguments are configuration keys."""
    gates = contextlib.ExitStack()

    def make(**config: Any) -> Gate:
        number = next(_numbers)
        directory = tmp_path / f"gate{number}"
        directory.mkdir()
        if backend.startswith("sqlite"):
            url, database = f"sqlite:///{directory}/queue.db", "main"
        else:
            server: MariaDb = request.getfixturevalue("mariadb")
            database = f"own_{number}"
            url = server.fresh_database(database)
        gate = Gate(url, directory, database=database, **{**options_of(place), **config})
        gates.callback(gate.stop)
        return gate

    with gates:
        yield make


@pytest.fixture
def sql(gate: Gate) -> Iterator[Sql]:
    """A client with autocommit on."""
    client = Sql(gate.connect())
    yield client
    client.close()


@pytest.fixture
def connect(gate: Gate) -> Iterator[Callable[..., Sql]]:
    """Makes further clients; all are closed at the end."""
    clients: list[Sql] = []

    def make(**options: Any) -> Sql:
        clients.append(Sql(gate.connect(**options)))
        return clients[-1]

    yield make
    for client in clients:
        if client.connection.open:
            client.connection._force_close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A table name that no other test uses."""
    return f"{re.sub(r'[^a-z0-9]+', '_', request.node.originalname.lower())[:40]}_{next(_numbers)}"


@pytest.fixture
def queue(gate: Gate, request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Makes queues: `queue("payload VARCHAR(256)", ack_wait="'2s'")`; dropped at the end."""
    made: list[str] = []
    stem = re.sub(r"[^a-z0-9]+", "_", request.node.originalname.lower())[:40]

    def make(columns: str = "payload VARCHAR(256)", **options: object) -> str:
        name = f"{stem}_{next(_numbers)}"
        settings = ", ".join(f"{key} = {value}" for key, value in options.items())
        client = Sql(gate.connect())
        client(f"CREATE QUEUE {name} ({columns})" + (f" WITH ({settings})" if settings else ""))
        client.close()
        made.append(name)
        return name

    yield make
    if made:
        client = Sql(gate.connect())
        for name in made:
            client(f"DROP QUEUE IF EXISTS {name}")
        client.close()


@pytest.fixture
def stream(gate: Gate) -> Iterator[Callable[..., Stream]]:
    """Opens receivers: `stream(f"SELECT * FROM STREAM {q}")`; all hang up at the end."""
    streams: list[Stream] = []

    def make(sql: str, **options: Any) -> Stream:
        streams.append(Stream(gate, sql, **options))
        return streams[-1]

    yield make
    for opened in streams:
        opened.close()
