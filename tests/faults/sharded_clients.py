"""A queue over shards, of which each message is acked in one transaction with a business row of its shard."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pymysql
from rolling_clients import LOST, Clients
from servers import Gate, MariaDb, Sql, wait_until
from vitess_server import SHARDED

KEYS = 64


def two_gates(server: MariaDb, folder: Path) -> list[Gate]:
    """Two proxies, whose clients use the sharded keyspace."""
    gates = []
    for name in "ab":
        (folder / name).mkdir()
        gates.append(Gate(server.url(), folder / name, database=SHARDED, workers=1).start())
    return gates


def prepared(gate: Gate) -> None:
    """Make the queue `q` and the table of the business rows."""
    sql = Sql(gate.connect())
    sql(
        "CREATE QUEUE q (k BIGINT NOT NULL, n BIGINT NOT NULL) SHARDING KEY (k)"
        " WITH (ack_wait = '5s', max_backoff = '10s', poll_interval = '2s')"
    )
    sql("CREATE TABLE business (k BIGINT NOT NULL PRIMARY KEY, done BIGINT NOT NULL)")
    sql(f"ALTER VSCHEMA ON {gate.database}.business ADD VINDEX binary_md5 (k) USING binary_md5")
    wait_until(lambda: _inserted(sql), what="vtgate to know the table")
    for key in range(1, KEYS):
        sql("INSERT INTO business VALUES (%s, 0)", key)
    sql.close()


def _inserted(sql: Sql) -> bool:
    with contextlib.suppress(*LOST):
        return sql("INSERT INTO business VALUES (0, 0)") == 1
    return False


class ShardedClients(Clients):
    """`handled`: how often a business row was committed with its ack, as far as the answers tell. `limit`: messages
    that are made; None: until `enough`."""

    def __init__(self, gates: list[Gate], *, limit: int | None = None, pause_seconds: float = 0.0) -> None:
        super().__init__(gates)
        self.limit, self.pause_seconds = limit, pause_seconds
        self.handled = 0
        self.enough = False

    def produce(self, first: int) -> None:
        """Messages with the numbers that come next. One whose INSERT got no answer is not sent again, so it is there or
        not."""
        while not self.enough and (found := self.connect(first)) is not None:
            _, client = found
            with contextlib.suppress(*LOST):
                while not self.stop.is_set() and not self.enough:
                    n = next(self.numbers)
                    if self.limit is not None and n >= self.limit:
                        self.enough = True
                        break
                    with self.lock:
                        self.doubtful.add(n)
                    client("INSERT INTO q (k, n) VALUES (%s, %s)", n % KEYS, n)
                    with self.lock:
                        self.inserted.add(n)
                    self.stop.wait(self.pause_seconds)
            client.connection._force_close()

    def handle(self, client: Sql, id_: int, n: int, *, received: float) -> None:
        self.settle(client, n, "ACK q %s", id_)

    def settle(self, client: Sql, n: int, ack: str, *values: int) -> None:
        """Ack a message together with its business row; neither where the ack comes too late."""
        client("BEGIN")
        client("UPDATE business SET done = done + 1 WHERE k = %s", n % KEYS)
        if client(ack, *values):
            client("COMMIT")
            with self.lock:
                self.handled += 1
        else:
            client("ROLLBACK")


class Account:
    """What the database itself says, asked around the proxies."""

    def __init__(self, server: MariaDb, keyspace: str) -> None:
        self._server, self._keyspace = server, keyspace

    def unacked(self) -> int | None:
        """The messages that are not acked; None while the server is away."""
        with contextlib.suppress(*LOST):
            return int(self.rows("SELECT COUNT(*) FROM q WHERE time_acked IS NULL")[0][0])
        return None

    def check(self, clients: ShardedClients) -> None:
        """Every message that was answered is there, none is there twice, and each was done once."""
        numbers = [n for (n,) in self.rows("SELECT n FROM q")]
        assert len(numbers) == len(set(numbers)), "none was inserted twice"
        assert clients.inserted <= set(numbers) <= clients.doubtful, "what was answered is there"
        done = dict(self.rows("SELECT k, done FROM business"))
        assert done == {key: sum(n % KEYS == key for n in numbers) for key in range(KEYS)}, "each was done once"

    def rows(self, statement: str) -> list[tuple[int, ...]]:
        """The rows of a SELECT."""
        with contextlib.closing(self._server.connect(database=self._keyspace)) as connection:
            cursor = connection.cursor(pymysql.cursors.Cursor)
            cursor.execute("SET workload = 'olap'")  # more rows than a vtgate sends otherwise
            cursor.execute(statement)
            return list(cursor.fetchall())
