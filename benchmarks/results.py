"""A result of 300,000 rows: how fast it comes through, read by a bare socket, and by the mysql command line."""

from __future__ import annotations

import subprocess
import time

from benchmarks.harness import Part, Sample, Stretch
from benchmarks.rivals import DIRECT, HAPROXY, QUEUEGATE, Arena, Rival
from benchmarks.wire import BareClient
from tests.servers import DATABASE, find_binary

ROWS = 300_000
TABLE = "result_rows"
SQL = f"SELECT * FROM {TABLE}"
_RIVALS = (DIRECT, HAPROXY, QUEUEGATE)
_sizes: dict[int, int] = {}  # bytes of the answer, by the database's port: the first read finds out


def prepare(arena: Arena) -> None:
    """The table, some 110 bytes a row as text."""
    with arena.server.connect(database=DATABASE) as link, link.cursor() as cursor:
        if cursor.execute(f"SHOW TABLES LIKE '{TABLE}'"):
            return
        cursor.execute(
            f"CREATE TABLE {TABLE} (id INT PRIMARY KEY, name VARCHAR(40), amount DECIMAL(12,2), made DATETIME,"
            f" note VARCHAR(100)) AS SELECT seq AS id, CONCAT('customer number ', seq) AS name, seq * 1.25 AS amount,"
            f" '2026-01-01' + INTERVAL seq SECOND AS made, REPEAT(CHAR(97 + seq % 26), 40) AS note"
            f" FROM seq_1_to_{ROWS}"
        )


def _bare(arena: Arena, rival: Rival, seconds: float) -> Sample:
    client = BareClient(rival.connect())
    try:
        if arena.server.port not in _sizes:
            _sizes[arena.server.port] = client.answer_bytes(SQL, timeout=1.0)
        size = _sizes[arena.server.port]
        stretch, started = Stretch(arena, rival), time.perf_counter()
        client.send(SQL)
        client.read_exactly(size)
        return _sample(stretch, time.perf_counter() - started, size)
    finally:
        client.close()


def _cli(arena: Arena, rival: Rival, seconds: float) -> Sample:
    program = find_binary("mariadb") or find_binary("mysql")
    assert program is not None
    command = [
        program, "--no-defaults", "--quick", "--skip-column-names", "-h127.0.0.1", f"-P{rival.port}", "-uroot",
        "-e", SQL, DATABASE,
    ]  # fmt: skip
    stretch, started = Stretch(arena, rival), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=60)
    return _sample(stretch, time.perf_counter() - started, None)


def _sample(stretch: Stretch, took: float, size: int | None) -> Sample:
    values = {"rows/s": ROWS / took, "ms": took * 1000}
    if size is not None:
        values["MB/s"] = size / took / 1e6
    return stretch.sample(ROWS, values)


PARTS = tuple(
    Part(
        name=name,
        title=f"A result of {ROWS:,} rows, {client}",
        run=run,
        main="rows/s",
        rivals=_RIVALS,
        operation="row",
        prepare=prepare,
    )
    for name, client, run in (
        ("result-bare", "bare socket", _bare),
        ("result-cli", "mysql --quick > /dev/null", _cli),
    )
)
