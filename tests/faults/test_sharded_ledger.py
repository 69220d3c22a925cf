"""A ledger over two shards of a Vitess, through two proxies, while a proxy, the vtgate with its tablets, and their
MySQL are killed: each message is acked in one transaction with a business row of its shard."""

from __future__ import annotations

import contextlib
import itertools
import time

import pytest
from rolling_clients import LOST, Clients, at_work
from servers import SERVER, Gate, Sql, private, wait_until
from slowness import scaled
from vitess_server import SHARDED, Vitess

pytestmark = [
    pytest.mark.skipif(SERVER != "vitess", reason="needs a Vitess: make test-vitess"),
    pytest.mark.timeout(1200),
]

MESSAGES = 20_000
KEYS = 64


class Ledger(Clients):
    """`counted`: how often a business row was committed with its ack, as far as the answers tell."""

    def __init__(self, gates: list[Gate]) -> None:
        super().__init__(gates)
        self.handled = 0

    def produce(self, first: int) -> None:
        """Messages with the numbers that come next, until there are enough. One whose INSERT got no answer is not sent
        again, so it is there or not."""
        while (found := self.connect(first)) is not None:
            _, client = found
            with contextlib.suppress(*LOST):
                while not self.stop.is_set():
                    n = next(self.numbers)
                    if n >= MESSAGES:
                        return
                    with self.lock:
                        self.doubtful.add(n)
                    client("INSERT INTO q (k, n) VALUES (%s, %s)", n % KEYS, n)
                    with self.lock:
                        self.inserted.add(n)
            client.connection._force_close()

    def handle(self, client: Sql, id_: int, n: int, *, received: float) -> None:
        client("BEGIN")
        client("UPDATE business SET done = done + 1 WHERE k = %s", n % KEYS)
        if client("ACK q %s", id_):
            client("COMMIT")
            with self.lock:
                self.handled += 1
        else:
            client("ROLLBACK")


@pytest.fixture
def vitess():
    with private(Vitess()) as server:
        yield server


def acked(vitess: Vitess) -> int:
    """Asked of the vtgate itself; 0 while it is away."""
    with contextlib.suppress(*LOST), contextlib.closing(vitess.connect(database=SHARDED)) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT COUNT(*) FROM q WHERE time_acked IS NOT NULL")
        ((count,),) = cursor.fetchall()
        return int(count)
    return 0


def test_nothing_is_lost_and_nothing_is_done_twice(vitess, tmp_path):
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    gates = [Gate(vitess.url(), folder, database=SHARDED, workers=1).start() for folder in folders]
    sql = Sql(gates[0].connect())
    sql(
        "CREATE QUEUE q (k BIGINT NOT NULL, n BIGINT NOT NULL) SHARDING KEY (k)"
        " WITH (ack_wait = '5s', max_backoff = '10s', poll_interval = '2s')"
    )
    sql("CREATE TABLE business (k BIGINT NOT NULL PRIMARY KEY, done BIGINT NOT NULL)")
    sql(f"ALTER VSCHEMA ON {SHARDED}.business ADD VINDEX binary_md5 (k) USING binary_md5")
    wait_until(lambda: _inserted(sql), what="vtgate to know the table")
    for key in range(1, KEYS):
        sql("INSERT INTO business VALUES (%s, 0)", key)
    sql.close()
    clients = Ledger(gates)
    kills = {
        MESSAGES // 5: lambda: (gates[0].kill(), gates[0].start()),
        MESSAGES * 2 // 5: lambda: (vitess.kill(), vitess.start()),
        MESSAGES * 3 // 5: lambda: (vitess.kill_mysql(), vitess.start()),
        MESSAGES * 4 // 5: lambda: (gates[1].kill(), gates[1].start()),
    }
    with at_work(clients):
        for level, kill in kills.items():
            wait_until(lambda level=level: clients.handled >= level, 300, f"{level} messages to be handled")
            kill()
        wait_until(lambda: len(clients.doubtful) >= MESSAGES, 300, "the producers")
        deadline = time.monotonic() + scaled(300)
        for _ in itertools.count():
            there = _rows(vitess, "SELECT COUNT(*) FROM q")[0][0]
            if there and acked(vitess) == there:
                break
            assert time.monotonic() < deadline, f"{acked(vitess)} of {there} messages are acked"
            clients.stop.wait(1)
    numbers = [n for (n,) in _rows(vitess, "SELECT n FROM q")]
    assert len(numbers) == len(set(numbers)), "none was inserted twice"
    assert clients.inserted <= set(numbers) <= clients.doubtful, "what was answered is there"
    done = dict(_rows(vitess, "SELECT k, done FROM business"))
    assert done == {key: sum(n % KEYS == key for n in numbers) for key in range(KEYS)}, "each was done once"


def _inserted(sql: Sql) -> bool:
    with contextlib.suppress(*LOST):
        return sql("INSERT INTO business VALUES (0, 0)") == 1
    return False


def _rows(vitess: Vitess, statement: str) -> list[tuple[int, ...]]:
    with contextlib.closing(vitess.connect(database=SHARDED)) as connection:
        cursor = connection.cursor()
        cursor.execute("SET workload = 'olap'")  # more rows than a vtgate sends otherwise
        cursor.execute(statement)
        return list(cursor.fetchall())
