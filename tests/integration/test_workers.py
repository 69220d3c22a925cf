"""Several workers on one address: they share the clients, and a queue behaves as if there were one process."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pymysql
import pytest
from load import Load
from servers import ROOT, Gate, Sql, Stream, in_threads, login_errno, wait_until
from slowness import scaled

pytestmark = pytest.mark.long


@pytest.fixture
def workers(mariadb, tmp_path):
    """Makes gates with several workers on an empty database."""
    gates = []

    def make(count: int = 2, **config) -> Gate:
        gate = Gate(mariadb.fresh_database("workers"), tmp_path, database="workers", workers=count, **config)
        gates.append(gate)
        return gate.start()

    yield make
    for gate in gates:
        gate.stop()


def pids(gate: Gate) -> list[int]:
    """The workers' processes."""
    assert gate.process is not None
    return pids_of(gate.process.pid)


def pids_of(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def worker_of(gate: Gate, connection: pymysql.Connection) -> int:
    """The process that serves a client, by the kernel's lists of sockets and open files."""
    assert connection._sock is not None
    port = connection._sock.getsockname()[1]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        row = line.split()
        if (int(row[1].split(":")[1], 16), int(row[2].split(":")[1], 16)) == (gate.port, port):
            return next(pid for pid in pids(gate) if f"socket:[{row[9]}]" in open_files(pid))
    raise AssertionError("no such connection")


def open_files(pid: int) -> list[str]:
    names = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            names.append(os.readlink(entry))
        except OSError:
            continue  # closed meanwhile
    return names


def client_at(gate: Gate, pid: int, **options) -> Sql:
    """A client of that worker: connects until it gets there."""
    spare = []
    try:
        for _ in range(50):
            connection = gate.connect(**options)
            if worker_of(gate, connection) == pid:
                return Sql(connection)
            spare.append(connection)
    finally:
        for connection in spare:
            connection.close()
    raise AssertionError("never got there")


class StreamAt(Stream):
    """A receiver at a certain worker."""

    def __init__(self, gate: Gate, pid: int, sql: str, **options) -> None:
        super().__init__(_At(gate, pid), sql, **options)  # type: ignore[arg-type]


class _At:
    def __init__(self, gate: Gate, pid: int) -> None:
        self._gate, self._pid = gate, pid

    def connect(self, **options) -> pymysql.Connection:
        return client_at(self._gate, self._pid, **options).connection


@pytest.fixture
def two(workers) -> Iterator[tuple[Gate, Sql, Sql, int, int]]:
    """A gate with two workers, a client of each, and their processes. One queue, whose safety scan helps nobody."""
    gate = workers(2)
    here, there = pids(gate)
    one, other = client_at(gate, here), client_at(gate, there)
    one("CREATE QUEUE q (n INT) WITH (poll_interval = '1h', ack_wait = '1h', max_backoff = '2h')")
    yield gate, one, other, here, there
    for client in (one, other):
        if client.connection.open:
            client.close()


# --- clients


def test_clients_are_spread_evenly(workers):
    gate = workers(2)

    def spread(clients: list[pymysql.Connection]) -> list[int]:
        found = sorted(Counter(worker_of(gate, c) for c in clients).values())
        for connection in clients:
            connection.close()
        return found if len(found) == 2 else [0, *found]

    # A worker that is not woken in a millisecond leaves a client to the other, on a busy machine all of one try.
    wait_until(lambda: spread([gate.connect() for _ in range(16)])[0] >= 3, what="clients at both workers, one by one")
    wait_until(lambda: spread(in_threads(gate.connect, [()] * 24))[0] >= 6, what="clients at both workers, all at once")


def test_a_worker_that_is_stuck_does_not_keep_clients_waiting(workers):
    gate = workers(2)
    stuck = pids(gate)[0]
    os.kill(stuck, signal.SIGSTOP)
    try:
        for _ in range(6):
            started = time.monotonic()
            with closing(gate.connect()) as connection:
                assert worker_of(gate, connection) != stuck
            assert time.monotonic() - started < scaled(5)
    finally:
        os.kill(stuck, signal.SIGCONT)


def test_limits_hold_for_all_workers_together(workers):
    gate = workers(3, limits={"max_connections": 7, "unauthenticated_connections": 7, "max_user_connections": 5})
    clients = [gate.connect() for _ in range(5)]
    assert len({worker_of(gate, connection) for connection in clients}) == 3
    assert login_errno(gate) == 1203
    raw = [wait_until(lambda: greeted(gate), what="the place of who was refused") for _ in range(2)]
    assert login_errno(gate) == 1040
    for sock in raw:
        sock.close()
    clients.pop().close()
    wait_until(lambda: login_errno(gate) == 0, what="the place of who went")
    for connection in clients:
        connection.close()


def greeted(gate: Gate) -> socket.socket | None:
    """A connection that was sent a greeting and not an error."""
    sock = gate.raw()
    if sock.recv(5)[4] == 10:
        return sock
    sock.close()
    return None


def test_failed_logins_count_for_all_workers(workers, mariadb):
    with closing(Sql(mariadb.connect())) as around:
        around("DROP USER IF EXISTS app@'127.0.0.1'")
        around("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'secret'")
    gate = workers(2, limits={"login_failures": 6})
    started = time.monotonic()
    errors = [login_errno(gate, user="app", password="wrong") for _ in range(20)]
    regained = (time.monotonic() - started) // 10  # one attempt in ten seconds
    assert errors[:6] == [1045] * 6
    assert set(errors) == {1045, 1129}
    assert errors.count(1045) <= 6 + 2 + regained  # two before the other worker hears; alone each gives 6
    wait_until(
        lambda: (
            login_errno(gate, user="app", password="wrong") == 1129
            and login_errno(gate, user="app", password="secret", database=None) == 1129
        ),
        what="the right password to be refused, too",
    )


# --- queues


def test_a_message_reaches_a_receiver_of_the_other_worker_at_once(two):
    gate, one, _, _, there = two
    receiver = StreamAt(gate, there, "SELECT n FROM STREAM q")
    for n in range(20):
        started = time.monotonic()
        one("INSERT INTO q (n) VALUES (%s)", n)
        receiver.wait(n + 1, 5)
        assert time.monotonic() - started < scaled(1.5)
    assert receiver.rows == [(n,) for n in range(20)]
    receiver.close()


def test_a_transaction_on_one_worker_is_heard_of_when_it_commits(two):
    gate, one, other, _, there = two
    receiver = StreamAt(gate, there, "SELECT n FROM STREAM q")
    one("BEGIN")
    one("INSERT INTO q (n) VALUES (1)")
    one("ROLLBACK")
    one("BEGIN")
    one("INSERT INTO q (n) VALUES (2)")
    other("INSERT INTO q (n) VALUES (3)")
    assert receiver.wait(1, 5) == [(3,)]
    one("COMMIT")
    assert receiver.wait(2, 5) == [(3,), (2,)]
    receiver.close()


@pytest.mark.parametrize("ack", ["ACK q %s", "ACK q WHERE id = %s", "DELETE FROM q WHERE id = %s"])
def test_an_ack_at_the_other_worker_makes_room_at_once(two, ack):
    gate, one, _, _, there = two
    receiver = StreamAt(gate, there, "SELECT id FROM STREAM q WITH (prefetch = 1)")
    one("INSERT INTO q (n) VALUES " + ", ".join(["(0)"] * 12))
    started = time.monotonic()
    for number in range(1, 12):
        (id_,) = receiver.wait(number, 5)[-1]
        assert one(ack, id_) == 1
    receiver.wait(12, 5)
    assert time.monotonic() - started < scaled(6)  # by asking the table it would be a second for each
    receiver.close()


def test_a_message_acked_at_the_other_worker_is_not_sent(two):
    gate, one, other, _, there = two
    one("INSERT INTO q (n) VALUES (1), (2), (3)")
    receiver = StreamAt(gate, there, "SELECT n FROM STREAM q WITH (prefetch = 1)")
    assert receiver.wait(1, 5) == [(1,)]
    assert one("ACK q 2") == 1
    assert other("ACK q 1") == 1
    assert receiver.wait(2, 5) == [(1,), (3,)]
    receiver.close()


def test_what_a_lost_receiver_had_goes_to_one_of_the_other_worker_at_once(two):
    gate, one, _, here, there = two
    lost = StreamAt(gate, here, "SELECT n FROM STREAM q")
    one("INSERT INTO q (n) VALUES (1), (2)")
    lost.wait(2, 5)
    heir = StreamAt(gate, there, "SELECT n FROM STREAM q")
    lost.close()
    assert sorted(heir.wait(2, 5)) == [(1,), (2,)]
    heir.close()


def test_a_queue_made_at_one_worker_is_served_at_the_other_at_once(two):
    gate, one, other, here, there = two
    for number in range(4):
        maker, user, pid = (one, other, here) if number % 2 else (other, one, there)
        maker(f"CREATE QUEUE fresh{number} (n INT) WITH (poll_interval = '1h')")
        user(f"INSERT INTO fresh{number} (n) VALUES (5)")  # the other worker knows already what this statement means
        receiver = StreamAt(gate, pid, f"SELECT n FROM STREAM fresh{number}")
        receiver.wait(1, 5)
        user(f"INSERT INTO fresh{number} (n) VALUES (6)")
        assert receiver.wait(2, 5) == [(5,), (6,)]
        user(f"DROP QUEUE fresh{number}")
        error = receiver.wait_end(5)
        assert error is not None and error.args[0] == 1146
        assert maker.error(f"SELECT * FROM STREAM fresh{number} LIMIT 1")[0] == 1146
        receiver.close()


def test_options_changed_at_one_worker_hold_at_the_other(two):
    _, one, other, _, _ = two
    one("ALTER TABLE q COMMENT 'vitess_message,vt_ack_wait=123,vt_purge_after=86400,vt_batch_size=100,"
        "vt_cache_size=10000,vt_poller_interval=3600'")  # fmt: skip
    assert "123" in other.rows("SHOW CREATE QUEUE q")[0][1]


# --- looking and ending


def test_why_messages_of_a_topic_stay_is_known_at_every_worker(two):
    _, one, other, _, _ = two
    one("CREATE TOPIC kept (n INT) WITH (retain_rows = 1)")
    one("CREATE TRIGGER keeps BEFORE DELETE ON kept FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'kept'")
    one("INSERT INTO kept (n) VALUES (1), (2), (3)")
    problem = "retention failed: error 1644, which the log explains"  # a trigger's text may quote a message
    for client in (one, other):
        wait_until(
            lambda client=client: client.named("SHOW TOPICS LIKE 'kept'")[0]["problem"] == problem,
            what="the problem of the worker that deletes",
        )


def test_streams_of_all_workers_are_seen_and_can_be_killed(two):
    gate, one, _, here, there = two
    streams = [StreamAt(gate, pid, "SELECT n FROM STREAM q") for pid in (here, there, there)]
    listed = {row[0]: row for row in one.rows("SHOW PROCESSLIST")}
    assert all("Streaming messages of workers.q" in str(listed[stream.id]) for stream in streams)
    assert one.rows("SHOW QUEUES")[0][2] == 3  # subscribers
    one(f"KILL QUERY {streams[1].id}")
    error = streams[1].wait_end(5)
    assert error is not None and error.args[0] == 1317
    one(f"KILL {streams[2].id}")
    assert streams[2].wait_end(5) is not None
    wait_until(lambda: one.rows("SHOW QUEUES")[0][2] == 1, what="the killed streams to be gone")
    assert not streams[0].ended.is_set()
    one("INSERT INTO q (n) VALUES (1)")
    streams[0].wait(1, 5)
    for stream in streams:
        stream.close()


def test_a_stream_of_the_other_worker_whose_line_was_cut_can_be_killed(two, mariadb):
    gate, one, _, _, there = two
    receiver = StreamAt(gate, there, "SELECT n FROM STREAM q")
    with closing(Sql(mariadb.connect())) as around:
        around(f"KILL {receiver.id}")
        wait_until(lambda: receiver.id not in around.column("SHOW PROCESSLIST"), what="the line to be gone")
    one("INSERT INTO q (n) VALUES (1)")
    receiver.wait(1, 5)
    assert receiver.id in one.column("SHOW PROCESSLIST")
    one(f"KILL {receiver.id}")
    assert receiver.wait_end(5) is not None
    receiver.close()
    wait_until(lambda: receiver.id not in one.column("SHOW PROCESSLIST"), what="the stream to leave the list")
    assert one.error(f"KILL {receiver.id}")[0] == 1094


def test_streams_that_the_database_knows_nothing_of_are_seen_and_killed(workers):
    """With `auth: proxy` a receiver has no connection to the database: only its worker knows it."""
    gate = workers(2, auth="proxy", users=[{"name": "root", "password": "x"}])
    here, there = pids(gate)
    one = client_at(gate, here, password="x")
    one("CREATE QUEUE q (n INT) WITH (poll_interval = '1h')")
    receiver = StreamAt(gate, there, "SELECT n FROM STREAM q", password="x")
    one("INSERT INTO q (n) VALUES (1)")
    assert receiver.wait(1, 5) == [(1,)]
    listed = {row[0]: row for row in one.rows("SHOW PROCESSLIST")}
    assert "Streaming messages of workers.q" in str(listed[receiver.id])
    one(f"KILL {receiver.id}")
    assert receiver.wait_end(5) is not None
    receiver.close()
    one.close()


def test_statements_and_connections_of_the_other_worker_can_be_killed(two):
    gate, one, _, _, there = two
    victim = client_at(gate, there)
    id_ = victim.connection.thread_id()
    sleeping = in_background(lambda: victim.value("SELECT SLEEP(30)"))
    wait_until(lambda: "SLEEP(30)" in str(one.rows("SHOW PROCESSLIST")), what="the statement to run")
    one(f"KILL QUERY {id_}")
    assert sleeping() in (1, 1317)  # MariaDB's SLEEP answers 1, or the error
    assert victim.value("SELECT 1") == 1
    one(f"KILL {id_}")
    wait_until(lambda: id_ not in one.column("SHOW PROCESSLIST"), what="the connection to be gone")
    with pytest.raises(pymysql.err.MySQLError):
        victim.value("SELECT 1")
    victim.connection._force_close()


def in_background(work):
    """Runs `work` in a thread; what is returned waits for its value, or its error's number."""
    import threading

    values = []

    def run() -> None:
        try:
            values.append(work())
        except pymysql.err.MySQLError as error:
            values.append(error.args[0])

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def wait():
        thread.join(scaled(20))
        return values[0]

    return wait


# --- lives and deaths of processes


def test_it_starts_and_ends_as_one(workers):
    gate = workers(3)
    assert gate.log.count("listening on") == 1
    processes = pids(gate)
    assert len(processes) == 3
    client = gate.connect()
    receiver = Stream(gate, "SELECT n FROM STREAM q") if Sql(client)("CREATE QUEUE q (n INT)") == 0 else None
    assert receiver is not None
    assert gate.terminate() == 0
    error = receiver.wait_end(5)
    assert error is not None and error.args[0] == 1053
    receiver.close()
    client._force_close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in processes)
    stopped = [line for line in gate.log.splitlines() if "msg=stopped" in line]
    assert sorted(re.findall(r"worker=(\d)", "\n".join(stopped))) == ["0", "1", "2"]


def test_a_worker_that_dies_takes_only_its_clients_along_and_is_replaced(two):
    gate, one, other, here, there = two
    receiver = StreamAt(gate, here, "SELECT n FROM STREAM q")
    os.kill(there, signal.SIGKILL)
    wait_until(lambda: "worker died (SIGKILL)" in gate.log, what="the loud word in the log")
    with pytest.raises(pymysql.err.MySQLError):
        other.value("SELECT 1")
    assert one.value("SELECT 1") == 1
    one("INSERT INTO q (n) VALUES (1)")
    assert receiver.wait(1, 5) == [(1,)]
    wait_until(lambda: "worker is back" in gate.log and len(pids(gate)) == 2, 20, "another worker")
    (new,) = set(pids(gate)) - {here}
    heir = client_at(gate, new)
    heir("INSERT INTO q (n) VALUES (2)")
    assert receiver.wait(2, 5) == [(1,), (2,)]
    clients = [gate.connect()]

    def both_have_some() -> bool:
        clients.append(gate.connect())
        return {worker_of(gate, client) for client in clients} == {here, new}

    wait_until(both_have_some, what="clients at both workers")
    for connection in clients:
        connection.close()
    heir.close()
    receiver.close()
    other.connection._force_close()


def test_kill_9_of_workers_under_load(workers):
    gate = workers(2)
    setup = Sql(gate.connect())
    setup("CREATE QUEUE q (name VARCHAR(100)) WITH (ack_wait = '4s', min_backoff = '10ms', max_backoff = '4s')")
    setup.close()
    load = Load(gate, "q")
    load.start()
    for turn in range(4):
        load.await_progress("progress under load")
        os.kill(pids(gate)[turn % 2], signal.SIGKILL)
        wait_until(lambda back=turn + 1: gate.log.count("worker is back") == back, 20, "another worker")
    load.await_progress("progress after the last death")
    load.join()
    load.check()


def test_places_of_a_dead_worker_are_free_again(workers):
    gate = workers(2, limits={"max_connections": 6, "unauthenticated_connections": 6})
    clients = [gate.connect() for _ in range(6)]
    assert login_errno(gate) == 1040
    os.kill(worker_of(gate, clients[0]), signal.SIGKILL)
    wait_until(lambda: login_errno(gate) == 0, what="the places of the dead worker")
    for connection in clients:
        connection._force_close()


def test_the_workers_end_when_the_supervisor_is_killed(workers):
    gate = workers(2)
    client = Sql(gate.connect())
    client("CREATE QUEUE q (n INT) WITH (ack_wait = '5s', min_backoff = '10ms', max_backoff = '10ms')")
    client("INSERT INTO q (n) VALUES (1)")
    receiver = Stream(gate, "SELECT n FROM STREAM q")
    receiver.wait(1, 5)
    processes = pids(gate)
    gate.kill()
    wait_until(lambda: not any(running(pid) for pid in processes), 20, "the workers to end")
    assert gate.log.count("the supervisor is gone") == 2
    receiver.close()
    client.connection._force_close()
    gate.start()  # the port is free
    client = Sql(gate.connect())
    # Its receiver had read it, so it stays leased until then.
    assert client.rows("SELECT n, epoch FROM STREAM q LIMIT 1 WAIT 30") == [(1, 2)]
    client.close()


def running(pid: int) -> bool:
    """Whether the process is there and no zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_worker_comes_back_when_the_database_does(own_mariadb, tmp_path):
    gate = Gate(own_mariadb.url(), tmp_path, workers=2).start()
    here, there = pids(gate)
    client = client_at(gate, here)
    client("CREATE QUEUE q (n INT) WITH (poll_interval = '500ms')")
    receiver = StreamAt(gate, here, "SELECT n FROM STREAM q")
    client.close()
    own_mariadb.kill()
    os.kill(there, signal.SIGKILL)
    wait_until(lambda: gate.log.count("worker died (exit code 1)") >= 2, 30, "two vain starts")
    own_mariadb.start()
    wait_until(lambda: "worker is back" in gate.log, 40, "the worker")
    client = Sql(gate.connect())
    client("INSERT INTO q (n) VALUES (1)")
    assert receiver.wait(1) == [(1,)]
    receiver.close()
    client.close()
    gate.stop()


def test_an_end_while_starting_is_an_end_in_order(mariadb, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(f"listen: 127.0.0.1:0\nworkers: 3\nbackend: {mariadb.url()}\n")
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-m", "queuegate", "serve", "--config", str(config)],
            cwd=ROOT, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        wait_until(lambda process=process: pids_of(process.pid), 30, "the first worker")
        process.terminate()
        _, said = process.communicate(timeout=30)
        assert process.returncode == 0, said
        assert "Traceback" not in said


def test_a_worker_that_does_not_end_is_killed(workers):
    gate = workers(2, shutdown_grace="100ms")
    processes = pids(gate)
    os.kill(processes[0], signal.SIGSTOP)
    assert gate.terminate() == 1
    assert "are killed" in gate.log
    assert not any(running(pid) for pid in processes)


def test_a_hangup_is_passed_on(workers):
    gate = workers(2, log={"level": "debug"})
    assert gate.process is not None
    gate.process.send_signal(signal.SIGHUP)
    client = Sql(gate.connect())
    assert client.value("SELECT 1") == 1
    client.close()
    assert len(pids(gate)) == 2
    assert "worker died" not in gate.log


def test_what_is_wrong_at_the_start_is_said_once(mariadb, tmp_path):
    config = tmp_path / "config.yaml"
    port = Gate(mariadb.url(), tmp_path).port
    for backend, code in (("mysql://root@127.0.0.1:1/main", 1), (f"sqlite:///{tmp_path}/q.db", 2)):
        config.write_text(f"listen: 127.0.0.1:{port}\nworkers: 4\nbackend: {backend}\n")
        done = subprocess.run(
            [sys.executable, "-m", "queuegate", "serve", "--config", str(config)],
            cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        assert sum(line.startswith("queuegate: ") for line in done.stderr.splitlines()) == 1, done.stderr
        assert "Traceback" not in done.stderr
        assert "listening on" not in done.stderr


def test_a_port_that_is_taken_is_said_once(workers, mariadb, tmp_path):
    gate = workers(2)
    config = tmp_path / "second.yaml"
    config.write_text(f"listen: 127.0.0.1:{gate.port}\nworkers: 2\nbackend: {mariadb.url()}\n")
    done = subprocess.run(
        [sys.executable, "-m", "queuegate", "serve", "--config", str(config)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("queuegate: ")
    assert "already in use" in done.stderr
