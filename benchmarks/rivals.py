"""The ways from a client to one MariaDB that are compared: direct, through HAProxy, through queuegate.

All run at the same time on one machine before one database, so that they can be measured in turn. HAProxy forwards TCP
and knows nothing of MySQL: it is what any proxy of user-space processes costs at least.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from benchmarks.processes import cpu_seconds
from proxy.config import Config
from tests.servers import DATABASE, Gate, MariaDb, find_binary, free_port, wait_until

DIRECT = "direct"
HAPROXY = "HAProxy, 1 thread"
HAPROXY_DEFAULT = "HAProxy, default threads"
QUEUEGATE = "queuegate"
WORKERS = "queuegate, 2 workers"
EVERYBODY = (DIRECT, HAPROXY, HAPROXY_DEFAULT, QUEUEGATE, WORKERS)
CLIENTS_MAX = 4000  # more than any part opens at a time

_HAPROXY_CONFIG = """\
global
  maxconn {clients}
{threads}defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen mysql
  bind 127.0.0.1:{port}
  server database 127.0.0.1:{backend}
"""


@dataclass(frozen=True, slots=True)
class Rival:
    """One way to the database. `pid` is the proxy's process; none where there is no proxy."""

    name: str
    port: int
    pid: int | None = None

    @property
    def gate(self) -> bool:
        """Whether this is a queuegate."""
        return self.name.startswith(QUEUEGATE)

    def cpu(self) -> float:
        """CPU seconds that the proxy has used."""
        return 0.0 if self.pid is None else cpu_seconds(self.pid)

    def connect(self, **options: Any) -> pymysql.Connection[Any]:
        """A PyMySQL client. Without TLS it does not load the system's certificates, which takes longer than a login."""
        return pymysql.connect(
            **{"host": "127.0.0.1", "port": self.port, "user": "root", "database": DATABASE, "autocommit": True,
               "ssl_disabled": True, "read_timeout": 60, **options}
        )  # fmt: skip


@dataclass(slots=True)
class Arena:
    """The database and every rival before it."""

    server: MariaDb
    rivals: list[Rival]
    versions: dict[str, str]
    directory: Path
    _stack: contextlib.ExitStack = field(repr=False)

    def named(self, *names: str) -> list[Rival]:
        """Those of these names that take part, in this order."""
        return [rival for name in names for rival in self.rivals if rival.name == name]

    def new_gate(self, **config: Any) -> tuple[Gate, Rival]:
        """A fresh queuegate for one measurement; ends with the arena at the latest."""
        directory = Path(tempfile.mkdtemp(dir=self.directory))
        gate = start_gate(self.server, directory, self._stack, **config)
        assert gate.process is not None
        return gate, Rival(QUEUEGATE, gate.port, gate.process.pid)

    @property
    def database_pid(self) -> int:
        """The database's process."""
        return int((self.server.directory / "pid").read_text())

    def fresh(self, rival: Rival) -> Rival:
        """Another process of the same kind, in which nothing has happened yet."""
        if rival.gate:
            return self.new_gate(**({"workers": 2} if rival.name == WORKERS else {}))[1]
        program = find_binary("haproxy")
        assert program is not None
        return _start_haproxy(rival.name, program, self.directory, self.server.port, "  nbthread 1\n", self._stack)

    def database_cpu(self) -> float:
        """CPU seconds that the database has used."""
        return cpu_seconds(self.database_pid)


def workers_supported() -> bool:
    """Whether this queuegate can run several processes on one port."""
    return "workers" in Config.model_fields


@contextlib.contextmanager
def arena(names: Collection[str] = EVERYBODY, make: Callable[[Sequence[str]], MariaDb] = MariaDb) -> Iterator[Arena]:
    """A private server that flushes its log at every commit, and those of the rivals that this machine has."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="queuegate-bench-")))
        server = make([f"--max-connections={CLIENTS_MAX}"])
        stack.callback(server.remove)
        server.install()
        server.start()
        server.prepare()
        rivals = [Rival(DIRECT, server.port)]
        haproxy = find_binary("haproxy") if HAPROXY in names else None
        if haproxy is not None:
            rivals.append(_start_haproxy(HAPROXY, haproxy, directory, server.port, "  nbthread 1\n", stack))
            rivals.append(_start_haproxy(HAPROXY_DEFAULT, haproxy, directory, server.port, "", stack))
        for name, config in ((QUEUEGATE, {}), (WORKERS, {"workers": 2})):
            if name not in names or (config and not workers_supported()):
                continue
            gate = start_gate(server, Path(tempfile.mkdtemp(dir=directory)), stack, **config)
            assert gate.process is not None
            rivals.append(Rival(name, gate.port, gate.process.pid))
        yield Arena(server, rivals, _versions(server, haproxy), directory, stack)


def start_gate(server: MariaDb, directory: Path, stack: contextlib.ExitStack, **config: Any) -> Gate:
    """A queuegate before the database, with room for all clients."""
    limits = {"max_connections": CLIENTS_MAX, "unauthenticated_connections": CLIENTS_MAX, **config.pop("limits", {})}
    gate = Gate(server.url(), directory, limits=limits, **config).start()
    stack.callback(gate.stop)
    return gate


def _start_haproxy(
    name: str, program: str, directory: Path, backend: int, threads: str, stack: contextlib.ExitStack
) -> Rival:
    port = free_port()
    file = directory / f"haproxy-{port}.cfg"
    file.write_text(_HAPROXY_CONFIG.format(clients=CLIENTS_MAX, threads=threads, port=port, backend=backend))
    process = subprocess.Popen([program, "-f", str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(_end, process)
    wait_until(lambda: _listens(port), 10, f"{name} to listen")
    return Rival(name, port, process.pid)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(20)


def _versions(server: MariaDb, haproxy: str | None) -> dict[str, str]:
    with server.connect() as link, link.cursor() as cursor:
        cursor.execute("SELECT VERSION(), @@innodb_flush_log_at_trx_commit, @@innodb_buffer_pool_size DIV 1048576")
        version, flush, pool = cursor.fetchone() or ("", 0, 0)
    found = {"database": f"{version}, buffer pool {pool} MiB", "durability": f"innodb_flush_log_at_trx_commit={flush}"}
    for name, program, argument in (("haproxy", haproxy, "-v"), ("sysbench", find_binary("sysbench"), "--version")):
        if program is not None:
            told = subprocess.run([program, argument], capture_output=True, text=True, check=True).stdout
            found[name] = told.splitlines()[0]
    return found
