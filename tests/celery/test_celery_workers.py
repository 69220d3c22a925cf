"""Real workers as processes, through a real gate, on both backends: what Celery's users rely on.

Carried over from Celery's own smoke tests (t/smoke of its repository) as far as they are about a broker: acks_late and
a killed worker, eta, retries, priorities, canvas, control commands, shutdown, a broker that restarts, new children.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest
from celery_workers import Worker, environment_of, open_connections, results_of, url_of
from servers import Gate, wait_until
from slowness import scaled

pytestmark = pytest.mark.long
on_server = pytest.mark.parametrize("place", ["mariadb"], indirect=True)
"""What a worker does, on one backend: what the backends do when a worker, a proxy or a connection ends is on both."""


@pytest.fixture
def gate_here(shared_gate) -> Gate:
    """One for all of this module, at each place."""
    return shared_gate()


_running: dict[tuple[str, tuple[str, ...]], Any] = {}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Starts workers that all tests of this module share."""

    def start(gate: Gate, *arguments: str, **environment: str) -> Worker:
        key = (gate.backend, arguments)
        if key not in _running:
            _running[key] = Worker(gate, tmp_path_factory.mktemp("kept"), *arguments, **environment)
        return _running[key].ready()

    yield start
    for worker in _running.values():
        worker.kill()


@pytest.fixture
def shop(gate_here, shops, kept):
    """A program that enqueues, with a worker of two processes behind the queue `celery`, and results."""
    made = shops(gate_here, results=True)
    kept(gate_here, "-c", "2", "-E", CELERY_TEST_RESULTS=results_of(gate_here))
    return made


def test_tasks_run_once_and_are_acked(shop):
    for n in range(20):
        shop.send("say", f"once {n}")
    shop.wait("once %", 20)
    shop.settled()
    assert sorted(shop.notes("once %")) == sorted(f"once {n}" for n in range(20))
    assert shop.sql.value("SELECT MAX(epoch) FROM celery WHERE task = 'celery_shop.say'") == 1


@on_server
def test_countdown_and_eta_wait_in_the_queue_and_not_in_a_worker(shop):
    late = shop.send("say", "in two seconds", countdown=2)
    far = shop.send("say", "tomorrow", countdown=86_400)
    now = shop.send("say", "now")
    shop.wait("now")
    held = shop.sql.rows("SELECT epoch, state FROM celery WHERE task_id IN (%s, %s)", late.id, far.id)
    assert held == [(0, "to_be_fired")] * 2 or shop.notes("in two seconds")
    shop.wait("in two seconds")
    early = shop.sql.value("SELECT time_acked < time_scheduled FROM celery WHERE task_id = %s", late.id)
    assert not early
    assert shop.sql.row("SELECT epoch, state FROM celery WHERE task_id = %s", far.id) == (0, "to_be_fired")
    assert shop.sql("ACK celery WHERE task_id = %s", far.id) == 1
    assert now.id != late.id


@on_server
def test_retries_with_a_countdown(shop):
    shop.send("fail_twice", "retry")
    shop.wait("retry done")
    assert shop.notes("retry %") == ["retry try 0", "retry try 1", "retry try 2", "retry done"]


@on_server
def test_rejected_tasks_are_dead_letters_and_requeued_ones_come_again(shop):
    dead, again = shop.send("refuse", "refused"), shop.send("refuse_once", "again")
    shop.wait("again done")
    wait_until(lambda: shop.sql.rows("SHOW TABLES LIKE 'celery_dead'"), what="the dead-letter queue")
    wait_until(lambda: shop.sql.rows("SELECT task_id FROM celery_dead") == [(dead.id,)], what="the dead letter")
    assert shop.notes("refused") == ["refused"]
    assert shop.notes("again%") == ["again", "again", "again done"]
    shop.settled()
    assert again.id


@on_server
def test_chain_group_and_chord_with_results_in_the_database(shop):
    from celery import chain, chord, group

    def add(*numbers: int) -> Any:
        return shop.app.signature("celery_shop.add", args=numbers, app=shop.app)

    chained = chain(add(1, 2), add(3), add(4)).apply_async()
    grouped = group(add(n, n) for n in range(4)).apply_async()
    chorded = chord([add(n, 1) for n in range(3)], shop.app.signature("celery_shop.total", app=shop.app)).apply_async()
    assert chained.get(timeout=60) == 10
    assert grouped.get(timeout=60) == [0, 2, 4, 6]
    assert chorded.get(timeout=60) == 6


@on_server
def test_remote_control_and_events(shop):
    seen: list[str] = []
    with shop.app.connection_for_read() as connection:
        receiver = shop.app.events.Receiver(
            connection, handlers={"task-succeeded": lambda event: seen.append(event["uuid"])}
        )
        events = receiver.itercapture(limit=None, timeout=60, wakeup=False)
        next(events)  # it listens from here on
        task = shop.send("say", "an event")
        for _ in events:
            if task.id in seen:
                break
    assert task.id in seen
    (answer,) = shop.app.control.inspect(timeout=5, limit=1).ping().values()
    assert answer == {"ok": "pong"}
    before = open_connections()
    for _ in range(3):  # each has a reply queue of its own
        assert shop.app.control.inspect(timeout=5, limit=1).ping()
    assert open_connections() == before
    shop.app.control.add_consumer("other", reply=True, timeout=5, limit=1)
    shop.send("say", "by another queue", queue="other")
    shop.wait("by another queue")
    shop.app.control.cancel_consumer("other", reply=True, timeout=5, limit=1)


def test_a_killed_workers_task_runs_again_at_once_and_ends_once(gate_here, shops, worker):
    shop = shops(gate_here)
    first = worker(gate_here, "-c", "2", "-Q", "killed").ready()
    task = shop.send("late", "killed", "go on", queue="killed")
    shop.wait("killed begins")
    first.kill()
    # The lease would be a minute. The engine gives it back because the connection ended.
    wait_until(
        lambda: shop.sql.value(
            "SELECT time_next <= UNIX_TIMESTAMP() * 1000000000 FROM killed WHERE task_id = %s", task.id
        ),
        30,
        "the task to be given back",
    )
    worker(gate_here, "-c", "2", "-Q", "killed").ready()
    shop.wait("killed begins", 2)
    shop.say("go on")
    shop.wait("killed ends")
    shop.settled("killed")
    assert shop.notes("killed ends") == ["killed ends"]
    assert shop.sql.column("SELECT redelivered FROM notes WHERE what = 'killed begins' ORDER BY id") == [0, 1]


FORKING = """
import os, signal, sys
import kombu, queuegate_celery
from celery_shop import note
connection = kombu.Connection(sys.argv[1])
queue = kombu.Queue("outlived")(connection.channel())
queue.declare()
kombu.Consumer(queue.channel, [queue], on_message=lambda message: None).consume()
connection.drain_events(timeout=60)
if os.fork() == 0:
    note("a child lives")
    sys.stdin.read()  # until the test ends
    note("a child ends")
    os._exit(0)
signal.pause()
"""


@on_server
def test_children_that_outlive_a_killed_program_hold_nothing(gate_here, shops):
    """A child of fork has closed its copies of the sockets. Celery's own children end with their worker, on Linux."""
    shop = shops(gate_here)
    task = shop.send("nothing", queue="outlived")
    program = subprocess.Popen(
        [sys.executable, "-c", FORKING, url_of(gate_here)], env=environment_of(gate_here), stdin=subprocess.PIPE
    )
    assert program.stdin is not None
    with program.stdin as living:
        shop.wait("a child lives")
        held = "SELECT state = 'fired' AND time_next MOD 1000 = 1 FROM outlived WHERE task_id = %s"
        assert shop.sql.value(held, task.id)
        program.kill()
        program.wait(30)
        wait_until(lambda: not shop.sql.value(held, task.id), 30, "the task to be given back")
        assert shop.notes("a child ends") == []
        living.close()
    shop.wait("a child ends")


@on_server
def test_a_warm_shutdown_ends_what_runs_and_gives_back_what_waits(gate_here, shops, worker):
    shop = shops(gate_here)
    first = worker(gate_here, "-c", "1", "-Q", "warm").ready()
    running = shop.send("late", "warm", "end", queue="warm")
    shop.wait("warm begins")
    waiting = [shop.send("say", f"waits {n}", queue="warm") for n in range(3)]
    wait_until(
        lambda: shop.sql.value("SELECT COUNT(*) FROM warm WHERE state = 'fired'") == 4,
        30,
        "tasks that wait in the worker",
    )
    first.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "Warm shutdown" in first.log, 30, "the shutdown to begin")
    shop.say("end")
    assert first.process.wait(scaled(60)) == 0, first.log
    shop.wait("warm ends")
    assert shop.sql.row("SELECT epoch, state FROM warm WHERE task_id = %s", running.id) == (1, "acked")
    wait_until(
        lambda: not shop.sql.value("SELECT COUNT(*) FROM warm WHERE state = 'fired' AND time_next MOD 1000 = 1"),
        30,
        "what waited to be given back",
    )
    worker(gate_here, "-c", "1", "-Q", "warm").ready()
    shop.wait("waits %", len(waiting))
    shop.settled("warm")
    assert sorted(shop.notes("waits %")) == [f"waits {n}" for n in range(3)]
    assert shop.notes("warm %") == ["warm begins", "warm ends"]


@on_server
def test_one_process_alone_keeps_its_lease_and_takes_what_goes_first(gate_here, shops, worker):
    """The pool `solo` runs tasks in the event loop: a thread prolongs the lease of one that takes longer than it."""
    shop = shops(gate_here)
    solo = {"CELERY_TEST_MULTIPLIER": "1", "CELERY_TEST_LEASE": "3"}
    worker(gate_here, "-P", "solo", "-Q", "solo,beside", **solo).ready()
    shop.send("late", "solo", "enough", queue="solo")
    shop.wait("solo begins")
    lease = shop.sql.value("SELECT time_next FROM solo WHERE task = 'celery_shop.late'")
    shop.send("say", "beside", queue="beside")  # the poll of that queue is answered while the loop runs a task
    wait_until(lambda: shop.sql.column("SELECT state FROM beside") == ["fired"], 30, "the other queue's task")
    early = shop.sql.value("SELECT time_next FROM beside")
    for priority in (0, 3, 9, 5):
        shop.send("say", f"priority {priority}", queue="solo", priority=priority)
    wait_until(
        lambda: shop.sql.value("SELECT time_next FROM solo WHERE task = 'celery_shop.late'") > lease + 4_000_000_000,
        30,
        "the lease to be prolonged",
    )
    later = "the lease of what nobody has read"
    wait_until(lambda: shop.sql.value("SELECT time_next FROM beside") > early + 4_000_000_000, 30, later)
    shop.say("enough")
    shop.wait("priority %", 4)
    shop.wait("beside")
    shop.settled("solo")
    shop.settled("beside")
    assert shop.sql.rows("SELECT epoch FROM beside") == [(1,)] and shop.notes("beside") == ["beside"]
    assert shop.notes("solo%") == ["solo begins", "solo ends"]
    assert shop.notes("priority %") == [f"priority {n}" for n in (9, 5, 3, 0)]


@on_server
def test_threads(gate_here, shops, worker):
    shop = shops(gate_here)
    worker(gate_here, "-P", "threads", "-c", "4", "-Q", "threads").ready()
    for n in range(3):
        shop.send("late", f"thread {n}", "all of you", queue="threads")
    shop.wait("thread % begins", 3)  # at the same time
    shop.say("all of you")
    shop.wait("thread % ends", 3)
    shop.settled("threads")
    assert shop.sql.value("SELECT MAX(epoch) FROM threads") == 1


@pytest.mark.parametrize("end", ["in order", "killed"])
def test_a_proxy_that_restarts_while_workers_run(new_gate, shops, worker, end):
    gate = new_gate().start()
    shop = shops(gate)
    working = worker(gate, "-c", "2").ready()
    for n in range(10):
        shop.send("say", f"before {n}")
    shop.wait("before %", 10)
    shop.settled()
    shop.send("say", "later", countdown=3)
    gate.terminate() if end == "in order" else gate.kill()
    wait_until(lambda: "Connection to broker lost" in working.log or "connection" in working.log, 30, "the loss")
    gate.start()
    shop.reconnect()
    for n in range(10):
        shop.send("say", f"after {n}")
    shop.wait("after %", 10)
    shop.wait("later")
    shop.settled()
    for words in ("before", "after"):
        assert sorted(shop.notes(f"{words} %")) == [f"{words} {n}" for n in range(10)]
    assert shop.notes("later") == ["later"]


@on_server
def test_a_database_that_is_read_only_for_a_while_costs_nothing(gate_here, shops, worker, server_here):
    """Neither the worker, nor a lease, nor a second run of what has ended."""
    shop = shops(gate_here)
    working = worker(gate_here, "-c", "2", "-Q", "refusing", CELERY_TEST_LEASE="30").ready()
    for n in range(2):
        shop.send("late", f"refused {n}", f"end {n}", queue="refusing")
        shop.wait(f"refused {n} begins")
    with server_here.connect(database=gate_here.database) as around, around.cursor() as cursor:
        cursor.execute(
            "CREATE TRIGGER refusing_all BEFORE UPDATE ON refusing FOR EACH ROW "
            "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'read-only'"
        )
        shop.say("end 0")
        for words in ("settlements are sent again", "leases are renewed again"):
            wait_until(lambda words=words: working._said(words), 40, words)
        cursor.execute("DROP TRIGGER refusing_all")
    shop.say("end 1")
    shop.settled("refusing")
    shop.send("say", "refused no more", queue="refusing")
    shop.wait("refused no more")
    assert shop.sql.column("SELECT epoch FROM refusing") == [1, 1, 1]
    assert sorted(shop.notes("refused _ %")) == [f"refused {n} {what}" for n in range(2) for what in ("begins", "ends")]
    assert working.process.poll() is None


@on_server
def test_a_dropped_queue_is_created_again_and_the_worker_goes_on(gate_here, shops, worker):
    shop = shops(gate_here)
    working = worker(gate_here, "-c", "1", "-Q", "stays,dropped").ready()
    shop.sql("DROP QUEUE dropped")
    wait_until(lambda: shop.sql.rows("SHOW TABLES LIKE 'dropped'") and working._said("was created"), 60, "the queue")
    for queue in ("stays", "dropped"):
        shop.send("say", f"in {queue}", queue=queue)
        shop.wait(f"in {queue}")
