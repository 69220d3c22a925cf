"""Clients that ask for compression: mysql-connector-python, pure and C, and the command line."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mysql.connector
import pytest
from servers import Gate, MariaDb, in_threads, run_cli

pytestmark = pytest.mark.long

LARGE = 17 << 20  # more than a packet holds

Connect = Callable[..., Any]


@pytest.fixture(params=["pure", "C"])
def compressed(gate: Gate, request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Opens compressed connections to the gate; all are closed at the end."""
    if request.param == "C" and not mysql.connector.HAVE_CEXT:
        pytest.skip("mysql-connector-python has no C extension here")
    opened: list[Any] = []

    def connect(**options: Any) -> Any:
        opened.append(mysql.connector.connect(**{
            "host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database, "compress": True,
            "use_pure": request.param == "pure", "autocommit": True, **options,
        }))  # fmt: skip
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


def rows(connection: Any, sql: str, values: tuple[Any, ...] = (), **options: Any) -> list[tuple[Any, ...]]:
    cursor = connection.cursor(**options)
    try:
        cursor.execute(sql, values)
        return list(cursor.fetchall()) if cursor.with_rows else []
    finally:
        cursor.close()


def test_statements_of_every_size(compressed: Connect, name: str) -> None:
    connection = compressed()
    rows(connection, f"CREATE TABLE {name} (id INT PRIMARY KEY, text LONGTEXT)")
    texts = ["", "a", "b" * 45, "c" * 60, random.Random(1).randbytes(40_000).hex(), "d" * 300_000]
    for number, text in enumerate(texts):
        rows(connection, f"INSERT INTO {name} VALUES (%s, %s)", (number, text))
    assert rows(connection, f"SELECT * FROM {name} ORDER BY id") == list(enumerate(texts))
    assert rows(connection, f"SELECT text FROM {name} WHERE id = ?", (5,), prepared=True) == [("d" * 300_000,)]
    with pytest.raises(mysql.connector.Error) as caught:
        rows(connection, "SELECT * FROM nowhere_at_all")
    assert caught.value.errno == 1146
    rows(connection, f"DROP TABLE {name}")


def test_statements_and_rows_larger_than_a_packet(compressed: Connect, name: str) -> None:
    connection = compressed()
    noise = random.Random(2).randbytes(LARGE // 2).hex()
    assert rows(connection, "SELECT %s AS large", (noise,)) == [(noise,)]
    assert rows(connection, "SELECT %s AS large", ("z" * LARGE,)) == [("z" * LARGE,)]
    assert rows(connection, "SELECT 1") == [(1,)]


def test_more_rows_than_sequence_ids(compressed: Connect, name: str) -> None:
    connection = compressed()
    rows(connection, f"CREATE TABLE {name} (id INT PRIMARY KEY, text TEXT)")
    cursor = connection.cursor()
    cursor.executemany(f"INSERT INTO {name} VALUES (%s, %s)", [(number, f"{number} " * 20) for number in range(5000)])
    for _ in range(2):
        assert rows(connection, f"SELECT id FROM {name} ORDER BY id") == [(number,) for number in range(5000)]
    rows(connection, f"DROP TABLE {name}")


def test_messages_reach_a_compressed_receiver_and_are_acked(compressed: Connect, queue: Any, gate: Gate) -> None:
    q = queue()
    producer, receiver = compressed(), compressed()
    cursor = receiver.cursor()
    cursor.execute(f"SELECT id, payload FROM STREAM {q} LIMIT 3 WAIT 20")
    bodies = tuple(f"{number} " * 50 for number in range(3))
    rows(producer, f"INSERT INTO {q} (payload) VALUES (%s), (%s), (%s)", bodies)
    got = list(cursor.fetchall())
    assert tuple(payload for _, payload in got) == bodies
    rows(producer, f"ACK {q} {', '.join(str(message) for message, _ in got)}")
    assert rows(producer, f"SELECT state, COUNT(*) FROM {q} GROUP BY state") == [("acked", 3)]


def test_several_at_once(compressed: Connect) -> None:
    def work(number: int) -> list[tuple[Any, ...]]:
        connection = compressed()
        return [rows(connection, f"SELECT {number} AS a, REPEAT('x', {number * 1000}) AS b")[0] for _ in range(20)]

    for number, found in enumerate(in_threads(work, [(number,) for number in range(8)])):
        assert found == [(number, "x" * number * 1000)] * 20


def test_a_file_is_loaded_over_a_compressed_line(compressed: Connect, backend: str, name: str, tmp_path: Path) -> None:
    if backend.startswith("sqlite"):
        pytest.skip("the embedded backend has no LOAD DATA")
    file = tmp_path / "rows.tsv"
    file.write_text("".join(f"{number}\t{number * 7:x}{'y' * 60}\n" for number in range(60_000)))
    connection = compressed(allow_local_infile=True)
    rows(connection, f"CREATE TABLE {name} (id INT PRIMARY KEY, text TEXT)")
    for _ in range(2):
        rows(connection, f"LOAD DATA LOCAL INFILE '{file}' REPLACE INTO TABLE {name}")
        assert rows(connection, f"SELECT COUNT(*), MAX(LENGTH(text)) FROM {name}") == [(60_000, 65)]
    rows(connection, f"DROP TABLE {name}")


def test_the_line_to_the_server_is_compressed_as_well(compressed: Connect, backend: str, gate: Gate) -> None:
    if backend.startswith("sqlite"):
        pytest.skip("the embedded backend has no such status")
    asked = "SHOW SESSION STATUS LIKE 'Compression'"
    assert rows(compressed(), asked) == [("Compression", "ON")]
    assert rows(compressed(compress=False), asked) == [("Compression", "OFF")]


def test_a_change_of_user_and_a_reset_keep_the_line_compressed(compressed: Connect, gate: Gate) -> None:
    connection = compressed()
    if isinstance(connection, mysql.connector.MySQLConnection):
        pytest.skip("the pure driver refuses both on compressed connections")
    connection.cmd_change_user("root", "", gate.database)
    assert rows(connection, "SELECT REPEAT('u', 1000) AS a") == [("u" * 1000,)]
    connection.cmd_reset_connection()
    assert rows(connection, "SELECT REPEAT('v', 1000) AS a") == [("v" * 1000,)]


def test_the_command_line_with_compression(gate: Gate, mariadb: MariaDb, name: str) -> None:
    done = run_cli(
        gate,
        f"CREATE TABLE {name} (a LONGTEXT); INSERT INTO {name} VALUES (REPEAT('k', 70000)), ('l');"
        f"SELECT * FROM {name} ORDER BY a; DROP TABLE {name}",
        "--compress", "--skip-column-names",
    )  # fmt: skip
    assert (done.returncode, done.stdout.split()) == (0, ["k" * 70_000, "l"]), done.stderr


@pytest.mark.parametrize("ahead", [None, "SELECT SLEEP(0.5)"])
def test_bytes_that_are_not_compressed_end_the_connection_with_a_word(gate: Gate, ahead: str | None) -> None:
    connection: Any = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", compress=True, use_pure=True
    )
    sock = connection._socket.sock
    command = b"" if ahead is None else b"\x03" + ahead.encode()
    plain = len(command).to_bytes(3, "little") + b"\0" + command if command else b""
    sock.sendall(len(plain).to_bytes(3, "little") + bytes(4) + plain + b"\x05\x00\x00\x00\x09\x00\x00hello")
    answer = b""
    while piece := sock.recv(1000):
        answer += piece
    said = b""
    while answer:
        size, plain_size = int.from_bytes(answer[:3], "little"), int.from_bytes(answer[4:7], "little")
        said += zlib.decompress(answer[7 : 7 + size]) if plain_size else answer[7 : 7 + size]
        answer = answer[7 + size :]
    assert re.search(rb"....\xff\x85\x04#08S01Couldn't uncompress", said, re.DOTALL), said
    sock.close()
    with gate.connect() as other, other.cursor() as cursor:
        assert cursor.execute("SELECT 1") == 1
