"""The database behind the proxy goes away and comes back: clear errors at once, streams stay and go on."""

from __future__ import annotations

import re
import time
import urllib.request

import pymysql
import pytest
from servers import Gate, Sql, Stream, free_port, wait_until
from slowness import scaled


@pytest.fixture
def own_gate(own_mariadb, tmp_path):
    gate = Gate(own_mariadb.url(), tmp_path)
    gate.start()
    yield gate
    gate.stop()


def test_streams_survive_the_loss_of_the_backend(own_mariadb, own_gate):
    gate = own_gate
    client = Sql(gate.connect())
    client("CREATE QUEUE q (payload TEXT) WITH (poll_interval = '500ms')")
    receiver = Stream(gate, "SELECT payload FROM STREAM q")
    client("INSERT INTO q (payload) VALUES ('before')")
    receiver.wait(1)
    assert client("ACK q 1") == 1

    own_mariadb.kill()
    started = time.monotonic()
    with pytest.raises(pymysql.err.MySQLError):
        client("INSERT INTO q (payload) VALUES ('nobody home')")
    with pytest.raises(pymysql.err.MySQLError):
        Sql(gate.connect())("SELECT 1")
    assert time.monotonic() - started < scaled(15)
    client.connection._force_close()
    assert not receiver.ended.is_set()

    own_mariadb.start()
    client = Sql(wait_until(lambda: reconnect(gate), 20, "the proxy to accept clients again"))
    client("INSERT INTO q (payload) VALUES ('after')")
    assert receiver.wait(2, 20) == [("before",), ("after",)]
    receiver.close()
    client.close()


def reconnect(gate: Gate):
    try:
        return gate.connect()
    except pymysql.err.MySQLError:
        return None


def test_a_backend_that_is_not_there_at_start_is_one_line(own_mariadb, tmp_path):
    import subprocess
    import sys

    from servers import ROOT

    own_mariadb.stop()
    url = f"mysql://root:hunter2@127.0.0.1:{own_mariadb.port}/main"
    done = subprocess.run(
        [sys.executable, "-m", "queuegate", "serve", "--listen", "127.0.0.1:0", "--backend", url],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    complaint = [line for line in done.stderr.splitlines() if line.startswith("queuegate: ")]
    assert len(complaint) == 1, done.stderr
    assert str(own_mariadb.port) in complaint[0]
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr


def test_a_stream_whose_line_was_cut_goes_on_is_listed_and_can_be_killed(own_mariadb, own_gate):
    client = Sql(own_gate.connect())
    client("CREATE QUEUE q (payload TEXT)")
    receiver = Stream(own_gate, "SELECT payload FROM STREAM q")
    with own_mariadb.connect() as around, around.cursor() as cursor:
        cursor.execute(f"KILL {receiver.id}")
        wait_until(lambda: receiver.id not in listed(around), what="the server to forget the connection")
    client("INSERT INTO q (payload) VALUES ('after')")
    assert receiver.wait(1) == [("after",)]
    assert receiver.id in client.column("SHOW PROCESSLIST")
    client(f"KILL {receiver.id}")
    assert receiver.wait_end() is not None
    wait_until(lambda: receiver.id not in client.column("SHOW PROCESSLIST"), what="the stream to leave the list")
    receiver.close()
    client.close()


def test_what_is_known_of_a_stream_whose_line_was_cut(own_mariadb, own_gate):
    """Its statement may hold values of messages: it is for its account, and for those who see all connections."""
    owner = Sql(own_gate.connect())
    owner("CREATE QUEUE payroll (payload TEXT)")
    for user in ("ann", "bob"):
        owner(f"CREATE USER {user}@'%' IDENTIFIED BY 'pw'")
    owner("GRANT SELECT, UPDATE ON payroll TO ann@'%'")
    sql = "SELECT payload FROM STREAM payroll WHERE payload <> 'salary of ann'"
    receiver = Stream(own_gate, sql, user="ann", password="pw")
    with own_mariadb.connect() as around, around.cursor() as cursor:
        cursor.execute(f"KILL {receiver.id}")
        wait_until(lambda: receiver.id not in listed(around), what="the server to forget the connection")
    ann, bob = (Sql(own_gate.connect(user=user, password="pw", database=None)) for user in ("ann", "bob"))
    wait_until(lambda: receiver.id in owner.column("SHOW PROCESSLIST"), what="the stream to be known as one without")
    for client, knows in ((owner, True), (ann, True), (bob, False)):
        for statement in ("SHOW PROCESSLIST", "SHOW FULL PROCESSLIST"):
            assert ("salary" in str(client.rows(statement))) == knows, statement
    assert bob.error(f"KILL {receiver.id}")[0] == 1094
    assert not receiver.ended.is_set()
    ann(f"KILL {receiver.id}")
    assert receiver.wait_end() is not None
    for client in (owner, ann, bob):
        client.close()
    receiver.close()


def listed(connection) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SHOW PROCESSLIST")
        return [row[0] for row in cursor.fetchall()]


FAILURES = re.compile(r'^queuegate_queue_backend_errors_total\{(?=[^}]*queue="(q\d)")[^}]*\} (\S+)$', re.MULTILINE)


def failures(port: int) -> dict[str, float]:
    """By queue: how often its services have found the database failing."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        found = FAILURES.findall(response.read().decode())
    return {queue: sum(float(number) for one, number in found if one == queue) for queue, _ in found}


def tried_again(now: dict[str, float], known: dict[str, float]) -> bool:
    """A queue has three services: one that delivers, one that purges, one that moves dead letters."""
    return all(now[queue] - number >= 8 for queue, number in known.items())


def test_an_outage_makes_two_lines_in_the_log(own_mariadb, own_gate):
    own_gate.stop()
    admin = free_port()
    own_gate.config["admin"] = {"listen": f"127.0.0.1:{admin}"}
    client = Sql(own_gate.start().connect())
    for number in range(4):
        options = f"max_attempts = 3, dead_letter = 'dead_{number}', poll_interval = '1s', purge_after = '1s'"
        client(f"CREATE QUEUE q{number} (payload TEXT) WITH ({options})")
    receiver = Stream(own_gate, "SELECT payload FROM STREAM q0")
    client("INSERT INTO q0 (payload) VALUES ('before')")
    receiver.wait(1)
    before, known = len(own_gate.log), failures(admin)
    assert len(known) == 4
    own_mariadb.kill()
    wait_until(lambda: tried_again(failures(admin), known), 60, "every queue's services to have looked again")
    own_mariadb.start()
    wait_until(lambda: "the database works again after" in own_gate.log, what="the end of the outage in the log")
    told = own_gate.log[before:].splitlines()
    assert ["database trouble, trying again" in line for line in told] == [True, False], told
    assert "level=warning" in told[0] and "level=info" in told[1]
    receiver.close()
    client.connection._force_close()
