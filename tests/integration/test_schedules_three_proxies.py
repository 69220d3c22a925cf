"""Three proxies of one database, of which one after the other is killed: each tick of each schedule once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers import NS, Gate, MariaDb, Sql, wait_until

pytestmark = pytest.mark.long

COUNT = 20


@pytest.fixture
def three(mariadb: MariaDb, tmp_path) -> Iterator[list[Gate]]:
    url, gates = mariadb.fresh_database("three_proxies"), []
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        gates.append(Gate(url, tmp_path / str(number), database="three_proxies").start())
    yield gates
    for gate in gates:
        gate.stop()


def test_each_tick_once_whoever_is_killed(three: list[Gate], mariadb: MariaDb) -> None:
    client = Sql(three[0].connect())
    client("CREATE QUEUE q (k INT, at_ns BIGINT)")
    for k in range(COUNT):
        client(f"CREATE SCHEDULE s{k} ON q EVERY '1s' (k, at_ns) VALUES ({k}, TICK)")
    client.connection._force_close()
    looker = Sql(mariadb.connect(database="three_proxies"))
    for gate in (three[0], three[1], three[0], three[2]):  # the first is the leader, and then the second
        count = looker.value("SELECT COUNT(*) FROM q")
        wait_until(
            lambda count=count: looker.value("SELECT COUNT(*) FROM q") >= count + 2 * COUNT,
            timeout=60,
            what="ticks to go on",
        )
        gate.kill()
        gate.start()
    client = Sql(three[1].connect())
    for k in range(COUNT):
        client(f"DROP SCHEDULE s{k}")
    client.close()
    for k in range(COUNT):
        ticks = looker.column(f"SELECT at_ns FROM q WHERE k = {k} ORDER BY at_ns")
        assert ticks == [ticks[0] + n * NS for n in range(len(ticks))] and len(ticks) >= 8
    looker.close()
