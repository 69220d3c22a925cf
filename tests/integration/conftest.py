"""Servers and the gates in front of them: one whose logins are tried in every way, and the session's, to compare with.

Each is started when a test first asks for it.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from logins import DATABASE, Server
from same import Play, played_twice
from servers import Gate, MariaDb, Sql
from wire_client import WireClient

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server(mariadb: MariaDb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    certificate, key = map(str, authority.issue("server", "127.0.0.1"))
    own = MariaDb(
        [f"--ssl-ca={authority.ca}", f"--ssl-cert={certificate}", f"--ssl-key={key}",
         "--plugin-load-add=auth_ed25519", "--proxy-protocol-networks=127.0.0.1"]
    )  # fmt: skip
    try:
        own.install()
        own.start()
        own.prepare()
        own.fresh_database(DATABASE)
        with own.connect() as connection:
            admin = Sql(connection)
            admin("CREATE DATABASE forbidden")
            for host in ("127.0.0.1", "localhost"):
                admin(f"CREATE USER engine@'{host}' IDENTIFIED BY 'secret'")
                admin(f"GRANT ALL ON {DATABASE}.* TO engine@'{host}'")
        yield Server(own, authority, certificate, key)
    finally:
        own.remove()


@pytest.fixture(scope="session")
def make_gate(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Gate]]:
    gates: dict[str, Gate] = {}
    tls = {"certificate": server.certificate, "key": server.key}

    def make(options: str = "", **config: Any) -> Gate:
        """One for each set of backend options."""
        name = f"{options} {sorted(config.items())}"
        if name not in gates:
            directory = tmp_path_factory.mktemp("gate")
            gates[name] = Gate(server.url(options), directory, database=DATABASE, **{"tls": tls, **config})
            gates[name].start()
        return gates[name]

    yield make
    for gate in gates.values():
        gate.stop()


@pytest.fixture
def admin(server: Server) -> Iterator[Sql]:
    client = Sql(server.mariadb.connect())
    yield client
    client.close()


@pytest.fixture
def account(admin: Sql) -> Iterator[Callable[..., str]]:
    """Makes accounts at 127.0.0.1 with all rights on the database; gone at the end."""
    made: list[str] = []

    def make(identified: str, name: str = "", host: str = "127.0.0.1") -> str:
        name = name or f"u{os.urandom(4).hex()}"
        full = f"{name}@'{host}'"
        made.append(full)
        admin(f"CREATE OR REPLACE USER {full} {identified}")
        admin(f"GRANT ALL ON {DATABASE}.* TO {full}")
        return name

    yield make
    for full in made:
        admin(f"DROP USER IF EXISTS {full}")


@pytest.fixture(scope="session")
def mariadb_gate(mariadb: MariaDb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """A queuegate in front of the session's MariaDB."""
    running = Gate(mariadb.url(), tmp_path_factory.mktemp("mariadb_gate"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def pair(mariadb: MariaDb, mariadb_gate: Gate) -> Iterator[Callable[..., tuple[WireClient, WireClient]]]:
    """Makes the same client twice: at the server itself, and through the proxy."""
    with ExitStack() as clients:

        def make(**options: Any) -> tuple[WireClient, WireClient]:
            given = {"database": mariadb_gate.database, **options}
            direct, proxied = (WireClient(port, **given) for port in (mariadb.port, mariadb_gate.port))
            clients.enter_context(direct)
            clients.enter_context(proxied)
            return direct, proxied

        yield make


@pytest.fixture
def play(mariadb: MariaDb, mariadb_gate: Gate) -> Iterator[Play]:
    """Plays a scenario at the server and through the proxy, and compares."""
    yield lambda scenario, **options: played_twice(mariadb, mariadb_gate.port, scenario, **options)
    with mariadb.connect() as connection:
        Sql(connection)("DROP DATABASE IF EXISTS same")


@pytest.fixture
def new_gate_on(tmp_path: Path) -> Iterator[Callable[..., Gate]]:
    """Makes a queuegate in front of that server, on a database of its own unless told which."""
    with ExitStack() as gates:

        def make(server: MariaDb, *, database: str | None = None, **config: Any) -> Gate:
            directory = tmp_path / f"gate{next(_numbers)}"
            directory.mkdir()
            name = database or directory.name
            url = server.url(name) if database is not None else server.fresh_database(name)
            gate = Gate(url, directory, database=name, **config).start()
            gates.callback(gate.stop)
            return gate

        yield make
