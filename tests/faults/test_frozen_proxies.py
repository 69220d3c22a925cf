"""A proxy that falls silent in the middle of a transaction, with its locks: the other one delivers, and nothing twice.

Silent in two ways: its process stands still (SIGSTOP, a paused machine, power lost), or the network between it and its
database is cut without a word to either end. In both the server sees a session that says nothing more.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pymysql
import pytest
from cutter import Cutter, Moment
from servers import Gate, MariaDb, Sql, Stream, wait_until
from slowness import scaled

SECONDS = 15.0
"""Until the other proxy has delivered: the server ends the silent one's session after ten."""

HOUR = "ack_wait = '1h', max_backoff = '2h', poll_interval = '2s'"


@dataclass(frozen=True)
class Case:
    """A transaction of the engine. `caught`: a part of the statement in which the proxy falls silent. `first` is said
    before, `then` makes it begin. `stream`: what both proxies' receivers read, `count` what comes of it in the end."""

    name: str
    caught: bytes
    first: tuple[str, ...]
    then: tuple[str, ...] = ()
    stream: str = "SELECT n FROM STREAM q"
    count: int = 3
    receiver: bool = True


THREE = ("INSERT INTO q (n) VALUES (1), (2), (3)",)

CASES = (
    Case("claim", b"SKIP LOCKED", (f"CREATE QUEUE q (n INT) WITH ({HOUR})",), THREE),
    Case("order_key", b"queuegate_limits", (f"CREATE QUEUE q (n INT) WITH (order_key = 'n', {HOUR})",), THREE),
    Case("max_rate", b"queuegate_limits", (f"CREATE QUEUE q (n INT) WITH (max_rate = 1000, {HOUR})",), THREE),
    Case(
        "max_concurrency", b"queuegate_limits", (f"CREATE QUEUE q (n INT) WITH (max_concurrency = 9, {HOUR})",), THREE
    ),
    Case(
        "tick",
        b"SET next_tick",
        (f"CREATE QUEUE q (n INT) WITH ({HOUR})", "CREATE SCHEDULE s ON q EVERY '1s' (n) VALUES (1)"),
        (),
        receiver=False,
    ),
)


@pytest.fixture
def cutter(own_mariadb: MariaDb) -> Iterator[Cutter]:
    between = Cutter(own_mariadb.port)
    yield between
    between.close()


@dataclass
class Two:
    """The proxy that falls silent, and the other one."""

    silent: Gate
    other: Gate
    cutter: Cutter
    freezes: bool

    def fall_silent(self) -> None:
        if self.freezes:
            os.kill(self.silent.process.pid, signal.SIGSTOP)  # type: ignore[union-attr]
        else:
            self.cutter.go_dark()

    def go_on(self) -> None:
        if self.freezes:
            os.kill(self.silent.process.pid, signal.SIGCONT)  # type: ignore[union-attr]
        else:
            self.cutter.come_back()


@pytest.fixture(params=["frozen", "cut off"])
def two(request, own_mariadb: MariaDb, cutter: Cutter, tmp_path) -> Iterator[Two]:
    own_mariadb.fresh_database("silent")
    freezes = request.param == "frozen"
    gates = []
    for name, port in (("a", cutter.port), ("b", own_mariadb.port)):
        (tmp_path / name).mkdir()
        url = f"mysql://root@127.0.0.1:{port}/silent?ssl=disabled"  # the cutter reads along
        # Of two that are linked, the first leads: it is the one that falls silent. One that is cut off from everything
        # has no link either.
        gates.append(Gate(url, tmp_path / name, database="silent", workers=1, peers=freezes).start())
    both = Two(*gates, cutter, freezes)
    yield both
    both.go_on()
    for gate in gates:
        gate.stop()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_proxy_that_falls_silent_in_a_transaction_stops_nobody(two: Two, own_mariadb: MariaDb, case: Case) -> None:
    around = Sql(two.other.connect())
    for sql in case.first:
        if sql.startswith("CREATE SCHEDULE"):
            two.cutter.arm(Moment.STALL_AFTER, case.caught)
        around(sql)
    if not case.first[-1].startswith("CREATE SCHEDULE"):
        two.cutter.arm(Moment.STALL_AFTER, case.caught)
    early = None
    for sql in case.then:
        around(sql)
    if case.receiver:
        early = Stream(two.silent, case.stream)
    assert two.cutter.fell.wait(scaled(30)), "the statement never came"
    two.fall_silent()
    began = time.monotonic()
    with Stream(two.other, case.stream) as heir:
        rows = heir.wait(case.count, scaled(SECONDS))
        assert time.monotonic() - began < scaled(SECONDS)
        two.go_on()
        if case.name != "tick":
            values = [row[0] for row in rows]
            assert sorted(values) == sorted(set(values)), values
        if early is not None:
            assert not {row[0] for row in early.rows} & {row[0] for row in rows}, "two have one message"
            early.close()
    around.close()
    recovered(two, own_mariadb)


def recovered(two: Two, mariadb: MariaDb) -> None:
    """The silent one serves again, by itself."""

    def serves() -> bool:
        try:
            client = Sql(two.silent.connect(connect_timeout=5))
            client(f"CREATE QUEUE IF NOT EXISTS afterwards (n INT) WITH ({HOUR})")
            client("INSERT INTO afterwards (n) VALUES (1)")
            served = client.rows("SELECT n FROM STREAM afterwards LIMIT 1 WAIT 5") == [(1,)]
            client.close()
            return served
        except (pymysql.err.MySQLError, OSError):
            return False

    wait_until(serves, scaled(40), "the silent proxy to serve again")
