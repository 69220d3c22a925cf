"""The mysql/mariadb command-line client: sessions pasted in, batch mode, an endless stream with --quick."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading

import pytest
from servers import find_binary, run_cli, wait_until
from slowness import scaled

pytestmark = [pytest.mark.usefixtures("client_program"), pytest.mark.long]


@pytest.fixture(scope="session")
def client_program(request):
    if find_binary("mysql") is None and find_binary("mariadb") is None:
        request.getfixturevalue("mariadb")  # decides between skip and failure
        pytest.fail("the server is installed but its command-line client is not")


def test_a_session(gate, name):
    done = run_cli(
        gate,
        f"""
        CREATE QUEUE {name} (user_id BIGINT(10), payload VARCHAR(256));
        BEGIN;
        INSERT INTO {name} (user_id, payload) VALUES (10, 'hello'), (11, 'it''s');
        COMMIT;
        SELECT * FROM STREAM {name} LIMIT 2;
        ACK {name} 1, 2;
        SELECT id, state FROM {name};
        DROP QUEUE {name};
        """,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "id\tuser_id\tpayload", "1\t10\thello", "2\t11\tit's", "id\tstate", "1\tacked", "2\tacked",
    ]  # fmt: skip


def test_counts_as_the_interactive_client_prints_them(gate, name):
    done = run_cli(
        gate,
        f"CREATE QUEUE {name} (n INT); INSERT INTO {name} (n) VALUES (1), (2); SELECT n FROM STREAM {name} LIMIT 1; "
        f"ACK {name} 1; ACK {name} 1; DROP QUEUE {name};",
        "-vvv", "--table",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for told in ("Query OK, 2 rows affected", "1 row in set", "Query OK, 1 row affected", "Query OK, 0 rows affected"):
        assert told in done.stdout, done.stdout


def test_errors_as_the_client_prints_them(gate, name):
    done = run_cli(gate, f"SELECT * FROM STREAM {name};")
    assert done.returncode == 1
    assert "ERROR 1146 (42S02)" in done.stderr


def test_describe_show_and_use(gate, queue):
    q = queue()
    done = run_cli(
        gate,
        f"USE {gate.database}; DESCRIBE {q}; SHOW TABLES; SHOW CREATE TABLE {q}; SHOW QUEUES LIKE '{q}';\nSTATUS;\n",
    )
    assert done.returncode == 0, done.stderr
    assert "payload\tvarchar(256)" in done.stdout.lower()


def test_an_endless_stream_prints_as_messages_come(gate, sql, queue):
    q = queue("n INT")
    program = find_binary("mysql") or find_binary("mariadb")
    ours, terminal = os.openpty()  # to a pipe it prints when its buffer is full, to a terminal line by line
    process = subprocess.Popen(
        [program, "--no-defaults", "-h127.0.0.1", f"-P{gate.port}", "-uroot", "--quick", "--unbuffered", "-N", "-B",
         gate.database, "-e", f"SELECT n FROM STREAM {q}"],
        stdout=terminal, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.close(terminal)
    lines: list[str] = []
    reader = threading.Thread(target=_read_terminal, args=(ours, lines), daemon=True)
    reader.start()
    try:
        sql(f"INSERT INTO {q} (n) VALUES (1)")
        listed = lambda: [row for row in sql.rows("SHOW FULL PROCESSLIST") if f"STREAM {q}" in str(row[7])]  # noqa: E731
        row = wait_until(listed, what="the stream to be listed")[0]
        wait_until(lambda: len(lines) == 1, what="the first message to be printed")
        sql(f"INSERT INTO {q} (n) VALUES (2)")
        wait_until(lambda: len(lines) == 2, what="the second message to be printed")
        sql(f"KILL QUERY {row[0]}")
        process.wait(scaled(20))
        reader.join(10)
        assert lines == ["1", "2"]
        assert "1317" in process.stderr.read()
    finally:
        process.kill()
        process.wait(scaled(10))
        reader.join(10)
        process.stderr.close()


def _read_terminal(descriptor: int, lines: list[str]) -> None:
    with open(descriptor) as terminal, contextlib.suppress(OSError):  # EIO: its other end is closed
        for line in terminal:
            lines.append(line.strip())
