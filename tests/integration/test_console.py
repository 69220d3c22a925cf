"""The operator's commands as a user runs them, against a proxy on each backend: output, JSON, errors, exit codes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from servers import ROOT, Gate, Sql, free_port, wait_until
from slowness import scaled

pytestmark = pytest.mark.long

Run = Callable[..., subprocess.CompletedProcess[str]]
HOSTILE = "we`ird'; DROP TABLE x; -- \\"


def command(gate: Gate, *arguments: str) -> list[str]:
    name, *rest = arguments
    return [sys.executable, "-m", "queuegate", name, f"-P{gate.port}", "-D", gate.database, *rest]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """One in which nobody's option file is read."""
    kept = {key: value for key, value in os.environ.items() if key not in ("MYSQL_PWD", "COLUMNS", "LINES")}
    return {**kept, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PYTHONIOENCODING": "utf-8"}


@pytest.fixture
def call(environment: dict[str, str]) -> Run:
    """Runs a command line; `stdin` is what is typed."""

    def run(arguments: list[str], stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            arguments, env={**environment, **more}, input=stdin, capture_output=True, encoding="utf-8", timeout=60,
            check=False,
        )  # fmt: skip

    return run


@pytest.fixture
def run(gate: Gate, call: Run) -> Run:
    """Runs a command against the gate."""
    return lambda *arguments, **more: call(command(gate, *arguments), **more)


def one_line(done: subprocess.CompletedProcess[str], status: int = 1) -> str:
    """The complaint of a command that failed."""
    assert done.returncode == status, done
    assert done.stdout == ""
    assert done.stderr.startswith("queuegate: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def objects(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert (done.returncode, done.stderr) == (0, ""), done
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.fixture
def mixed(sql: Sql, queue: Callable[..., str]) -> Iterator[str]:
    """A queue with one message in each state: 1 retrying, 2 dead, 3 in flight, 4 ready, 5 scheduled."""
    q = queue("payload TEXT", min_backoff="'10m'", ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (payload) VALUES (REPEAT('long ', 1000)), ('bad'), ('out'), ('in')")
    sql(f"INSERT INTO {q} (payload, time_scheduled) VALUES ('later', {(time.time_ns() // 10**9 + 3600) * 10**9})")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 3 NOWAIT") == [1, 2, 3]
    sql(f"NACK {q} 1 REASON 'HTTP 429'")
    sql(f"REJECT {q} 2 REASON 'bad JSON'")
    wait_until(lambda: sql.column(f"SHOW QUEUES LIKE '{q}_dead'"), what="a place for the dead letter")
    wait_until(lambda: not sql.rows(f"SELECT id FROM {q} WHERE id = 2"), what="the dead letter to be moved")
    yield q
    sql(f"DROP QUEUE {q}_dead")


def test_status(run, mixed):
    wait_until(lambda: objects(run("status", mixed, "--json"))[0]["dead"], what="the counts")
    (found,) = objects(run("status", mixed, "--json"))
    assert found["oldest_ready_age_seconds"] > 0
    counts = {key: found[key] for key in ("ready", "in_flight", "scheduled", "retrying", "dead", "parked", "receivers")}
    assert counts == {"ready": 1, "in_flight": 1, "scheduled": 1, "retrying": 1, "dead": 1, "parked": 0, "receivers": 1}
    assert (found["queue"], found["paused"], found["exact"], found["problem"]) == (mixed, False, True, None)
    assert found["totals"]["enqueued"] == 5
    done = run("status")
    titles, *rows = done.stdout.splitlines()
    assert titles.split("  ")[0] == "QUEUE" and titles.endswith("STATE")
    assert next(row.split() for row in rows if row.split()[0] == mixed)[1:7] == ["1", "1", "1", "1", "1", "1"]
    assert objects(run("status", "--json", f"{found['database']}.{mixed}"))[0]["queue"] == mixed


def test_status_of_a_queue_that_is_not_there(run, name):
    assert f"there is no queue '{name}'" in one_line(run("status", name))


@pytest.mark.parametrize(
    ("state", "ids"),
    [("any", [4, 3, 1, 5]), ("ready", [4]), ("in-flight", [3]), ("scheduled", [1, 5]), ("dead", [2])],
)
def test_peek_takes_nothing(run, sql, mixed, state, ids):
    before = sql.rows(f"SELECT id, epoch, time_next FROM {mixed} ORDER BY id")
    found = objects(run("peek", mixed, "--json", "--state", state))
    assert sorted(each["id"] for each in found) == sorted(ids)
    assert state == "any" or [each["id"] for each in found] == ids
    assert sql.rows(f"SELECT id, epoch, time_next FROM {mixed} ORDER BY id") == before
    states = {1: "retrying", 2: "dead", 3: "in_flight", 4: "ready", 5: "scheduled"}
    assert all(each["state"] == states[each["id"]] for each in found)


def test_peek_shows_and_json_has_it_whole(run, mixed):
    done = run("peek", mixed, "--limit", "4")
    assert len(done.stdout.splitlines()) == 5
    assert all(len(line) < 200 for line in done.stdout.splitlines())
    assert "HTTP 429" in done.stdout and "long long" in done.stdout and "..." in done.stdout
    (first,) = [each for each in objects(run("peek", mixed, "--json")) if each["id"] == 1]
    assert first["columns"] == {"payload": "long " * 1000}
    assert first["last_error"] == "HTTP 429" and first["epoch"] == 1
    due, created = (datetime.fromisoformat(first[key]).timestamp() for key in ("due", "created"))
    assert 300 < due - created < 1200
    assert len(objects(run("peek", mixed, "--json", "--limit", "2"))) == 2


def test_peek_at_values_of_all_kinds(run, sql, queue):
    q = queue("b BLOB, c JSON, d DECIMAL(20, 5), e DATETIME, `f.g` VARCHAR(20)")
    sql(
        f"INSERT INTO {q} (b, c, d, e, `f.g`) VALUES (X'ff00', '{{\"a\": 1}}', 1.5, '2026-01-02 03:04:05', %s)",
        "日\x1b[2J",
    )
    (found,) = objects(run("peek", q, "--json"))
    assert json.loads(found["columns"].pop("c")) == {"a": 1}
    assert found["columns"] == {"b": {"hex": "ff00"}, "d": "1.50000", "e": "2026-01-02 03:04:05", "f.g": "日\x1b[2J"}
    done = run("peek", q)
    assert "0xff00" in done.stdout and "日\\x1b[2J" in done.stdout and "\x1b" not in done.stdout


def test_redrive_no_more_than_the_limit_whatever_the_condition(run, sql, queue):
    q = queue()
    sql(f"INSERT INTO {q} (priority) VALUES (1), (1), (1), (1)")
    for (message,) in sql.rows(f"SELECT id FROM STREAM {q} LIMIT 4 WAIT 20"):
        sql(f"REJECT {q} {message} REASON 'HTTP 503'")
    for where in ("last_error LIKE 'HTTP 5%' -- transient", "1 = 1 # all"):
        done = run("redrive", f"{q}_dead", "--where", where, "--limit", "1")
        assert done.stdout.startswith("1 message was"), done
    assert "--where" in one_line(run("redrive", f"{q}_dead", "--where", " ", "--limit", "1"), status=2)


def test_bytes_that_are_no_utf_8_are_one_line(run):
    for arguments in (("status", "-u", "caf\udce9"), ("pause", "caf\udce9")):
        assert "UTF-8" in one_line(run(*arguments), status=2)
    assert "ERROR 1045" in one_line(run("status", MYSQL_PWD="caf\udce9"))


def test_peek_at_what_has_no_messages(run, sql, queue, name):
    q = queue()
    assert run("peek", q).stdout == f"There are no messages in main.{q}.\n"
    assert objects(run("peek", q, "--state", "dead", "--json")) == []
    assert "ERROR 1146 (42S02): " in one_line(run("peek", name))
    assert "ERROR 1146 (42S02): " in one_line(run("peek", name, "--state", "dead"))
    sql(f"CREATE TABLE {name} (a INT)")
    assert f"{name}' is not a queue" in one_line(run("peek", name))
    sql(f"DROP TABLE {name}")


def test_redrive(run, sql, mixed):
    dead = f"{mixed}_dead"
    assert run("redrive", dead, "--where", "last_error LIKE 'HTTP 5%'").stdout.startswith("0 messages were put back")
    assert run("redrive", dead, "--limit", "5", "--where", "last_error LIKE 'bad%'").stdout.startswith("1 message was")
    assert sql.row(f"SELECT state, epoch FROM {mixed} WHERE id = 2") == ("to_be_fired", 0)
    assert "ERROR 1235 (42000): " in one_line(run("redrive", mixed))
    assert "is not queuegate" not in one_line(run("redrive", dead, "--where", "a ="))


def test_pause_and_resume(run, sql, queue):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    for _ in range(2):
        assert "paused" in run("pause", q).stdout
    assert sql.rows(f"SELECT * FROM STREAM {q} NOWAIT") == []
    assert objects(run("status", q, "--json"))[0]["paused"] is True
    assert run("status", q).stdout.splitlines()[1].endswith("paused")
    assert run("resume", q).returncode == 0
    assert len(sql.rows(f"SELECT * FROM STREAM {q} NOWAIT")) == 1


def test_purge_asks_for_the_name(run, sql, queue):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('a'), ('b')")
    sql(f"INSERT INTO {q} (payload, time_next) VALUES ('c', 9223372036854775807)")
    for typed in ("", "y\n", f"{q[:-1]}\n"):
        done = run("purge", q, stdin=typed)
        assert done.returncode == 1 and "nothing was deleted" in done.stderr
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 3
    done = run("purge", q, stdin=f"{q}\n")
    assert done.returncode == 0 and "2 ready" in done.stderr and "1 parked" in done.stderr, done
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 0
    sql(f"INSERT INTO {q} (payload) VALUES ('c')")
    assert run("purge", "--yes", q).returncode == 0
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 0


def test_hostile_names(run, sql, gate):
    quoted = "`" + HOSTILE.replace("`", "``") + "`"
    sql(f"CREATE QUEUE {quoted} (payload INT, `100% ``x` INT)")
    sql(f"INSERT INTO {quoted} (payload) VALUES (1)")
    try:
        assert objects(run("status", quoted, "--json"))[0]["queue"] == HOSTILE
        assert objects(run("peek", quoted, "--json"))[0]["columns"] == {"payload": 1, "100% `x": None}
        assert run("peek", quoted).returncode == 0
        assert objects(run("peek", quoted, "--state", "dead", "--json")) == []
        assert run("pause", f"{gate.database}.{quoted}").returncode == run("resume", quoted).returncode == 0
        assert "ERROR 1235" in one_line(run("redrive", quoted))
        assert "nothing was deleted" in run("purge", quoted, stdin="x\n").stderr
        assert run("purge", quoted, stdin=f"{HOSTILE}\n").returncode == 0
        assert sql.value(f"SELECT COUNT(*) FROM {quoted}") == 0
    finally:
        sql(f"DROP QUEUE {quoted}")


def test_a_queue_is_found_without_a_database_where_one_has_it(gate, call, mixed):
    done = call([sys.executable, "-m", "queuegate", "peek", f"-P{gate.port}", mixed, "--json"])
    assert len(objects(done)) == 4
    done = call([sys.executable, "-m", "queuegate", "pause", f"-P{gate.port}", f"no_{mixed}"])
    assert "no queue" in done.stderr or "ERROR 1146" in done.stderr, done
    assert done.returncode == 1


def test_a_wrong_password(gate, run):
    for done in (run("status", "-pwrong"), run("top", "--once", MYSQL_PWD="wrong"), run("peek", "q", "-u", "nobody")):
        assert re.match(r"queuegate: ERROR \d+ \((28000|HY000)\): ", one_line(done))
        assert "wrong" not in done.stderr


def test_options_from_a_file(gate, call, tmp_path, mixed):
    (tmp_path / ".my.cnf").write_text(
        f"[client]\nport = 1\nuser = root\n[queuegate]\nport={gate.port}\ndatabase={gate.database}\n"
    )
    assert objects(call([sys.executable, "-m", "queuegate", "status", mixed, "--json"]))[0]["queue"] == mixed


def test_top_prints_one_frame_of_80_by_24_where_there_is_no_terminal(run, sql, queue):
    queues = [queue() for _ in range(3)]
    done = run("top", *queues, "--interval", "0.3", "--sort", "name")
    assert (done.returncode, done.stderr) == (0, "")
    made = done.stdout.splitlines()
    assert len(made) == 7 and all(len(line) <= 80 for line in made)
    shown = [line.split()[0].partition("...") for line in made[4:]]
    assert all(
        name.startswith(head) and name.endswith(tail) for name, (head, _, tail) in zip(queues, shown, strict=True)
    )
    assert len(set(shown)) == 3
    assert "there is no queue" in one_line(run("top", "--once", "nope"))


class Terminal:
    """A command on a terminal of 80 columns and 24 lines; `seen` is what it has written."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            arguments,
            env={**environment, "TERM": "xterm", "LC_ALL": "C.UTF-8"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self._fd, self.seen = ours, ""

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self._read(), 30, f"{text!r} on the screen")
        self.seen = ""

    def _read(self) -> str:
        while select.select([self._fd], [], [], 0)[0]:
            try:
                self.seen += os.read(self._fd, 65536).decode("utf-8", "replace")
            except OSError:
                break  # nobody is at the other end any more
        return self.seen

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait(scaled(30))
        os.close(self._fd)


def test_top_on_a_terminal_outlives_its_proxy(new_gate, environment):
    gate = new_gate().start()
    with gate.connect() as connection:
        Sql(connection)("CREATE QUEUE jobs (payload INT)")
        Sql(connection)("INSERT INTO jobs (payload) VALUES (1), (2)")
    unknown = {**environment, "LC_ALL": "xx_YY.UTF-8"}  # as ssh brings it from another machine
    terminal = Terminal(command(gate, "top", "--interval", "0.3"), unknown)
    try:
        terminal.wait_for("jobs")
        terminal.press("d")
        terminal.wait_for("dead")
        gate.terminate()
        terminal.wait_for("LOST")
        gate.start()
        terminal.wait_for("ready 2")
        terminal.press("q")
        assert terminal.process.wait(scaled(30)) == 0
    finally:
        terminal.close()


def test_no_password_is_typed(environment):
    terminal = Terminal([sys.executable, "-m", "queuegate", "hash-password"], environment)
    try:
        terminal.wait_for("Password:")
        terminal.press("\x04")
        terminal.wait_for("queuegate: the password is empty")
        assert "Traceback" not in terminal.seen and terminal.process.wait(scaled(30)) == 2
    finally:
        terminal.close()


def test_a_certificate_is_verified_where_a_ca_is_named(new_gate, call, tmp_path):
    authority = Authority(tmp_path)
    certificate, key = map(str, authority.issue("server", "127.0.0.1"))
    gate = new_gate(tls={"certificate": certificate, "key": key, "mode": "required"}).start()
    done = call(command(gate, "status", "--ssl-ca", str(authority.ca)))
    assert (done.returncode, done.stdout) == (0, "There are no queues.\n"), done
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    assert "certificate verify failed" in one_line(call(command(gate, "status", "--ssl-ca", str(other.ca))))
    assert "none.pem: No such file" in one_line(call(command(gate, "status", "--ssl-ca", "none.pem")))
    assert call(command(gate, "status", "--ssl-mode", "required")).returncode == 0
    only_signed = call(
        command(gate, "status", "--ssl-ca", str(authority.ca), "--ssl-mode", "VERIFY_CA", "-h", "localhost")
    )
    assert only_signed.returncode == 0, only_signed
    for_another = call(command(gate, "status", "--ssl-ca", str(authority.ca), "-h", "localhost"))
    assert "certificate" in one_line(for_another)
    assert call(command(gate, "status", "--ssl-mode", "disabled")).returncode == 1
    both = [*map(str, authority.issue("client", "ann"))]
    assert call(command(gate, "status", "--ssl-cert", both[0], "--ssl-key", both[1])).returncode == 0
    assert "give --ssl-cert too" in one_line(call(command(gate, "status", "--ssl-key", both[1])), 2)
    assert "cannot be used" in one_line(call(command(gate, "status", "--ssl-cert", both[0], "--ssl-key", key)), 2)


def test_encryption_that_is_required_and_not_offered(new_gate, call):
    gate = new_gate(tls={"mode": "off"}).start()
    assert "SSL" in one_line(call(command(gate, "status", "--ssl-mode", "required")))
    assert call(command(gate, "status", "--ssl-mode", "preferred")).returncode == 0


def test_what_was_done_as_json(new_gate, call):
    gate = new_gate().start()
    with gate.connect() as connection:
        connection.cursor().execute("CREATE QUEUE jobs (n INT)")
    for words in (("pause",), ("resume",), ("purge", "--yes")):
        done = call(command(gate, words[0], "jobs", "--json", *words[1:]))
        assert json.loads(done.stdout) == {"command": words[0], "database": gate.database, "queue": "jobs"}, done
    with gate.connect() as connection:
        cursor = connection.cursor()
        cursor.execute("INSERT INTO jobs (n) VALUES (1), (2)")
        cursor.execute("REJECT jobs 1, 2")
        wait_until(lambda: cursor.execute("SHOW TABLES LIKE 'jobs_dead'") and cursor.execute("SELECT 1 FROM jobs_dead"))
    moved = json.loads(call(command(gate, "redrive", "jobs_dead", "--limit", "1", "--json")).stdout)
    assert (moved["queue"], moved["moved"]) == ("jobs_dead", 1)


def test_an_account_that_is_limited_to_its_queues(new_gate, call):
    users = [{"name": "root", "password": ""}, {"name": "ann", "password": "pässword", "queues": {"mine": ["settle"]}}]
    gate = new_gate(auth="proxy", users=users).start()
    with gate.connect() as connection:
        for name in ("mine", "other"):
            Sql(connection)(f"CREATE QUEUE {name} (payload INT)")
    ann = {"MYSQL_PWD": "pässword"}
    assert [each["queue"] for each in objects(call(command(gate, "status", "-uann", "--json"), **ann))] == ["mine"]
    assert "there is no queue 'other'" in one_line(call(command(gate, "status", "-uann", "other"), **ann))
    for refused in (("pause", "mine"), ("purge", "--yes", "mine"), ("redrive", "mine_dead"), ("peek", "other")):
        assert "ERROR 1142 (42000)" in one_line(call(command(gate, *refused, "-uann"), **ann)), refused


def test_nobody_there(call):
    done = call([sys.executable, "-m", "queuegate", "status", f"-P{free_port()}"])
    assert "ERROR 2003 (HY000): " in one_line(done)
    assert "does queuegate serve at 127.0.0.1:" in done.stderr


def test_what_answers_is_not_queuegate(call, mariadb):
    done = call([sys.executable, "-m", "queuegate", "status", "-S", str(mariadb.socket), "-u", "root"])
    if "ERROR 1064" in done.stderr:
        assert "is not queuegate" in one_line(done)
    else:
        assert re.match(r"queuegate: ERROR \d+ ", one_line(done))  # an account of a server that has another password
