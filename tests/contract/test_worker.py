"""The worker on real proxies: acks in the handler's transaction, retries, dead letters, lost leases, stops, batches."""

from __future__ import annotations

import asyncio
import threading
import time
from itertools import pairwise

import pymysql
import pytest
from servers import wait_until
from slowness import scaled

from queuegate_worker import (
    Hooks,
    LeaseLost,
    Reject,
    Release,
    Retry,
    TransactionEnded,
    Worker,
    WorkerError,
    run_together,
)


class Told(Hooks):
    """Keeps what the worker says."""

    def __init__(self):
        self.said = []

    def received(self, messages):
        self.said += [("received", m.n) for m in messages]

    def succeeded(self, message, seconds):
        self.said.append(("succeeded", message.n))

    def failed(self, message, error, seconds):
        self.said.append(("failed", message.n, str(error)))

    def rejected(self, message, reason, seconds):
        self.said.append(("rejected", message.n, reason))

    def released(self, message):
        self.said.append(("released", message.n))

    def lost(self, message):
        self.said.append(("lost", message.n))


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def worker(gate, told):
    """Makes workers of the gate."""

    def make(queue, **options):
        address = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database}
        return Worker(address, queue, **{"hooks": told, **options})

    return make


@pytest.fixture
def ledger(sql, name):
    """A business table."""
    sql(f"CREATE TABLE {name} (n INT, attempt INT)")
    yield name
    sql(f"DROP TABLE {name}")


@pytest.fixture
def filled(sql, queue):
    """Makes a queue of messages numbered from 1."""

    def make(count, **options):
        q = queue("n INT", **{"min_backoff": "'100ms'", **options})
        sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(1, count + 1)))
        return q

    return make


def unacked(sql, q):
    return sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_acked IS NULL")


def test_the_handlers_rows_and_the_ack_commit_together(sql, filled, worker, ledger, told):
    q = filled(30)

    def handle(message, transaction):
        transaction.execute(f"INSERT INTO {ledger} VALUES (%s, %s)", (message.n, message.epoch))
        assert transaction.rows(f"SELECT attempt FROM {ledger} WHERE n = %s", (message.n,)) == [
            {"attempt": message.epoch}
        ]
        if message.n % 10 == 0 and message.epoch == 1:
            raise ValueError(f"it's {message.n} \\ %s")

    worker(q, concurrency=4).run(handle, drain=True)
    wait_until(lambda: worker(q).run(handle, drain=True) or unacked(sql, q) == 0, what="the retries")
    assert sorted(sql.rows(f"SELECT n, attempt FROM {ledger}")) == [(n, 2 if n % 10 == 0 else 1) for n in range(1, 31)]
    assert sql.column(f"SELECT last_error FROM {q} WHERE n = 10") == ["ValueError: it's 10 \\ %s"]
    assert ("failed", 10, "it's 10 \\ %s") in told.said and ("succeeded", 10) in told.said


@pytest.mark.parametrize("lease", ["connection", "time"])
def test_a_handler_without_a_transaction(sql, filled, worker, lease):
    q = filled(5)
    seen = []
    worker(q, lease=lease).run(
        lambda message: seen.append((message.id, message["n"], message.queue, message.epoch)), drain=True
    )
    assert sorted(seen) == [(n, n, q, 1) for n in range(1, 6)]
    assert unacked(sql, q) == 0


def test_what_a_handler_raises_is_what_becomes_of_the_message(sql, filled, worker, told):
    q = filled(5, max_attempts=3, min_backoff="'1h'", max_backoff="'2h'")
    attempts = dict.fromkeys(range(1, 6), 0)

    def handle(message):
        attempts[message.n] += 1
        if message.n == 1:
            raise Reject("bad JSON")
        if message.n == 2 and attempts[2] < 3:
            raise Retry("HTTP 429", delay=0)
        if message.n == 3 and attempts[3] < 3:
            raise Release
        if message.n == 4:
            raise KeyError("x")
        if message.n == 5:
            raise Retry("again", delay=0)

    wait_until(lambda: worker(q).run(handle, drain=True) or unacked(sql, q) == 1, what="all but the fourth")
    assert attempts == {1: 1, 2: 3, 3: 3, 4: 1, 5: 3}
    assert sql.rows(f"SELECT n, epoch, last_error FROM {q} WHERE time_acked IS NULL") == [(4, 1, "KeyError: 'x'")]
    assert sql.value(f"SELECT epoch FROM {q} WHERE n = 3") == 1
    wait_until(lambda: sql.rows(f"SHOW TABLES LIKE '{q}_dead'") and len(sql.rows(f"SELECT n FROM {q}_dead")) == 2)
    assert sorted(sql.rows(f"SELECT n, last_error FROM {q}_dead")) == [(1, "bad JSON"), (5, "again")]
    assert ("rejected", 1, "bad JSON") in told.said and ("released", 3) in told.said
    sql(f"DROP QUEUE {q}_dead")


def test_a_release_for_later_is_due_no_sooner(sql, filled, worker):
    q = filled(2)
    begun: dict[int, list[float]] = {1: [], 2: []}

    def handle(message):
        begun[message.n].append(time.time())
        if len(begun[message.n]) < 5:
            raise Release(delay=0.3)

    with worker(q, concurrency=2).running(handle):
        wait_until(lambda: unacked(sql, q) == 0)
    for times in begun.values():
        assert min(later - earlier for earlier, later in pairwise(times)) >= 0.3
    assert sql.rows(f"SELECT epoch, last_error FROM {q}") == [(1, None)] * 2


def test_no_reason_ends_a_worker_where_backslashes_escape_nothing(gate, sql, filled, told):
    q = filled(2, min_backoff="'1h'", max_backoff="'2h'")
    address = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database}

    def handle(message, transaction):
        if message.n == 1:
            raise ValueError("no file C:\\temp\\")
        transaction.nack(message, "\\' is no JSON")

    modes = "SET sql_mode = 'NO_BACKSLASH_ESCAPES'"
    Worker({**address, "init_command": modes}, q, hooks=told).run(handle, drain=True)
    assert sql.value(f"SELECT last_error FROM {q} WHERE n = 1") == "ValueError: no file C:\\temp\\"
    assert sorted(each[:2] for each in told.said if each[0] != "received") == [("failed", 1), ("failed", 2)]


def test_batches(sql, filled, worker, ledger):
    """One transaction for each batch, in which single messages may be nacked and rejected."""
    q = filled(50)
    sizes = []

    def handle(messages, transaction):
        sizes.append(len(messages))
        for message in messages:
            if message.n == 7:
                transaction.reject(message, "seven")
            elif message.n == 8 and message.epoch == 1:
                transaction.nack(message, "eight", delay=0)
            else:
                transaction.execute(f"INSERT INTO {ledger} VALUES (%s, %s)", (message.n, message.epoch))

    wait_until(lambda: worker(q, batch=20).run(handle, drain=True) or unacked(sql, q) == 0, what="all of them")
    assert max(sizes) == 20
    assert sorted(sql.column(f"SELECT n FROM {ledger}")) == [n for n in range(1, 51) if n != 7]
    wait_until(lambda: sql.rows(f"SHOW TABLES LIKE '{q}_dead'") and sql.column(f"SELECT n FROM {q}_dead") == [7])
    sql(f"DROP QUEUE {q}_dead")


def test_a_batch_that_fails_is_undone_and_comes_again_whole(sql, filled, worker, ledger):
    q = filled(4)

    def handle(messages, transaction):
        for message in messages:
            transaction.execute(f"INSERT INTO {ledger} VALUES (%s, %s)", (message.n, message.epoch))
        if messages[0].epoch == 1:
            raise ValueError("no")

    wait_until(lambda: worker(q, batch=10).run(handle, drain=True) or unacked(sql, q) == 0)
    assert sorted(sql.rows(f"SELECT n, attempt FROM {ledger}")) == [(n, 2) for n in range(1, 5)]


def test_a_long_handler_keeps_its_lease(sql, filled, worker, told):
    q = filled(1, ack_wait="'600ms'", max_backoff="'600ms'")

    def handle(message):
        until = time.monotonic() + 2.5
        wait_until(lambda: time.monotonic() > until)

    with worker(q, concurrency=2).running(handle):
        wait_until(lambda: ("succeeded", 1) in told.said)
    assert told.said.count(("received", 1)) == 1
    assert sql.value(f"SELECT epoch FROM {q}") == 1


def test_a_lost_lease_is_noticed_and_what_was_done_is_undone(sql, filled, worker, ledger, told, connect):
    """Another has the message meanwhile: it handles it, and this one's rows are rolled back."""
    q = filled(1, ack_wait="'1s'", max_backoff="'1s'")
    other, noticed = connect(), []

    def handle(message, transaction):
        other(f"UPDATE {q} SET time_next = 0 WHERE id = 1")
        assert other.rows(f"SELECT epoch FROM STREAM {q} LIMIT 1 WAIT 10 WITH (ack_wait = '60s')") == [(2,)]
        wait_until(lambda: message.lost, what="the heartbeat to notice")
        noticed.append(message.n)
        transaction.execute(f"INSERT INTO {ledger} VALUES (%s, %s)", (message.n, message.epoch))

    with worker(q).running(handle):
        wait_until(lambda: ("lost", 1) in told.said)
    assert noticed == [1] and sql.rows(f"SELECT * FROM {ledger}") == []
    assert sql.rows(f"SELECT epoch, time_acked FROM {q}") == [(2, None)]
    assert sql(f"ACK {q} WHERE id = 1 AND epoch = 2") == 1


def test_of_a_batch_of_which_one_is_lost_the_others_come_again(sql, filled, worker, ledger, told, connect):
    q = filled(3, ack_wait="'60s'")
    first, other = [], connect()

    def handle(messages, transaction):
        if not first:
            first.append(True)
            other(f"UPDATE {q} SET time_next = 0 WHERE n = 2")
            assert other.rows(f"SELECT epoch FROM STREAM {q} LIMIT 1 WAIT 10") == [(2,)]
        for message in messages:
            transaction.execute(f"INSERT INTO {ledger} VALUES (%s, %s)", (message.n, message.epoch))

    with worker(q, batch=3).running(handle):
        wait_until(lambda: unacked(sql, q) == 1)
    assert sorted(sql.rows(f"SELECT n, attempt FROM {ledger}")) == [(1, 1), (3, 1)]
    assert ("lost", 2) in told.said and ("released", 1) in told.said


def test_a_coroutine_is_cancelled_when_its_lease_is_lost(filled, worker, told, connect):
    q = filled(1, ack_wait="'1s'", max_backoff="'1s'")
    cancelled, other = threading.Event(), connect()

    async def handle(message):
        await asyncio.to_thread(other, f"ACK {q} 1")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with worker(q).running(handle):
        wait_until(lambda: ("lost", 1) in told.said)
    assert cancelled.is_set()


def test_coroutines_with_a_transaction_run_at_the_same_time(sql, filled, worker, ledger):
    q = filled(20)
    running, most, met = set(), [], []

    async def handle(message, transaction):
        running.add(message.n)
        most.append(len(running))
        if len(running) > 1:
            met[0].set()
        await asyncio.wait_for(met[0].wait(), 20)
        running.discard(message.n)
        assert await transaction.execute(f"INSERT INTO {ledger} VALUES (%s, %s)", (message.n, message.epoch)) == 1
        assert len(await transaction.rows(f"SELECT * FROM {ledger} WHERE n = %s", (message.n,))) == 1
        if message.epoch == 1 and message.n == 5:
            raise ValueError("five")

    async def program():
        met.append(asyncio.Event())
        while unacked(sql, q):
            await worker(q, concurrency=5).serve(handle, drain=True)

    asyncio.run(program())
    assert 1 < max(most) <= 5
    assert sorted(sql.column(f"SELECT n FROM {ledger}")) == list(range(1, 21))


async def _exit(error):
    raise error


async def _exit_below(error):
    async with asyncio.TaskGroup() as group:
        group.create_task(_exit(error))


@pytest.mark.parametrize(
    ("leave", "error", "serve"),
    [*((leave, error, False) for leave in (_exit, _exit_below) for error in (SystemExit(3), KeyboardInterrupt())),
     (_exit, SystemExit(3), True)],
)  # fmt: skip
def test_an_exit_in_a_coroutine_fails_its_message_and_ends_no_loop(sql, filled, worker, told, leave, error, serve):
    q = filled(5, min_backoff="'1h'", max_backoff="'2h'")

    async def handle(message):
        if message.n == 2:
            await leave(error)

    made = worker(q, concurrency=2)
    asyncio.run(made.serve(handle, drain=True)) if serve else made.run(handle, drain=True)
    assert sql.column(f"SELECT n FROM {q} WHERE time_acked IS NULL") == [2]
    assert [each[:2] for each in told.said if each[0] == "failed"] == [("failed", 2)]


def test_workers_of_key_ranges_have_their_own_messages(sql, queue, worker):
    q = queue("n INT NOT NULL", sharding_key="'n'")
    sql(f"INSERT INTO {q} (n) VALUES (10), (11), (12), (13)")  # slots d3d9, 6512, c20a and c51c
    handled = {}
    for key_range in ("-80", "80-"):
        worker(q, key_range=key_range).run(
            lambda message, of=key_range: handled.setdefault(of, []).append(message.n), drain=True
        )
    assert handled == {"-80": [11], "80-": [10, 12, 13]}
    with pytest.raises(WorkerError, match="is no key range"):
        worker(q, key_range="80").run(print, drain=True)
    with pytest.raises(WorkerError, match="has no ring"):
        worker(queue("n INT"), key_range="-80").run(print, drain=True)


def test_sticky_workers_divide_the_messages_by_their_keys(sql, queue, worker):
    q = queue("n INT NOT NULL", sharding_key="'n'", sticky_wait="'1h'")
    handled, lock = {}, threading.Lock()

    def handle(message, of):
        with lock:
            handled.setdefault(message.n % 20, set()).add(of)

    with (
        worker(q, keys="sticky", concurrency=2).running(lambda message: handle(message, "one")),
        worker(q, keys="sticky", concurrency=2).running(lambda message: handle(message, "two")),
    ):
        wait_until(lambda: len(sql.rows(f"SHOW QUEUE {q} RANGES")) == 2, what="both workers")
        for _ in range(10):
            sql(f"INSERT INTO {q} (n) VALUES {', '.join(f'({n})' for n in range(20))}")
            wait_until(lambda: unacked(sql, q) == 0, what="the messages")
    assert handled.keys() == set(range(20)) and all(len(of) == 1 for of in handled.values())
    assert set().union(*handled.values()) == {"one", "two"}
    with pytest.raises(WorkerError, match="'shared', 'sticky' or 'exclusive'"):
        worker(q, keys="mine")


def test_a_stop_ends_a_waiting_poll_at_once_and_counts_nothing(sql, filled, worker):
    q = filled(1)
    seen = threading.Event()
    began = 0.0
    with worker(q).running(lambda message: seen.set()):
        assert seen.wait(20)
        wait_until(lambda: any(row[0] == q for row in sql.rows("SHOW SUBSCRIPTIONS")), what="the next poll")
        began = time.monotonic()
    assert time.monotonic() - began < scaled(5)  # the poll waits 30 s
    sql(f"INSERT INTO {q} (n) VALUES (2)")
    assert sql.rows(f"SELECT n, epoch FROM STREAM {q} LIMIT 1 WAIT 10") == [(2, 1)]


def test_a_stop_waits_for_what_is_being_handled(sql, filled, worker):
    q = filled(3)
    inside, done = threading.Event(), threading.Event()

    def handle(message):
        inside.set()
        assert done.wait(20)

    made = worker(q)
    stopped = threading.Thread(target=lambda: made.run(handle))
    stopped.start()
    assert inside.wait(20)
    made.stop()
    wait_until(lambda: not any(row[0] == q for row in sql.rows("SHOW SUBSCRIPTIONS")), what="the end of receiving")
    assert stopped.is_alive()
    done.set()
    stopped.join(20)
    assert not stopped.is_alive()
    stands = f"SELECT n, epoch, time_acked IS NULL FROM {q} ORDER BY id"
    wait_until(lambda: sql.rows(stands) == [(1, 1, 0), (2, 0, 1), (3, 0, 1)], what="a killed poll's leases to end")


def test_a_coroutine_is_given_back_when_the_grace_time_is_over(sql, filled, worker, told):
    q = filled(1)
    inside = threading.Event()

    async def handle(message):
        inside.set()
        await asyncio.Event().wait()

    with worker(q, grace=0.2).running(handle):
        assert inside.wait(20)
    assert told.said[-1] == ("released", 1)
    assert sql.rows(f"SELECT n, epoch FROM STREAM {q} LIMIT 1 WAIT 10") == [(1, 1)]


def test_it_holds_no_more_than_its_slots_can_begin_with(sql, filled, worker):
    q = filled(20)
    sizes, gone = [], threading.Event()

    def handle(messages):
        sizes.append(len(messages))
        gone.wait(20)

    with worker(q, concurrency=2, batch=3).running(handle):
        wait_until(lambda: len(sizes) == 2, what="both slots to be busy")
        held = sum(sizes)
        assert held <= 6
        assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE epoch > 0") == held
        assert len(sql.rows(f"SELECT n FROM STREAM {q} LIMIT 50 NOWAIT")) == 20 - held
        gone.set()


def test_a_handler_that_ends_the_transaction_is_told_so(sql, filled, worker, ledger, told, name):
    endings = ["COMMIT", "ROLLBACK", "START TRANSACTION", f"CREATE TABLE {name}_2 (n INT)"]
    q, ended = filled(len(endings), max_attempts=1), []

    def handle(message, transaction):
        if message.n < len(endings):
            transaction.execute(f"INSERT INTO {ledger} VALUES (%s, %s)", (message.n, message.epoch))
        for sql in (endings[message.n - 1], f"INSERT INTO {ledger} VALUES (9, 9)"):
            try:
                transaction.execute(sql)
            except TransactionEnded:
                ended.append(message.n)

    worker(q).run(handle, drain=True)
    sql(f"DROP TABLE IF EXISTS {name}_2")
    assert sorted(ended) == [1, 1, 2, 2, 3, 3, 4, 4] and sql.rows(f"SELECT n FROM {ledger}") == []
    assert sorted(event[:2] for event in told.said if event[0] == "failed") == [("failed", n) for n in range(1, 5)]
    wait_until(lambda: sql.rows(f"SHOW TABLES LIKE '{q}_dead'") and len(sql.rows(f"SELECT n FROM {q}_dead")) == 4)
    assert sql.value(f"SELECT last_error FROM {q}_dead WHERE n = 1").startswith("TransactionEnded: ")
    sql(f"DROP QUEUE {q}_dead")


def test_after_its_connection_is_lost_a_handler_writes_nothing_alone(sql, filled, worker, ledger):
    q, seen = filled(1), []

    def handle(message, transaction):
        for row in range(3):
            try:
                transaction.execute(f"INSERT INTO {ledger} VALUES (%s, %s)", (row, message.epoch))
            except (pymysql.MySQLError, TransactionEnded) as error:
                seen.append(type(error))
            if row == 0 and message.epoch == 1:
                sql(f"KILL {transaction.connection_id}")

    wait_until(lambda: worker(q).run(handle, drain=True) or unacked(sql, q) == 0)
    assert seen == [pymysql.err.OperationalError, TransactionEnded]
    assert sorted(sql.rows(f"SELECT n, attempt FROM {ledger}")) == [(0, 2), (1, 2), (2, 2)]


def test_what_ends_no_transaction_is_not_taken_for_it(sql, filled, worker, ledger, told):
    q = filled(1, max_attempts=1)

    def handle(message, transaction):
        transaction.execute(f"INSERT INTO {ledger} VALUES (1, 1)")
        with pytest.raises(pymysql.err.ProgrammingError):
            transaction.execute("INSERT INTO no_such_table VALUES (1)")
        for each in (
            "SAVEPOINT s", f"DELETE FROM {ledger}", "ROLLBACK TO SAVEPOINT s", "SET @a = 1", "SHOW QUEUES", "SELECT 1",
            f"INSERT INTO {q} (n) VALUES (2)", f"SELECT n FROM {ledger}", "SET SESSION sql_mode = ''", "SHOW TABLES",
            "SELECT @@autocommit", "DO 0",
        ):  # fmt: skip
            transaction.execute(each)
            assert transaction.rows(f"SELECT n FROM {ledger}") == ([] if each.startswith("DELETE") else [{"n": 1}])
        transaction.execute(f"DELETE FROM {q} WHERE n = 2")

    worker(q).run(handle, drain=True)
    assert told.said == [("received", 1), ("succeeded", 1)] and unacked(sql, q) == 0


def test_an_ack_in_a_transaction_of_ones_own(sql, filled, worker, connect, told):
    q = filled(2)
    own = connect()

    def handle(message):
        own("BEGIN")
        with own.connection.cursor() as cursor:
            message.ack(cursor)
        if message.n == 2:
            with own.connection.cursor() as cursor, pytest.raises(LeaseLost):
                message.ack(cursor)
        own("COMMIT")

    worker(q).run(handle, drain=True)
    assert unacked(sql, q) == 0
    assert [event for event in told.said if event[0] == "succeeded"] == [("succeeded", 1), ("succeeded", 2)]


def test_two_workers_of_two_queues_in_one_process(sql, filled, worker):
    one, two = filled(3), filled(4)
    seen = []
    run_together(
        (worker(one), lambda message: seen.append(message.queue)),
        (worker(two), lambda message: seen.append(message.queue)),
        drain=True,
    )
    assert (seen.count(one), seen.count(two)) == (3, 4)


def test_a_drain_ends_when_nothing_is_due_in_any_queue(sql, filled, queue, worker):
    """The second queue is drained when the handler of the first sends to it."""
    one, two = filled(1), queue("n INT")
    began, seen = threading.Event(), []

    class Began(Hooks):
        def receiving(self):
            began.set()

    def send(_message):
        assert began.wait(20)
        wait_until(lambda: sum("queuegate-receiver" in each.name for each in threading.enumerate()) == 1)
        sql(f"INSERT INTO {two} (n) VALUES (7)")

    run_together((worker(one), send), (worker(two, hooks=Began()), lambda message: seen.append(message.n)), drain=True)
    assert seen == [7]


def test_any_kind_of_id_and_odd_names(sql, worker, name):
    sql(f"CREATE QUEUE `{name} 100%%.x``y` (id VARCHAR(20) PRIMARY KEY, `a b%%` INT)" % ())
    sql(f"INSERT INTO `{name} 100%%.x``y` (id, `a b%%`) VALUES ('it''s', 1), ('%%s', 2), ('\\\\', 3)" % ())
    seen = []
    worker(f"`{name} 100%.x``y`", batch=5).run(
        lambda messages: seen.extend((m.id, m["a b%"]) for m in messages), drain=True
    )
    assert sorted(seen) == [("%s", 2), ("\\", 3), ("it's", 1)]
    assert sql.value(f"SELECT COUNT(*) FROM `{name} 100%%.x``y` WHERE state <> 'acked'" % ()) == 0
    sql(f"DROP QUEUE `{name} 100%%.x``y`" % ())


def test_what_waiting_does_not_mend_ends_the_worker(sql, worker, name):
    with pytest.raises(WorkerError, match=r"1146.*no such queue"):
        worker(name).run(print)
    sql(f"CREATE TABLE {name} (id INT)")
    with pytest.raises(WorkerError, match="1347"):
        worker(name).run(print)
    sql(f"DROP TABLE {name}")


def test_a_queue_that_is_dropped_ends_the_worker(sql, filled, worker):
    q = filled(1)
    seen = threading.Event()
    with pytest.raises(WorkerError, match="1146"), worker(q).running(lambda message: seen.set()):
        assert seen.wait(20)
        wait_until(lambda: any(row[0] == q for row in sql.rows("SHOW SUBSCRIPTIONS")), what="the next poll")
        sql(f"DROP QUEUE {q}")
        wait_until(lambda: not any("queuegate-receiver" in t.name for t in threading.enumerate()))


@pytest.mark.parametrize("clauses", ["ACK", "NACK REASON 'x'", "REJECT REASON 'x'", "RELEASE", "RENEW FOR '5s'"])
def test_what_names_a_delivery_locks_no_other_message(sql, connect, queue, place, clauses):
    """A handler may be slow between its ack and its commit: neither producers nor receivers wait for it."""
    if place == "embedded":
        pytest.skip("one transaction writes at a time")
    q = queue("n INT", ack_wait="'1h'")
    verb, _, rest = clauses.partition(" ")
    other = connect(autocommit=False)
    sql("SET SESSION innodb_lock_wait_timeout = 1")
    for count in (1, 2, 5, 50):
        sql(f"INSERT INTO {q} (n) VALUES {', '.join(['(1)'] * count)}")
        found = sql.column(f"SELECT id FROM STREAM {q} LIMIT {count} NOWAIT")
        condition = f"id IN ({', '.join(map(str, found))})" if count > 1 else f"id = {found[0]}"
        assert other(f"{verb} {q} WHERE {condition} AND epoch = 2 {rest}") == 0
        assert sql(f"INSERT INTO {q} (n) VALUES (2)") == 1
        other("ROLLBACK")
        assert other(f"{verb} {q} WHERE {condition} AND epoch = 1 {rest}") == count
        assert sql(f"INSERT INTO {q} (n) VALUES (3)") == 1
        assert sorted(sql.column(f"SELECT n FROM STREAM {q} LIMIT 2 WAIT 10")) == [2, 3]
        other("ROLLBACK")
        sql(f"DELETE FROM {q}")


def test_an_object_mapper_acks_in_its_own_transaction(gate, sql, filled, worker, ledger):
    """As docs/worker.md has it."""
    sqlalchemy = pytest.importorskip("sqlalchemy")
    from sqlalchemy.orm import sessionmaker

    q = filled(4)
    engine = sqlalchemy.create_engine(f"mysql+pymysql://root@127.0.0.1:{gate.port}/{gate.database}")
    Session = sessionmaker(engine)

    def handle(message):
        with Session.begin() as session:
            session.execute(
                sqlalchemy.text(f"INSERT INTO {ledger} VALUES (:n, :epoch)"), {"n": message.n, "epoch": message.epoch}
            )
            message.ack(session.connection().connection.cursor())
            if message.n == 3 and message.epoch == 1:
                raise ValueError("undone, the ack with it")

    wait_until(lambda: worker(q).run(handle, drain=True) or unacked(sql, q) == 0)
    assert sorted(sql.rows(f"SELECT n, attempt FROM {ledger}")) == [(1, 1), (2, 1), (3, 2), (4, 1)]
    engine.dispose()


def test_a_group_of_a_topic_by_the_name_of_its_queue(sql, topic, worker, told):
    t = topic("n INT", billing="START AT EARLIEST")
    sql(f"INSERT INTO {t} (n) VALUES (1), (2), (3)")
    seen = []
    with worker(f"{t}_group_billing").running(lambda message: seen.append(message.n)):
        wait_until(lambda: [event[0] for event in told.said].count("succeeded") == 3)
    assert sorted(seen) == [1, 2, 3]
    assert sql.value(f"SELECT COUNT(*) FROM {t}_group_billing") == 0


# --- rows of which a handler cannot be given a message


def _no_negative(text):
    if text.startswith("-"):
        raise LookupError(f"a negative price: {text}")
    return float(text)


@pytest.mark.parametrize("drain", [True, False])
def test_a_row_that_cannot_be_read_is_set_aside_and_the_others_are_handled(worker, told, sql, queue, gate, drain):
    q = queue("n INT, price DECIMAL(10,2)")
    bad, good = [2, 3, 7, 20, 21, 22], [n for n in range(1, 23) if n not in (2, 3, 7, 20, 21, 22)]
    for n in range(1, 23):
        sql(f"INSERT INTO {q} (n, price) VALUES ({n}, {-n if n in bad else n})")
    conv = {**pymysql.converters.conversions, pymysql.constants.FIELD_TYPE.NEWDECIMAL: _no_negative}
    place = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database, "conv": conv}
    running, handled = Worker(place, q, concurrency=3, hooks=told), []
    if drain:
        running.run(lambda message: handled.append(message.n), drain=True)
    else:
        with running.running(lambda message: handled.append(message.n)):
            wait_until(lambda: len(handled) == len(good), what="the others")
            wait_until(lambda: not sql.value(f"SELECT COUNT(*) FROM {q} WHERE state <> 'acked'"), what="the rest")
    assert sorted(handled) == good
    wait_until(lambda: sql.rows(f"SHOW TABLES LIKE '{q}_dead'"), what="the dead-letter queue")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q}_dead") == len(bad), what="the dead letters")
    reasons = sql.rows(f"SELECT n, last_error FROM {q}_dead ORDER BY n")
    assert reasons == [(n, f"column price cannot be read: LookupError: a negative price: -{n}.00") for n in bad]
    sql(f"DROP QUEUE {q}_dead")


def test_values_at_the_ends_of_their_types_reach_the_handler(worker, sql, queue, place):
    q = queue(
        "n INT, d DATE, t DATETIME(6), i TIME(6), y YEAR, x DECIMAL(65,30), b BIGINT UNSIGNED, j JSON, f DOUBLE, z BLOB"
    )
    rows = [
        "(1, '0001-01-01', '9999-12-31 23:59:59.999999', '-838:59:59', 1901, -99999999999999999999999999999999999.0,"
        " 9223372036854775807, '[]', -1.7976931348623157e308, X'00FF')",
        "(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    ]
    if place != "embedded":
        sql("SET SESSION sql_mode = ''")
        rows.append("(3, '0000-00-00', '2026-00-01 00:00:00', '00:00:00', 0, 0, 0, 'null', 0, '')")
        rows.append("(4, '2026-02-00', '0000-00-00 00:00:00', '00:00:00', 0, 0, 0, '1', 0, '')")
    for row in rows:
        sql(f"INSERT INTO {q} (n, d, t, i, y, x, b, j, f, z) VALUES {row}")
    handled = []
    worker(q).run(lambda message: handled.append(message.n), drain=True)
    assert handled == list(range(1, len(rows) + 1))


def test_what_was_received_ahead_goes_to_others_where_a_handler_gets_long(sql, filled, worker, told):
    q = filled(300)
    long, gone = threading.Event(), threading.Event()

    def handle(message):
        if message.n == 60:
            long.set()
            gone.wait(scaled(60))

    with worker(q).running(handle):
        assert long.wait(scaled(30))
        rest = sql.rows(f"SELECT n, epoch FROM STREAM {q} LIMIT 240 WAIT 30")
        while len(rest) < 240:
            rest += sql.rows(f"SELECT n, epoch FROM STREAM {q} LIMIT {240 - len(rest)} WAIT 30")
        assert sorted(n for n, _ in rest) == list(range(61, 301)) and {epoch for _, epoch in rest} == {1}
        assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE n < 60 AND time_acked IS NULL") == 0
        gone.set()
    assert not any(what == "lost" for what, *_ in told.said)
