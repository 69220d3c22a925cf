"""What pools of client libraries do with our errors: docs/protocol.md, "How client libraries react to errors".

After an error that ends the line a pool throws the connection away, after any other it keeps it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import toolchains
from pools import CommandLine, InLanguage, OfConnector, OfSqlalchemy, Pool
from servers import Gate, MariaDb, private, wait_until
from slowness import scaled
from toolchains import Program

# The first test of a client fetches its driver and compiles it.
pytestmark = [pytest.mark.timeout(600), pytest.mark.long]
BIG = f"ACK q WHERE n = LENGTH('{'x' * (2 << 20)}')"
ID = "SELECT CONNECTION_ID()"
GOES_ON = {
    "SELECT nothing": 1054,  # the database's own
    "ACK nowhere 1": 1146,
    "CREATE QUEUE q (n INT)": 1050,
    "CREATE QUEUE other (n INT) WITH (nonsense = 1)": 1231,
    "SELECT * FROM STREAM q, q": 1235,
    "SELECT * FROM STREAM q WITH (prefetch = 0)": 1231,
    "NACK q 1 DELAY 'soon'": 1231,
    "SELECT nothing FROM STREAM q": 1054,
}
"""Statements whose errors leave the session as it is, most of them the proxy's own, with their numbers."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Program]:
    """Builds a language's client, once."""

    @functools.cache
    def build(language: str) -> Program:
        made: Program = getattr(toolchains, language)(tmp_path_factory.mktemp(language))
        return made

    return build


_LANGUAGES = {
    "hikari-mysql": ("java", "hikari", "mysql"),
    "hikari-mariadb": ("java", "hikari", "mariadb"),
    "mariadb-pool": ("java", "pool", "mariadb"),
    "go": ("go", "statements"),
    "node": ("node", "statements"),
    "mysqli": ("php", "persistent_mysqli"),
    "pdo": ("php", "persistent_pdo"),
}
_OTHERS: dict[str, Any] = {
    "command-line": CommandLine(),
    "sqlalchemy-pymysql": OfSqlalchemy("mysql+pymysql"),
    "sqlalchemy-mysqlclient": OfSqlalchemy("mysql+mysqldb"),
    "sqlalchemy-connector": OfSqlalchemy("mysql+mysqlconnector"),
    "connector-pure": OfConnector(pure=True),
    "connector-c": OfConnector(pure=False),
}


@pytest.fixture(params=[*_LANGUAGES, *_OTHERS])
def client(request: pytest.FixtureRequest, built: Callable[[str], Program]) -> Any:
    """A kind of pool."""
    if request.param in _OTHERS:
        return _OTHERS[request.param]
    language, section, *arguments = _LANGUAGES[request.param]
    return InLanguage(lambda: built(language), section, arguments, keeps_class_08=language != "java")


@pytest.fixture(scope="module")
def own() -> Iterator[MariaDb]:
    """A server that is killed and started again."""
    with private(MariaDb()) as server:
        yield server


@pytest.fixture(scope="module")
def gate(own: MariaDb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    gate = Gate(own.url(), tmp_path_factory.mktemp("gate"), limits={"max_packet_size": "1MiB"}).start()
    with gate.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE QUEUE q (n INT)")
    yield gate
    gate.stop()


def kept(pool: Pool) -> str:
    """The pool's connection as the server numbers it."""
    first = pool.run(ID)
    assert first.startswith("= "), first
    assert pool.run(ID) == first
    return first


def test_after_an_error_of_a_statement_the_connection_is_kept(gate: Gate, client: Any) -> None:
    with client.opened(gate) as pool:
        before = kept(pool)
        for sql, number in GOES_ON.items():
            assert pool.run(sql).startswith(f"error {number}"), sql
            assert kept(pool) == before, sql


def heard(client: Any, pool: Pool) -> None:
    """A client that is no pool learns by an error that its connection was closed."""
    if not client.tries_first:
        assert pool.run(ID).startswith("error ")


def ended(gate: Gate, own: MariaDb, number: str) -> None:
    """KILL the connection at the server, and wait until the client's socket has heard of it."""
    before = clients(gate)
    kill(own, number)
    closed(gate, before)


def kill(own: MariaDb, number: str) -> None:
    with own.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"KILL {number}")


def closed(gate: Gate, before: set[str]) -> None:
    wait_until(lambda: not clients(gate) & before, what="the proxy to close the client's connection")


def clients(gate: Gate) -> set[str]:
    """The other ends of the open connections at the proxy's port."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {line[2] for line in lines if line[1].endswith(f":{gate.port:04X}") and line[3] == "01"}


def running(own: MariaDb) -> str:
    """The number of the connection whose SELECT SLEEP runs."""
    with own.connect() as connection, connection.cursor() as cursor:
        sql = "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'"
        wait_until(lambda: cursor.execute(sql), what="the statement to run")
        return str(cursor.fetchone()[0])


def test_after_the_end_of_its_line_the_connection_is_thrown_away(gate: Gate, own: MariaDb, client: Any) -> None:
    with client.opened(gate) as pool, ThreadPoolExecutor() as beside:
        first = kept(pool)
        answer = beside.submit(pool.run, "SELECT SLEEP(60)")
        ended(gate, own, running(own))  # in the middle of a statement, without a word
        assert answer.result(scaled(20)).startswith("error ")
        then = kept(pool)
        assert then != first
        ended(gate, own, then[2:])  # while nobody uses it
        heard(client, pool)
        after = kept(pool)
        assert after not in (first, then)
        before = clients(gate)
        refused = pool.run(BIG)  # with an error
        closed(gate, before)
        assert refused.startswith("error 1153"), refused[:100]
        heard(client, pool)
        assert kept(pool) != after


def streams(gate: Gate) -> int:
    with gate.connect() as connection, connection.cursor() as cursor:
        return cursor.execute("SHOW SUBSCRIPTIONS")


def test_a_pool_outlives_restarts_of_the_proxy_and_of_the_database(gate: Gate, own: MariaDb, client: Any) -> None:
    with client.opened(gate) as pool, ThreadPoolExecutor() as beside:
        before = kept(pool)
        answer = beside.submit(pool.run, "SELECT n FROM STREAM q")
        wait_until(lambda: streams(gate), what="the stream to be open")
        gate.terminate()
        assert answer.result(scaled(20)).startswith("error 1053")
        gate.start()
        heard(client, pool)
        then = kept(pool)
        assert then != before
        held = clients(gate)
        own.kill()
        closed(gate, held)
        heard(client, pool)
        try:
            assert pool.run(ID).startswith("error ")  # some say that they have no connection, and no more
        finally:
            own.start()
        wait_until(
            lambda: pool.run(ID).startswith("= "), what="the pool to connect again"
        )  # some wait longer each time
        assert kept(pool) != then


@pytest.fixture(scope="module")
def lazy(own: MariaDb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """Its clients' connections outlive their lines to the database."""
    users = [{"name": "root", "password": ""}]
    gate = Gate(own.url(), tmp_path_factory.mktemp("lazy"), auth="proxy", users=users).start()
    yield gate
    gate.stop()


def test_with_accounts_of_the_proxys_own_a_pool_may_keep_what_has_lost_its_line(
    lazy: Gate, own: MariaDb, client: Any
) -> None:
    """The connection goes on; pools that take class 08 for its end throw it away, which does no harm."""
    with client.opened(lazy) as pool, ThreadPoolExecutor() as beside:
        assert pool.run("SELECT 1") == "= 1"
        before = clients(lazy)
        answer = beside.submit(pool.run, "SELECT SLEEP(60)")
        kill(own, running(own))
        assert answer.result(scaled(20)).startswith("error 1105")
        assert pool.run("SELECT 2") == "= 2"
        assert (clients(lazy) == before) is client.keeps_class_08
        before = clients(lazy)
        own.kill()
        try:
            assert pool.run("SELECT 3").startswith("error 1218")
        finally:
            own.start()
        assert pool.run("SELECT 4") == "= 4"
        assert (clients(lazy) == before) is client.keeps_class_08


def test_a_connection_that_was_closed_for_its_rest_is_thrown_away(own: MariaDb, tmp_path: Path, client: Any) -> None:
    """Error 4031 lies on its line then, which nobody asked for."""
    gate = Gate(own.url(), tmp_path, limits={"idle_timeout": "1s"}).start()
    try:
        with client.opened(gate) as pool:
            assert pool.run("SELECT 1") == "= 1"
            closed(gate, clients(gate))
            heard(client, pool)
            assert pool.run("SELECT 2") == "= 2"
    finally:
        gate.stop()
