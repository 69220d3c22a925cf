"""What a worker sends, step by step, and what it makes of the answers: slot, acker, heartbeat; no network."""

from __future__ import annotations

import inspect
import logging
import threading
import traceback
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pymysql
import pytest
from worker_fakes import DEADLOCK, GONE, STATEMENTS, FakeProxy, Told, rows

from queuegate_worker import Hooks, Message, Release, Retry, WorkerError
from queuegate_worker.acker import Acker
from queuegate_worker.connection import Connection
from queuegate_worker.errors import TransactionEnded, for_log, reason_of
from queuegate_worker.free_slots import FreeSlots, Pace
from queuegate_worker.handlers import InThread, handler_of
from queuegate_worker.heartbeat import Heartbeat, InFlight
from queuegate_worker.processes.child import CONNECTING, RECEIVING, StateHooks
from queuegate_worker.run import Plan, Run
from queuegate_worker.settler import Settler
from queuegate_worker.shared import Shared
from queuegate_worker.slot import Slot


class Bench:
    """A slot with a handler, before a stand-in of the proxy."""

    def __init__(self, proxy, handle, batches=False):
        self.proxy, self.told, self.pauses, self.ended = proxy, Told(), [], []
        handler = handler_of(handle, batches=batches)
        self.slots = FreeSlots(1)
        settler = Settler(Connection(proxy.connect, 9), STATEMENTS, self.pauses.append)
        shared = Shared(
            STATEMENTS, self.told, InFlight(), self.slots, Pace(1, 1), clock=lambda: 0.0, pause=self.pauses.append,
            pause_receiving=self.pauses.append, fail=self.ended.append,
        )  # fmt: skip
        self.acker = Acker(settler, shared)
        connection, call = Connection(proxy.connect, 9), InThread(handler, self.told)
        self.slot = Slot(connection, shared, call, self.acker, transactional=handler.transactional)

    def work(self, *messages):
        self.slot.work(messages or [Message("q", 7, 1, {}, ack_statement="ACK `q` WHERE id = %s AND epoch = %s")])
        self.acker.end()
        self.acker.run()
        return self.proxy.sent


def insert(message, transaction):
    transaction.execute("INSERT INTO t VALUES (%s)", (1,))


def test_without_values_a_percent_sign_is_one():
    def handle(message, transaction):
        transaction.execute("DELETE FROM t WHERE a LIKE 'a%'")
        transaction.rows("SELECT DATE_FORMAT(NOW(), '%Y')")
        transaction.rows("SELECT %s LIKE 'a%%'", ["b"])
        transaction.rows("SELECT 'a%%'", [])

    assert Bench(FakeProxy(), handle).work()[1:5] == [
        "DELETE FROM t WHERE a LIKE 'a%'", "SELECT DATE_FORMAT(NOW(), '%Y')", "SELECT 'b' LIKE 'a%'", "SELECT 'a%'",
    ]  # fmt: skip


def test_one_transaction_from_the_handler_to_the_ack():
    bench = Bench(FakeProxy(), insert)
    begun = ["START TRANSACTION", "INSERT INTO t VALUES (1)"]
    assert bench.work() == [*begun, "ACK `q` WHERE id = 7 AND epoch = 1", "COMMIT"]
    assert bench.told.said == [("succeeded", 7)]


def test_a_coroutine_below_an_ordinary_decorator_runs_before_the_ack():
    seen = []

    async def handle(message):
        seen.append(message.id)

    bench = Bench(FakeProxy(), lambda message: handle(message))
    assert bench.work() == ["ACK `q` WHERE id = 7 AND epoch = 1"] and seen == [7]


@pytest.mark.parametrize(
    ("error", "unexpected"), [(ValueError("no"), True), (SystemExit(3), True), (Retry("HTTP 429"), False)]
)
def test_a_failure_has_its_error_in_the_log_and_where_it_is_unexpected_its_traceback(caplog, error, unexpected):
    def handle(message):
        raise error

    assert Bench(FakeProxy(), handle).work()[0].startswith("NACK `q` WHERE id = 7")
    (record,) = caplog.records
    assert record.getMessage() == f"the handler failed for message 7 of q, attempt 1: {reason_of(error)}"
    assert bool(record.exc_info) == unexpected


@pytest.mark.parametrize("insert_also", [True, False])
def test_a_traceback_is_that_of_the_handler(caplog, insert_also):
    def handle(message, transaction):
        if insert_also:
            insert(message, transaction)
        raise ValueError("no")

    Bench(FakeProxy(INSERT=pymysql.err.ProgrammingError(1146, "no table")), handle).work()
    (record,) = caplog.records
    names = [each.name for each in traceback.extract_tb(record.exc_info[2])]
    assert names == (["handle", "insert", "execute"] if insert_also else ["handle"])


def test_of_an_error_without_the_handler_the_whole_traceback_is_logged():
    with pytest.raises(WorkerError) as caught:
        handler_of(None, batches=False)
    inside = caught.value.with_traceback(caught.value.__traceback__.tb_next)
    assert for_log(inside) == (WorkerError, inside, inside.__traceback__) and inside.__traceback__ is not None


def test_without_a_transaction_the_ack_comes_after_the_handler():
    bench = Bench(FakeProxy(), lambda message: None)
    assert bench.work() == ["ACK `q` WHERE id = 7 AND epoch = 1"]
    assert bench.told.said == [("succeeded", 7)]


class CursorOfTheHandler:
    rowcount = 1

    def execute(self, query, args=None):
        pass


@pytest.mark.parametrize(
    ("settle", "outcome"),
    [
        (lambda message, cursor: message.ack(cursor), "succeeded"),
        (lambda message, cursor: message.nack(cursor, "busy"), "failed"),
        (lambda message, cursor: message.reject(cursor, "bad"), "rejected"),
    ],
)
def test_what_the_handler_settles_itself_is_reported_and_not_sent_again(settle, outcome):
    bench = Bench(FakeProxy(), lambda message: settle(message, CursorOfTheHandler()))
    assert bench.work() == []
    assert bench.told.said == [(outcome, 7)]

    def handle(message, transaction):
        assert transaction.connection
        settle(message, CursorOfTheHandler())

    bench = Bench(FakeProxy(), handle)
    assert bench.work() == ["START TRANSACTION", "DO 0", "COMMIT"]
    assert bench.told.said == [(outcome, 7)]


def test_a_failure_is_rolled_back_and_nacked():
    bench = Bench(FakeProxy(INSERT=ValueError("no")), insert)
    assert bench.work()[2:] == ["ROLLBACK", "NACK `q` WHERE id = 7 AND epoch = 1 REASON 'ValueError: no'"]
    assert bench.told.said == [("failed", 7)]


def test_an_ack_that_changes_nothing_undoes_all():
    bench = Bench(FakeProxy(ACK=0, RELEASE=0), insert)
    assert bench.work()[2:] == [
        "ACK `q` WHERE id = 7 AND epoch = 1", "ROLLBACK", "RELEASE `q` WHERE id = 7 AND epoch = 1",
    ]  # fmt: skip
    assert bench.told.said == [("lost", 7)]


def test_a_commit_without_an_answer_that_took_effect():
    proxy = FakeProxy(COMMIT=GONE, NACK=0, SELECT=([{"id": 7}],))
    bench = Bench(proxy, insert)
    bench.work()
    assert proxy.connected == 2 and bench.told.said == [("succeeded", 7)]


def test_a_commit_without_an_answer_that_did_not():
    bench = Bench(FakeProxy(COMMIT=GONE), insert)
    assert bench.work()[-1].startswith('NACK `q` WHERE id = 7 AND epoch = 1 REASON "OperationalError: (2013')
    assert bench.told.said == [("failed", 7)]


def test_a_commit_without_an_answer_while_another_has_the_message():
    bench = Bench(FakeProxy(COMMIT=GONE, NACK=0, SELECT=([],)), insert)
    bench.work()
    assert bench.told.said == [("lost", 7)]


def test_an_ack_without_an_answer_is_sent_again():
    proxy = FakeProxy(ACK=(GONE, 0), SELECT=([{"id": 7}],))
    bench = Bench(proxy, lambda message: None)
    bench.work()
    assert bench.told.said == [("succeeded", 7)] and len(bench.pauses) == 1


def test_a_connection_that_died_at_rest_is_replaced_before_anything_happens():
    proxy = FakeProxy()
    bench = Bench(proxy, insert)
    bench.work()
    proxy.answer("START", GONE, 1)
    bench.work()
    assert bench.told.said == [("succeeded", 7)] * 2 and bench.pauses == [] and proxy.connected == 2


def test_a_proxy_that_stays_away_leaves_the_message_to_its_lease():
    bench = Bench(FakeProxy(START=GONE), insert)
    bench.work()
    assert bench.told.said == [] and len(bench.pauses) == 8 and bench.ended == []


def test_an_error_that_waiting_does_not_mend_ends_the_worker():
    bench = Bench(FakeProxy(START=pymysql.err.OperationalError(1045, "denied")), insert)
    bench.work()
    assert "1045" in str(bench.ended[0]) and bench.pauses == []


def test_a_deadlock_that_the_handler_swallows_does_not_ack_by_itself():
    """The server has rolled back; an ack would be committed alone."""

    def handle(message, transaction):
        with pytest.raises(pymysql.err.OperationalError):
            transaction.execute("UPDATE t SET n = 1")

    bench = Bench(FakeProxy(UPDATE=DEADLOCK), handle)
    sent = bench.work()
    assert "DO 0" in sent and not any(sql.startswith("ACK") for sql in sent)
    assert bench.told.said == [("failed", 7)]


@pytest.mark.parametrize("error", [DEADLOCK, GONE])
@pytest.mark.parametrize(
    "go_on",
    [
        lambda message, transaction: transaction.execute("INSERT INTO t VALUES (2)"),
        lambda message, transaction: transaction.rows("SELECT 2"),
        lambda message, transaction: transaction.connection,
        lambda message, transaction: transaction.nack(message, "no"),
        lambda message, transaction: transaction.reject(message, "no"),
    ],
)
def test_after_a_transaction_has_ended_nothing_is_done_in_its_place(error, go_on):
    """It would be committed alone: on this connection, or on a new one."""
    ended = []

    def handle(message, transaction):
        with pytest.raises(pymysql.err.OperationalError):
            transaction.execute("UPDATE t SET n = 1")
        for _ in range(2):
            with pytest.raises(TransactionEnded):
                go_on(message, transaction)
            ended.append(True)

    bench = Bench(FakeProxy(UPDATE=error), handle)
    sent = bench.work()
    middle = [] if error is GONE else ["DO 0", "ROLLBACK"]
    assert sent[:-1] == ["START TRANSACTION", "UPDATE t SET n = 1", *middle]
    assert ' REASON "TransactionEnded: ' in sent[-1]
    assert len(ended) == 2 and bench.told.said == [("failed", 7)]


def test_after_an_error_that_ends_no_transaction_the_handler_goes_on():
    def handle(message, transaction):
        with pytest.raises(pymysql.err.IntegrityError):
            transaction.execute("UPDATE t SET n = 1")
        for _ in range(2):
            transaction.execute("INSERT INTO t VALUES (1)")

    bench = Bench(FakeProxy(UPDATE=pymysql.err.IntegrityError(1062, "Duplicate entry")), handle)
    assert bench.work()[2:-2] == ["DO 0", *["INSERT INTO t VALUES (1)"] * 2] and bench.told.said == [("succeeded", 7)]


ENDINGS = [
    "COMMIT", "commit work", " /* a ** */-- b\n#c\nCOMMIT", "--\nROLLBACK", "ROLLBACK AND CHAIN", "BEGIN",
    "START /* a */ TRANSACTION READ ONLY", "SET autocommit=0", "SET @a = 1, @@session.autocommit := 1",
    "SET `autocommit` = ON", "CREATE TABLE x (n INT)",
]  # fmt: skip


@pytest.mark.parametrize("sql", ENDINGS)
def test_a_statement_that_ends_the_transaction_is_told_at_once(sql):
    def handle(message, transaction):
        transaction.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(TransactionEnded):
            transaction.execute(sql)
        with pytest.raises(TransactionEnded):
            transaction.execute("INSERT INTO t VALUES (2)")

    bench = Bench(FakeProxy(), handle)
    sent = bench.work()
    assert ["CREATE" in each or "INSERT" in each for each in sent].count(True) == 1 + sql.startswith("CREATE")
    assert sent[-2] == "ROLLBACK" and ' REASON "TransactionEnded: ' in sent[-1] and bench.told.said == [("failed", 7)]


@pytest.mark.parametrize(
    "sql",
    [
        "ROLLBACK TO s", "rollback work /* */ to savepoint s", "SAVEPOINT s", "RELEASE SAVEPOINT s",
        "SET @autocommit = 1", "INSERT INTO t VALUES ('COMMIT')", "-- COMMIT\nSELECT 1",
        "BEGIN NOT ATOMIC SELECT 1; END", "START GROUP_REPLICATION",
        "/* */" * 50 + "SELECT 1",
    ],
)  # fmt: skip
def test_other_statements_do_not_end_it(sql):
    bench = Bench(FakeProxy(), lambda message, transaction: transaction.execute(sql))
    assert bench.work()[1] == sql and bench.told.said == [("succeeded", 7)]


def test_what_ends_the_transaction_on_its_bare_connection_is_noticed_at_its_next_use():
    def handle(message, transaction):
        transaction.connection.cursor().execute("COMMIT", ())
        with pytest.raises(TransactionEnded):
            transaction.execute("INSERT INTO t VALUES (2)")

    bench = Bench(FakeProxy(), handle)
    assert bench.work()[:-1] == ["START TRANSACTION", "COMMIT", "DO 0", "ROLLBACK"]
    assert bench.told.said == [("failed", 7)]


def test_a_batch_is_one_transaction_with_one_ack_for_each_epoch():
    bench = Bench(FakeProxy(ACK=(2, 1)), lambda messages, transaction: None, batches=True)
    sent = bench.work(Message("q", 1, 1), Message("q", 2, 1), Message("q", 3, 2))
    assert sent == [
        "START TRANSACTION", "ACK `q` WHERE id IN (1, 2) AND epoch = 1", "ACK `q` WHERE id = 3 AND epoch = 2", "COMMIT",
    ]  # fmt: skip
    assert bench.told.said == [("succeeded", n) for n in (1, 2, 3)]


def test_single_messages_of_a_batch_settled_otherwise():
    def handle(messages, transaction):
        transaction.nack(messages[0], "no", delay=3)
        transaction.reject(messages[1], "never")

    bench = Bench(FakeProxy(), handle, batches=True)
    sent = bench.work(*(Message("q", n, 1) for n in (1, 2, 3)))
    assert sent == [
        "START TRANSACTION", "NACK `q` WHERE id = 1 AND epoch = 1 DELAY '3000ms' REASON 'no'",
        "REJECT `q` WHERE id = 2 AND epoch = 1 REASON 'never'", "ACK `q` WHERE id = 3 AND epoch = 1", "COMMIT",
    ]  # fmt: skip
    assert bench.told.said == [("failed", 1), ("rejected", 2), ("succeeded", 3)]


def test_a_batch_without_a_transaction_of_which_one_is_lost():
    bench = Bench(FakeProxy(ACK=(1, 1, 0), SELECT=([],)), lambda messages: None, batches=True)
    bench.work(Message("q", 1, 1), Message("q", 2, 1))
    assert bench.told.said == [("succeeded", 1), ("lost", 2)]


def test_a_retry_with_a_delay():
    def handle(message):
        raise Retry("later", delay=0)

    assert Bench(FakeProxy(), handle).work() == ["NACK `q` WHERE id = 7 AND epoch = 1 DELAY '0ms' REASON 'later'"]


class OfStatus(Retry):
    def __init__(self, status):
        self.status = status


class OddlyTimed(Retry):
    def __init__(self, delay):
        super().__init__("again")
        self.delay = delay


class OddlyReleased(Release):
    def __init__(self):
        self.delay = None


@pytest.mark.parametrize(
    ("error", "sent"),
    [
        (OfStatus(429), "REASON '429'"),
        (OddlyTimed("soon"), "REASON \"ValueError: the delay of OddlyTimed is 'soon'; it is 0 to "),
        (OddlyTimed(-1), "REASON 'ValueError: the delay of OddlyTimed is -1; "),
        (OddlyTimed(timedelta(seconds=3)), "REASON 'ValueError: the delay of OddlyTimed is datetime.timedelta(sec"),
        (OddlyTimed(float("nan")), "REASON 'ValueError: the delay of OddlyTimed is nan; "),
        (OddlyReleased(), "REASON 'ValueError: the delay of OddlyReleased is None; "),
    ],
)  # fmt: skip
def test_a_delay_that_cannot_be_fails_the_message_and_not_the_worker(error, sent):
    def handle(message):
        raise error

    bench = Bench(FakeProxy(), handle)
    assert bench.work()[0].startswith("NACK `q` WHERE id = 7 AND epoch = 1 " + sent)
    assert bench.told.said == [("failed", 7)] and bench.ended == []


def test_a_hook_that_fails_changes_nothing():
    bench = Bench(FakeProxy(), insert)
    bench.told = None

    class Broken(Hooks):
        def handling(self, messages):
            raise ValueError("hook")

        def succeeded(self, message, seconds):
            raise ValueError("hook")

    handler = handler_of(insert, batches=False)
    bench.slot._hooks, bench.slot._call = Broken(), InThread(handler, Broken())
    assert bench.work()[-1] == "COMMIT"


def test_a_process_passes_every_hook_on_and_reports_its_state():
    calls, states = [], []
    hooks, parent = Hooks(), SimpleNamespace(state=lambda queue, state: states.append(state))
    names = [name for name in vars(Hooks) if not name.startswith("_")]
    for name in names:
        setattr(hooks, name, lambda *given, name=name: calls.append((name, *given)))
    reporting = StateHooks(parent, "q", hooks)
    wanted = [(name, *range(len(inspect.signature(getattr(Hooks, name)).parameters) - 1)) for name in names]
    for name, *given in wanted:
        getattr(reporting, name)(*given)
    assert calls == wanted and states == [CONNECTING, RECEIVING, CONNECTING]


class RaisesAtItsEnd(Hooks):
    @contextmanager
    def handling(self, messages):
        yield
        raise RuntimeError("the exporter is away")


class RaisesAnother(Hooks):
    @contextmanager
    def handling(self, messages):
        try:
            yield
        finally:
            raise RuntimeError("the exporter is away")


class Swallows(Hooks):
    @contextmanager
    def handling(self, messages):
        with suppress(Exception):
            yield


@pytest.mark.parametrize("hooks", [RaisesAtItsEnd, RaisesAnother, Swallows])
def test_the_end_of_a_hooks_context_changes_nothing(hooks):
    def handle(message, transaction):
        transaction.execute("INSERT INTO t VALUES (1)")
        if message.id == 8:
            raise ValueError("no")

    bench = Bench(FakeProxy(), handle)
    bench.slot._call = InThread(handler_of(handle, batches=False), hooks())
    bench.slot.work([Message("q", 8, 1)])
    assert bench.work()[-1] == "COMMIT" and bench.told.said == [("failed", 8), ("succeeded", 7)]
    assert "NACK `q` WHERE id = 8 AND epoch = 1 REASON 'ValueError: no'" in bench.proxy.sent


class Beating:
    """A heartbeat with a clock of the test's own; leases of 30 s."""

    def __init__(self, **answers):
        self.now, self.in_flight, self.proxy = 0.0, InFlight(), FakeProxy(**answers)
        connection = Connection(self.proxy.connect, 9)
        self.heartbeat = Heartbeat(connection, STATEMENTS, self.in_flight, 30.0, lambda: self.now)

    def at(self, now, **options):
        self.now = now
        self.proxy.sent.clear()
        self.heartbeat.beat(**options)
        return self.proxy.sent


def test_leases_are_renewed_when_they_are_a_third_old():
    beating = Beating()
    beating.in_flight.add([Message("q", 1, 1)])
    assert beating.at(9.9) == []
    assert beating.at(10.1) == ["RENEW `q` WHERE id = 1 AND epoch = 1 FOR '30000ms'"]
    assert beating.at(20.0) == []
    assert len(beating.at(20.2)) == 1
    assert len(beating.at(20.3, at_once=True)) == 1


def test_what_cannot_be_renewed_is_lost_and_who_watches_is_told():
    beating = Beating(RENEW=(1, 1, 0))
    kept, gone = Message("q", 1, 1), Message("q", 2, 1)
    seen = []
    gone.lease.watch(lambda: seen.append("gone"))
    kept.lease.watch(lambda: seen.append("kept"))
    beating.in_flight.add([kept, gone])
    assert len(beating.at(11)) == 3  # both at once, then one by one
    assert seen == ["gone"] and gone.lost and not kept.lost
    assert beating.at(60) == ["RENEW `q` WHERE id = 1 AND epoch = 1 FOR '30000ms'"]
    late = []
    gone.lease.watch(lambda: late.append(1))
    assert late == [1]


def test_a_message_whose_row_the_handler_has_locked_holds_up_no_renewal():
    beating = Beating()
    acked, other = Message("q", 1, 1), Message("q", 2, 1)
    beating.in_flight.add([acked, other])
    acked.lease.settling = True
    assert beating.at(11) == ["RENEW `q` WHERE id = 2 AND epoch = 1 FOR '30000ms'"]


def test_a_failed_renewal_is_tried_at_the_next_beat():
    beating = Beating(RENEW=(GONE, 1))
    beating.in_flight.add([Message("q", 1, 1)])
    assert len(beating.at(11)) == 1
    assert len(beating.at(16)) == 1
    assert beating.at(17) == []


def test_a_heartbeat_that_cannot_go_on_ends_the_worker():
    """The leases of what is being handled would run out unseen."""
    proxy, ended = FakeProxy(), threading.Event()
    proxy.answer("SELECT *", [{"id": 1, "n": 1}])
    proxy.answer("SELECT lease_token", pymysql.err.OperationalError(1054, "Unknown column"))
    proxy.answer("SELECT `id`", rows(1), [])

    def connect(_seconds):
        if threading.current_thread().name == "queuegate-heartbeat":
            raise RuntimeError("'cryptography' package is required")
        return proxy.connect()

    handler = handler_of(lambda message: ended.wait(60), batches=False)
    run = Run(Plan("here", connect, replace(STATEMENTS, ack_wait=0.1), handler, Hooks(), 1, 1, 0.0))
    run.start()
    with pytest.raises(WorkerError, match=r"a defect of the worker: .*cryptography"):
        run.join()
    ended.set()


def test_a_stop_says_what_it_waits_for():
    said, logged = [], threading.Event()

    class Records(logging.Handler):
        def emit(self, record):
            if record.getMessage().startswith("stopping"):
                said.append(record.getMessage())
                logged.set()

    def handle(message):
        run.stop()
        assert logged.wait(60)

    proxy, records, logger = FakeProxy(), Records(), logging.getLogger("queuegate_worker")
    proxy.answer("SELECT *", [{"id": 1, "n": 1}])
    proxy.answer("SELECT lease_token", pymysql.err.OperationalError(1054, "Unknown column"))
    proxy.answer("SELECT `id`", rows(1), [])
    plan = Plan(
        "here", proxy.connect, replace(STATEMENTS, ack_wait=30), handler_of(handle, batches=False), Hooks(), 1, 1, 9.0
    )
    run = Run(plan)
    logger.addHandler(records)
    logger.setLevel("INFO")
    try:
        run.start()
        run.join()
    finally:
        logger.removeHandler(records)
        logger.setLevel("NOTSET")
    assert said == ["stopping: running handlers (q: 1) have up to 9 s; a second signal ends the process at once"]


def test_draining_waits_for_the_acks():
    slots = FreeSlots(1)
    slots.defer()
    assert not slots.idle and not slots.wait_idle(0)
    waited = threading.Thread(target=slots.wait_progress, args=(1, 60))
    waited.start()
    slots.settled(1)
    waited.join(20)
    assert not waited.is_alive() and slots.idle


@pytest.mark.parametrize("ends_before", [True, False])
def test_an_abandoned_handler_does_not_stand_for_another_that_runs(ends_before):
    slots, over, other = FreeSlots(2), [Message("q", 1, 1)], [Message("q", 1, 1)]
    slots.acquire(over)
    slots.acquire(other)
    for step in (slots.release, lambda batch: slots.abandon(batch[0]))[:: 1 if ends_before else -1]:
        step(over)
    assert not slots.idle and not slots.wait_idle(0)
    slots.release(other)
    assert slots.idle


def test_acks_that_wait_go_together():
    proxy = FakeProxy(ACK=(2,))
    bench = Bench(proxy, lambda message: None)
    for number in (1, 2):
        bench.slot.work([Message("q", number, 1)])
    assert proxy.sent == []
    bench.acker.end()
    bench.acker.run()
    assert proxy.sent == ["START TRANSACTION", "ACK `q` WHERE id IN (1, 2) AND epoch = 1", "COMMIT"]
    assert bench.told.said == [("succeeded", 1), ("succeeded", 2)] and bench.slots.idle


def test_of_acks_that_wait_one_is_lost():
    proxy = FakeProxy(ACK=(1, 0, 1), SELECT=([],))
    bench = Bench(proxy, lambda message: None)
    for number in (1, 2):
        bench.slot.work([Message("q", number, 1)])
    bench.acker.end()
    bench.acker.run()
    assert "ROLLBACK" in proxy.sent and bench.told.said == [("lost", 1), ("succeeded", 2)]


def test_acks_that_cannot_be_sent_leave_their_messages_to_their_leases():
    bench = Bench(FakeProxy(START=GONE, ACK=GONE), lambda message: None)
    for number in (1, 2):
        bench.slot.work([Message("q", number, 1)])
    bench.acker.end()
    bench.acker.run()
    assert bench.told.said == [] and bench.ended == [] and bench.slots.idle


def test_a_transaction_that_is_not_used_costs_no_statement():
    bench = Bench(FakeProxy(), lambda message, transaction: None)
    assert bench.work() == ["ACK `q` WHERE id = 7 AND epoch = 1"]
    assert bench.told.said == [("succeeded", 7)]


def test_a_handler_that_goes_on_without_its_transaction_is_not_acked():
    """It could not be begun, and the handler swallowed that."""

    def handle(message, transaction):
        with pytest.raises(Exception, match=r"^$"):
            transaction.execute("INSERT INTO t VALUES (1)")

    bench = Bench(FakeProxy(START=(*[GONE] * 9, 1)), handle)
    bench.work()
    assert not any(sql.startswith("ACK") for sql in bench.proxy.sent) and bench.told.said == [("failed", 7)]
