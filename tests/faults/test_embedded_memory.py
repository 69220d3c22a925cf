"""What an embedded proxy keeps of the traffic it has served: its memory stops growing, however many statements differ.

The bounds lie in the prepared statements of each connection to the file (embedded/database/connection.py), in the
plans (embedded/compile/statement.py) and in the heaps of the threads (proxy/os_process.py).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mysql.connector
import preloaded
import pymysql
import pytest
from servers import Gate, Sql

from benchmarks.processes import resident_bytes

pytestmark = pytest.mark.long

CLIENTS = 2
WARM, ROUNDS = 2, 4
GROWTH_MAX = 1.15  # of resident memory, from the last warm round to the last one
ADDED_MAX = 55_000_000  # by all rounds: 34 MB with the bounds, 72 MB without them
WIDE_COLUMNS = 200


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(f"sqlite:///{tmp_path / 'memory.db'}", tmp_path)
    gate.launch = preloaded.start  # as users start it, so that nothing else is in its memory
    gate.start()
    try:
        yield gate
    finally:
        gate.stop()


def many_texts(gate: Gate, sql: Sql, tag: str) -> None:
    """Statements that nobody sends again, short ones and wide ones as reports have them."""
    for n in range(40):
        sql(f"SELECT id + {n} AS short_{tag}_{n}, '{tag}' FROM fixed WHERE id = {n} AND name REGEXP '^x{n}[0-9]*{tag}'")
    for n in range(24):
        columns = ", ".join(f"CONCAT(name, id + {at}) AS wide_{tag}_{n}_{at}" for at in range(WIDE_COLUMNS))
        assert len(sql.rows(f"SELECT {columns} FROM fixed LIMIT 1")[0]) == WIDE_COLUMNS
    for n in range(4):
        when = " ".join(f"WHEN {at} THEN 'written_{tag}_{n}_{at}'" for at in range(WIDE_COLUMNS))
        sql(f"UPDATE fixed SET name = CASE id + LENGTH('{tag}') - LENGTH('{tag}') {when} ELSE name END WHERE id = 0")


def prepared_statements(gate: Gate, sql: Sql, tag: str) -> None:
    options = {"user": "root", "database": gate.database, "ssl_disabled": True, "use_pure": True}
    with mysql.connector.connect(host="127.0.0.1", port=gate.port, **options) as connection:
        for n in range(20):
            with connection.cursor(prepared=True) as cursor:
                cursor.execute(f"SELECT id + ? AS prepared_{tag}_{n} FROM fixed WHERE id = ?", (n, 7))
                assert len(cursor.fetchall()) == 1


def large_values(gate: Gate, sql: Sql, tag: str) -> None:
    assert (
        len(sql.rows("SELECT a.id, REPEAT('x', 300) FROM fixed a JOIN fixed b WHERE a.id < 80 AND b.id < 80")) == 6400
    )
    sql(f"INSERT INTO large VALUES ('{tag}', REPEAT('y', 1000000), '{'z' * 2_000_000}')")
    assert sql.rows(f"SELECT * FROM large WHERE tag = '{tag}'")
    sql(f"DELETE FROM large WHERE tag = '{tag}'")


def tables(gate: Gate, sql: Sql, tag: str) -> None:
    sql(f"CREATE TEMPORARY TABLE passing_{tag} (id INT PRIMARY KEY, name VARCHAR(100))")
    sql(f"INSERT INTO passing_{tag} SELECT id, name FROM fixed")
    sql(f"CREATE TABLE made_{tag} (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(100), KEY (name))")
    sql(f"DROP TABLE made_{tag}")


def errors_and_connections(gate: Gate, sql: Sql, tag: str) -> None:
    for n in range(10):
        for wrong in (f"SELECT missing_{tag}_{n} FROM fixed", f"SELEC {tag}_{n}"):
            with contextlib.suppress(pymysql.err.Error):
                sql(wrong)
        connection = gate.connect(ssl_disabled=True)
        Sql(connection)(f"SET @kept = '{tag}', sql_mode = ''")
        connection._force_close()


# One kind after another, each by all clients at once: who makes a table has others plan their statements anew.
TRAFFIC: tuple[Callable[[Gate, Sql, str], None], ...] = (
    many_texts,
    prepared_statements,
    large_values,
    errors_and_connections,
    tables,
)


def all_clients(gate: Gate, number: int) -> None:
    """A round of the traffic, in which every text is new. What goes wrong in a client goes wrong here."""
    faults: list[BaseException] = []
    together = threading.Barrier(CLIENTS)

    def client(which: int) -> None:
        try:
            with Sql(gate.connect(ssl_disabled=True)).connection as connection:
                for kind in TRAFFIC:
                    together.wait(60)
                    if kind is not tables or which == 0:
                        kind(gate, Sql(connection), f"{number}_{which}")
        except BaseException as fault:
            faults.append(fault)
            together.abort()

    threads = [threading.Thread(target=client, args=(which,)) for which in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults


def test_memory_stops_growing_under_mixed_traffic(embedded: Gate) -> None:
    assert embedded.process is not None
    pid: int = embedded.process.pid
    with Sql(embedded.connect(ssl_disabled=True)).connection as connection:
        sql: Any = Sql(connection)
        sql("CREATE TABLE fixed (id INT PRIMARY KEY, name VARCHAR(100))")
        sql("CREATE TABLE large (tag VARCHAR(20), made LONGTEXT, sent LONGTEXT)")
        sql("INSERT INTO fixed VALUES " + ", ".join(f"({n}, 'x{n}')" for n in range(500)))
    before, resident = resident_bytes(pid), []
    for number in range(ROUNDS):
        all_clients(embedded, number)
        resident.append(resident_bytes(pid))
    assert resident[-1] <= resident[WARM - 1] * GROWTH_MAX, resident
    assert resident[-1] - before <= ADDED_MAX, (before, resident)
