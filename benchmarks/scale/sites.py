"""Where a case runs: a backend, made once for a part, and proxies before it, made anew for each case.

So no case has a process, or tables, in which another one has left something behind.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import lie
from benchmarks.processes import cpu_seconds, resident_bytes, settled
from benchmarks.scale.amounts import EMBEDDED, MARIADB
from benchmarks.scale.clients import ScaleQueue
from benchmarks.topics.crew import Used
from tests.servers import DATABASE, Gate, MariaDb, wait_until

FOUND_SECONDS = 60.0  # for proxies to find each other
_LINKED = "linked to another proxy"
_CONNECTIONS_BESIDE = 500  # of producers, acks and the proxy itself, beside the receivers


@dataclass(frozen=True, slots=True)
class Site:
    """The proxies of one case, the database behind them where it is a server, and a connection that asks it."""

    gates: Sequence[Gate]
    server: MariaDb | None
    asking: Any

    def queue(self, at: int = 0, **changes: Any) -> ScaleQueue:
        """The queue that is measured, by the proxy of that number."""
        pid = self.proxy_pids[0]
        way = {"port": self.gates[at].port, "proxy_pid": pid, "pid": self.server_pid or pid}
        database_port = 0 if self.server is None else self.server.port
        return ScaleQueue(**{**way, "database_port": database_port, **changes})

    @property
    def proxy_pids(self) -> list[int]:
        return [gate.process.pid for gate in self.gates if gate.process is not None]

    @property
    def server_pid(self) -> int | None:
        """The database's process, where it is one of its own."""
        return None if self.server is None else int((self.server.directory / "pid").read_text())

    def used(self) -> Used:
        """What all proxies together and the database have used so far. The question for it counts as a statement."""
        proxies = sum(cpu_seconds(pid) for pid in self.proxy_pids)
        server = 0.0 if self.server_pid is None else cpu_seconds(self.server_pid)
        return Used(time.monotonic(), proxies, server, self._statements())

    def proxy_megabytes(self) -> float:
        """Resident memory of all proxies. That of the database says little: it keeps what earlier cases needed."""
        return sum(resident_bytes(pid) for pid in self.proxy_pids) / 1e6

    def connections(self) -> int:
        """Those to the database, but for the one that asks."""
        self.asking.execute("SHOW GLOBAL STATUS LIKE 'Threads_connected'")
        ((_, count),) = self.asking.fetchall()
        return int(count) - 1

    def at_rest(self, seconds: float) -> None:
        """Wait until nobody does anything any more, but not longer: with many queues there is always something."""
        settled([pid for pid in (*self.proxy_pids, self.server_pid) if pid is not None], timeout=seconds)

    def idle(self, seconds: float) -> dict[str, float]:
        """What it costs that all of it is there, while nobody does anything."""
        before = self.used()
        time.sleep(seconds)
        return idle_columns(before, self.used(), with_server=self.server is not None)

    def costs(self, columns: dict[str, float]) -> dict[str, float]:
        """The same without the server's CPU where the database is a part of the proxy."""
        return {k: v for k, v in columns.items() if self.server is not None or not k.startswith("server CPU")}

    def _statements(self) -> int | None:
        if self.asking is None:
            return None
        self.asking.execute("SHOW GLOBAL STATUS LIKE 'Questions'")
        ((_, count),) = self.asking.fetchall()
        return int(count)


def idle_columns(before: Used, after: Used, *, with_server: bool) -> dict[str, float]:
    """By the second: CPU, and statements without the one that asked for them."""
    assert before.proxy_cpu is not None and after.proxy_cpu is not None
    took = after.at - before.at
    found = {"idle proxy CPU ms/s": (after.proxy_cpu - before.proxy_cpu) / took * 1000}
    if with_server:
        found["idle server CPU ms/s"] = (after.server_cpu - before.server_cpu) / took * 1000
    if before.statements is not None and after.statements is not None:
        found["idle statements/s"] = (after.statements - before.statements - 1) / took
    return found


@dataclass(frozen=True, slots=True)
class Ground:
    """A backend, before which the proxies of each case are started."""

    name: str
    server: MariaDb | None = None

    @contextlib.contextmanager
    def site(self, proxies: int = 1, receivers: int = 0, **config: Any) -> Iterator[Site]:
        """So many proxies before an empty database, with room for so many receivers."""
        config = {"limits": {"max_connections": receivers + _CONNECTIONS_BESIDE}, **config}
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="queuegate-bench-")))
            url, asking = f"sqlite:///{folder}/queue.db", None
            if self.server is not None:
                url = self.server.fresh_database(DATABASE)
                asking = stack.enter_context(self.server.connect()).cursor()
            gates = []
            for number in range(proxies):
                own = folder / str(number)
                own.mkdir()
                gates.append(Gate(url, own, **config).start())
                stack.callback(gates[-1].stop)
            _wait_for_links(gates)
            yield Site(gates, self.server, asking)


def _wait_for_links(gates: Sequence[Gate]) -> None:
    """Until then a message of one proxy is found by the others' safety scan."""
    for gate in gates:
        wait_until(partial(_linked, gate, len(gates) - 1), FOUND_SECONDS, "the proxies' links")


def _linked(gate: Gate, others: int) -> bool:
    return gate.log.count(_LINKED) >= others


@contextlib.contextmanager
def mariadb(facts: dict[str, str], connections: int = 0, folder: Path | None = None) -> Iterator[Ground]:
    """A private MariaDB that flushes its log at every commit, with room for so many connections; `folder`: where."""
    options = [f"--max-connections={connections + _CONNECTIONS_BESIDE}"]
    server = MariaDb(options, folder)
    try:
        server.install()
        server.start()
        server.prepare()
        facts |= _facts(server)
        yield Ground(MARIADB, server)
    finally:
        server.remove()


@contextlib.contextmanager
def both(facts: dict[str, str], connections: int = 0) -> Iterator[list[Ground]]:
    """MariaDB and the embedded backend."""
    facts["embedded"] = f"WAL, synchronous=FULL, files {lie(Path(tempfile.gettempdir()))}"
    with mariadb(facts, connections) as ground:
        yield [ground, Ground(EMBEDDED)]


def _facts(server: MariaDb) -> dict[str, str]:
    with server.connect() as link, link.cursor() as cursor:
        cursor.execute("SELECT VERSION(), @@innodb_flush_log_at_trx_commit, @@innodb_buffer_pool_size DIV 1048576")
        version, flush, pool = cursor.fetchone() or ("", 0, 0)
    durability = f"innodb_flush_log_at_trx_commit={flush}, files {lie(server.directory)}"
    return {"database": f"{version}, buffer pool {pool} MiB", "durability": durability}
