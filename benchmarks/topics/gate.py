"""Topics and queues of queuegate as logs; and the topic's table without queuegate."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from benchmarks.topics.logs import FILL_BATCH, PAYLOAD, Lone
from tests.servers import DATABASE, Sql, find_binary

TOPIC, QUEUE = "bench_topic", "bench_log_queue"
WINDOWS = 5  # prefetch: how many batches may be on their way to a receiver
REPLAY = "SELECT * FROM STREAM {table} SINCE EARLIEST"
BROADCAST = "SELECT * FROM STREAM {table} LIMIT {messages} WITH (mode = 'broadcast', start = 'earliest')"
SELECT = "SELECT id, payload FROM {table} ORDER BY id"


@dataclass(frozen=True, slots=True, kw_only=True)
class _MySql:
    """What all have in common: a port that speaks MySQL, the database behind it, and a table."""

    name: str
    port: int
    pid: int
    database_port: int
    proxy_pid: int | None = None
    table: str = TOPIC

    def connect(self, **options: Any) -> pymysql.Connection[Any]:
        return pymysql.connect(
            **{"host": "127.0.0.1", "port": self.port, "user": "root", "database": DATABASE, "autocommit": True,
               "ssl_disabled": True, **options}
        )  # fmt: skip

    def run(self, *statements: str) -> None:
        client = Sql(self.connect())
        for statement in statements:
            client(statement)
        client.close()

    def statements(self) -> int | None:
        with pymysql.connect(host="127.0.0.1", port=self.database_port, user="root") as link, link.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Questions'")
            ((_, count),) = cursor.fetchall()
        return int(count)

    def sender(self) -> Callable[[], object]:
        cursor = self.connect().cursor()
        return lambda: cursor.execute(f"INSERT INTO {self.table} (payload) VALUES (%s)", (PAYLOAD,))

    def insert(self, messages: int) -> str:
        return f"INSERT INTO {self.table} (payload) SELECT '{PAYLOAD}' FROM seq_1_to_{messages}"

    def received(self, stream: str, ack: str, batch: int) -> Iterator[int]:
        """Read by one connection, ack by another."""
        rows, acks = self.connect(cursorclass=SSCursor).cursor(), self.connect().cursor()
        yield 0
        rows.execute(stream)
        while True:
            ids = ", ".join(str(row[0]) for row in rows.fetchmany(batch))
            yield acks.execute(ack.format(ids))

    def by_turns(self, stream: str, ack: str) -> Lone:
        """A message in a transaction of three statements, as an application would."""
        rows = self.connect(cursorclass=SSCursor).cursor()
        acks, producer = self.connect().cursor(), self.connect().cursor()
        rows.execute(stream)

        def write() -> None:
            producer.execute("BEGIN")
            producer.execute(f"INSERT INTO {self.table} (payload) VALUES (%s)", (PAYLOAD,))

        return Lone(
            write,
            lambda: producer.execute("COMMIT"),
            lambda: rows.fetchone()[0],
            lambda id_: acks.execute(ack.format(id_)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic(_MySql):
    """A topic. `scan` is the statement that reads it from its first message on."""

    scan: str = REPLAY
    messages: int = field(default=0)

    def fill(self, messages: int) -> None:
        client = Sql(self.connect())
        if client.rows(f"SHOW TOPICS LIKE '{self.table}'"):
            for row in client.rows(f"SHOW GROUPS ON {self.table}"):
                client(f"DROP GROUP {row[2]} ON {self.table}")
            client(f"DROP TOPIC {self.table}")
        client(f"CREATE TOPIC {self.table} (payload VARCHAR(300))")
        if messages:
            client(self.insert(messages))
        client.close()

    def join(self, group: str, messages: int) -> None:
        self.run(f"CREATE GROUP {group} ON {self.table} START AT EARLIEST WITH (ack_wait = '10m')")

    def leave(self, group: str) -> None:
        self.run(f"DROP GROUP {group} ON {self.table}")

    def reader(self, group: str, batch: int) -> Iterator[int]:
        self.run(f"ALTER GROUP {group} ON {self.table} SET (batch_size = {batch})")
        options = f"group = '{group}', prefetch = {WINDOWS * batch}"
        stream = f"SELECT * FROM STREAM {self.table} WITH ({options})"
        return self.received(stream, f"ACK {self.table} {{}} GROUP {group}", batch)

    def scanner(self) -> Iterator[int]:
        return _scanned(self, self.scan.format(table=self.table, messages=self.messages))

    def lone(self, group: str) -> Lone:
        stream = f"SELECT * FROM STREAM {self.table} WITH (group = '{group}')"
        return self.by_turns(stream, f"ACK {self.table} {{}} GROUP {group}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue(_MySql):
    """A queue, of which a group is the whole: it is made anew for each."""

    table: str = QUEUE

    def fill(self, messages: int) -> None:
        options = "ack_wait = '10m'"
        self.run(
            f"DROP QUEUE IF EXISTS {self.table}", f"CREATE QUEUE {self.table} (payload VARCHAR(300)) WITH ({options})"
        )
        if messages:
            self.run(self.insert(messages))

    def join(self, group: str, messages: int) -> None:
        self.fill(messages)

    def leave(self, group: str) -> None:
        self.fill(0)

    def reader(self, group: str, batch: int) -> Iterator[int]:
        self.run(f"ALTER QUEUE {self.table} SET (batch_size = {batch})")
        stream = f"SELECT * FROM STREAM {self.table} WITH (prefetch = {WINDOWS * batch})"
        return self.received(stream, f"ACK {self.table} {{}}", batch)

    def lone(self, group: str) -> Lone:
        return self.by_turns(f"SELECT * FROM STREAM {self.table}", f"ACK {self.table} {{}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine(Topic):
    """A topic that is read by `mariadb --quick`, a client in C: PyMySQL takes longer for a row than queuegate."""

    def scanner(self) -> Iterator[int]:
        program = find_binary("mariadb") or find_binary("mysql")
        assert program is not None
        sql = self.scan.format(table=self.table, messages=self.messages)
        command = [
            program, "--no-defaults", "--quick", "--skip-column-names", "-h127.0.0.1", f"-P{self.port}", "-uroot",
            "-e", sql, DATABASE,
        ]  # fmt: skip
        yield 0
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        yield self.messages


def _scanned(place: _MySql, sql: str) -> Iterator[int]:
    rows = place.connect(cursorclass=SSCursor).cursor()
    yield 0
    rows.execute(sql)
    yield from itertools.takewhile(bool, (len(rows.fetchmany(FILL_BATCH)) for _ in itertools.count()))
