"""Fixtures of every suite: the two backends, a running queuegate on each, and clients.

A test that takes `gate` runs once on each backend. The process is shared by the tests of a session, so each test
makes queues and tables of names its own (`queue`, `name`). A test that kills or reconfigures takes `new_gate`.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import re
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

with contextlib.suppress(ImportError):
    # Before any other library in C++ (re2, pyarrow): loaded after them it finds no room for its thread-local variables.
    import _mysql_connector  # noqa: F401

import hypothesis
import pytest
import pytest_timeout
import scratch
from galera_cluster import Cluster, GatePair
from mariadb_next import MariaDbNext
from mysql_server import MySql
from preloaded import Preloaded
from servers import DATABASE, SERVER, Gate, MariaDb, Sql, Stream, find_binary, private
from slowness import scaled
from vitess_server import Vitess
from what_ran import unanswered, what_ran

scratch.use()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A run in the background of a shell ignores SIGINT, and so would every process that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
Gate.launch = staticmethod(Preloaded().start)
# The same examples in every run, without a time limit on one. HYPOTHESIS_PROFILE=default draws others.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

_HERE = Path(__file__).resolve().parent
_numbers = itertools.count(10_001)  # of five digits: tests may sort names by them
ONLY_WHERE_NAMED = tuple(Path(__file__).parent / folder for folder in ("spark", "galera"))
"""They need a JVM and the extra `spark`, or three servers at a time: `make test-spark`, `make test-galera`."""
_LONG_IN = {"console": ("mariadb",), "integration": ("embedded",), "spark_connector": ("embedded", "mariadb")}
"""Where tests of a suite are `long`: what is between them and the database is the same on both, and the contract has
that on both."""
_SHORT_ON_BOTH = ("test_row_blocks.py",)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files go to processes as a whole (`--dist` names another way)."""
    if config.getvalue("dist") != "load":
        return None
    from file_scheduling import FileScheduling

    return FileScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: Python's garbage collector would go through it again and again, and finds
    nothing. With it each process takes six seconds more to collect all tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before `-m` picks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items if SERVER == "mariadb" else ():
        suite = item.path.relative_to(_HERE).parts[0]
        place = getattr(getattr(item, "callspec", None), "params", {}).get("place")
        if place in _LONG_IN.get(suite, ()) and item.path.name not in _SHORT_ON_BOTH:
            item.add_marker(pytest.mark.long)


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Any:
    """The time after which a test hangs is longer on a machine that is busy, as its deadlines are."""
    return pytest_timeout.pytest_timeout_set_timer(item, settings._replace(timeout=scaled(settings.timeout)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A statement that is not answered in time is a failure whose reason is elsewhere: who worked at what."""
    report = yield
    if call.excinfo is not None and unanswered(call.excinfo.value):
        report.sections.extend(what_ran())
    return report


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path in ONLY_WHERE_NAMED and not _names(collection_path, config) else None


def pytest_report_header(config: pytest.Config) -> list[str]:
    left_out = [folder.name for folder in ONLY_WHERE_NAMED if not _names(folder, config)]
    return [f"tests/{name} is left out: run `make test-{name}`" for name in left_out]


def _names(folder: Path, config: pytest.Config) -> bool:
    paths = [(config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args]
    return any(path.is_relative_to(folder) for path in paths)


@pytest.fixture(scope="session")
def mysql() -> Iterator[MariaDb]:
    """A private MySQL. Missing: a skip at a desk, a failure in CI."""
    with private(MySql()) as server:
        yield server


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A private Galera cluster of three. Missing: a skip at a desk, a failure in CI."""
    made = Cluster()
    try:
        made.start()
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="session")
def mariadb(request: pytest.FixtureRequest) -> Iterator[MariaDb]:
    """A private MariaDB. Missing: a skip at a desk, a failure in CI."""
    if SERVER == "mysql":
        yield request.getfixturevalue("mysql")
        return
    if SERVER == "mariadb-next":
        with private(MariaDbNext()) as server:
            yield server
        return
    if SERVER == "vitess":
        with private(Vitess()) as server:
            yield server
        return
    if SERVER == "galera":
        cluster: Cluster = request.getfixturevalue("cluster")
        cluster.seem_one_server()
        yield cluster.nodes[0]
        return
    if find_binary("mariadbd") is None or find_binary("mariadb-install-db") is None:
        reason = "MariaDB is not installed (mariadb-server, mariadb-client): half of the promises are NOT tested"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with private(MariaDb()) as server:
        yield server


@pytest.fixture
def own_mariadb(mariadb: MariaDb) -> Iterator[MariaDb]:
    """A MariaDB of this test alone, to be killed, or to be counted on: the shared one hears from other tests' gates."""
    with private(type(mariadb)()) as server:
        yield server


@pytest.fixture(scope="session", params=["embedded", "mariadb"] if SERVER == "mariadb" else ["mariadb"])
def place(request: pytest.FixtureRequest) -> str:
    """Where a test is run: each backend in turn. The contract suite has one more, `proxy_accounts`."""
    return str(request.param)


class Places:
    """Backends and shared gates by place, each made when it is first needed and kept to the session's end.

    Fixtures of the session that depended on `place` would not do: there are two of that name, and what was made
    for a value of one would be kept for a test that has another value of the other.
    """

    def __init__(self, fixture: Callable[[str], Any], directory: Callable[[str], Path]) -> None:
        self._fixture, self._directory = fixture, directory
        self._backends: dict[str, str] = {}
        self._gates: dict[str, Gate] = {}

    def backend(self, place: str) -> str:
        if place not in self._backends:
            embedded = place == "embedded"
            url = (
                f"sqlite:///{self._directory('embedded')}/queue.db"
                if embedded
                else _server_url(self._fixture(server_of(place)), place)
            )
            self._backends[place] = url
        return self._backends[place]

    def gate(self, place: str) -> Gate:
        if place not in self._gates:
            self._gates[place] = self._made(place).start()
        return self._gates[place]

    def _made(self, place: str) -> Gate:
        url, directory = self.backend(place), self._directory("gate")
        if SERVER == "galera":
            return GatePair(self._fixture("cluster"), directory, **options_of(place))
        return Gate(url, directory, **options_of(place))

    @property
    def gates(self) -> list[Gate]:
        """Those that have been started."""
        return list(self._gates.values())

    def stop(self) -> None:
        with contextlib.ExitStack() as all_of_them:
            for gate in self._gates.values():
                all_of_them.callback(gate.stop)


@pytest.fixture(scope="session")
def places(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    kept = Places(request.getfixturevalue, tmp_path_factory.mktemp)
    yield kept
    kept.stop()


@pytest.fixture
def server_here(place: str, request: pytest.FixtureRequest) -> MariaDb:
    """The server behind the gate; the embedded place has none."""
    server: MariaDb = request.getfixturevalue(server_of(place))
    return server


@pytest.fixture
def backend(place: str, places: Places, request: pytest.FixtureRequest) -> str:
    """The URL of the place's backend."""
    if place != "embedded":
        request.getfixturevalue(server_of(place))  # a test that has none is skipped by itself
    return places.backend(place)


def _server_url(server: MariaDb, place: str, database: str = DATABASE) -> str:
    """With `auth: backend` the engine has an account of least rights; else its account is that of the clients, too."""
    return server.url(database) if place == "proxy_accounts" else server.engine_url(database)


def server_of(place: str) -> str:
    """The fixture of the server there."""
    return "mysql" if place == "mysql" else "mariadb"


def options_of(place: str) -> dict[str, Any]:
    """What a gate's configuration has besides, there."""
    return {"auth": "proxy", "users": [{"name": "root", "password": ""}]} if place == "proxy_accounts" else {}


@pytest.fixture
def on_mysql(place: str) -> bool:
    """Whether the server there is MySQL itself."""
    return place == "mysql" or (SERVER == "mysql" and place != "embedded")


@pytest.fixture
def gate(backend: str, place: str, places: Places) -> Gate:
    """A queuegate that the tests of this session share."""
    return places.gate(place)


GateMaker = Callable[..., Gate]


def _gate_on_empty_database(request: pytest.FixtureRequest, place: str, folder: Path, config: dict[str, Any]) -> Gate:
    """Not started yet; `config` goes over what every gate there has."""
    number = next(_numbers)
    directory = folder / f"gate{number}"
    directory.mkdir()
    if place == "embedded":
        url, database = f"sqlite:///{directory}/queue.db", "main"
    else:
        server: MariaDb = request.getfixturevalue(server_of(place))
        database = f"own_{number}"
        server.fresh_database(database)
        url = _server_url(server, place, database)
    return Gate(url, directory, database=database, **{**options_of(place), **config})


@pytest.fixture
def new_gate(backend: str, place: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[GateMaker]:
    """Makes a queuegate for this test alone, on an empty database; keyword arguments are configuration keys."""
    with contextlib.ExitStack() as gates:

        def make(**config: Any) -> Gate:
            gate = _gate_on_empty_database(request, place, tmp_path, config)
            gates.callback(gate.stop)
            return gate

        yield make


@pytest.fixture(scope="module")
def _modules_gates() -> Iterator[dict[str, Gate]]:
    gates: dict[str, Gate] = {}
    yield gates
    with contextlib.ExitStack() as all_of_them:
        for gate in gates.values():
            all_of_them.callback(gate.stop)


@pytest.fixture
def shared_gate(
    backend: str,
    place: str,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    _modules_gates: dict[str, Gate],
) -> GateMaker:
    """Starts a queuegate of this configuration, or returns the one that another test of the module started.

    For tests that configure it and neither stop it nor change what others of the module see.
    """

    def make(**config: Any) -> Gate:
        key = repr((place, sorted(config.items())))
        if key not in _modules_gates:
            gate = _gate_on_empty_database(request, place, tmp_path_factory.mktemp("shared"), config)
            _modules_gates[key] = gate.start()
        return _modules_gates[key]

    return make


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
def topic(gate: Gate, request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Makes topics with their groups: `topic("body TEXT", billing="START AT EARLIEST")`; dropped at the end."""
    made: list[str] = []
    stem = re.sub(r"[^a-z0-9]+", "_", request.node.originalname.lower())[:30]

    def make(
        columns: str = "payload VARCHAR(256)", *, options: str = "", name: str | None = None, **groups: str
    ) -> str:
        name = name or f"{stem}_{next(_numbers)}"
        client = Sql(gate.connect())
        client(f"CREATE TOPIC {name} ({columns}) {options}")
        made.append(name)
        for group, clauses in groups.items():
            client(f"CREATE GROUP {group} ON {name} {clauses}")
        client.close()
        return name

    yield make
    client = Sql(gate.connect())
    for name in set(made).intersection(client.column("SHOW TOPICS")):
        for group in client.rows(f"SHOW GROUPS ON {name}"):
            client(f"DROP GROUP {group[2]} ON {name}")
        client(f"DROP TOPIC {name}")
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
