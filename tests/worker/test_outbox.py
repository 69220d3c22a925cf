"""The outbox of the testing tools: what it collects, what it says where a test fails, and its clock."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from queuegate_worker import Queue, Reject, Release, Retry, WorkerError, task
from queuegate_worker.tasks import task as task_module
from queuegate_worker.testing import Outbox


@pytest.fixture(autouse=True)
def no_tasks(monkeypatch):
    """Tasks of one test are not those of another."""
    monkeypatch.setattr(task_module, "_tasks", {})


@pytest.fixture
def outbox():
    with Outbox(datetime(2026, 1, 1, 12, 0, tzinfo=UTC)) as entered:
        yield entered


ORDERS = Queue("orders")


class FakeConnection:
    """What an application has for its own tests; nothing runs on it."""

    def cursor(self):
        raise AssertionError


def test_messages_go_into_the_outbox_and_nowhere_else(outbox):
    number = ORDERS.send(customer=7, lines=[1], connection=FakeConnection())
    assert number == 1 and ORDERS.send_many([{"customer": 8}, {"customer": 9}]) == 2
    sent = outbox.assert_enqueued(ORDERS, columns={"customer": 7, "lines": [1]}, count=1)
    assert sent.columns["lines"] == "[1]" and len(outbox.sent("orders")) == 3
    with pytest.raises(AssertionError, match=r"no message of orders with .*'customer': 1.*; sent was:\n  orders: .*7"):
        outbox.assert_enqueued("orders", columns={"customer": 1})
    with pytest.raises(AssertionError, match="3 messages, not 2, of orders"):
        outbox.assert_enqueued("orders", count=2)
    with pytest.raises(AssertionError, match="messages were sent"):
        outbox.assert_nothing_enqueued()
    outbox.assert_nothing_enqueued("others")


async def test_asynchronous_sends_as_well(outbox):
    await ORDERS.send_async(customer=7, connection=FakeConnection())
    outbox.assert_enqueued("orders", columns={"customer": 7})
    with pytest.raises(WorkerError, match="give a connection"):
        await ORDERS.send_async(customer=7)


def test_what_the_database_transport_refuses_the_outbox_refuses(outbox):
    for send, problem in (
        (lambda: ORDERS.send_many([{"a": 1}, {"b": 2}]), "same columns"),
        (lambda: ORDERS.send({"50%": 1}), "percent"),
        (lambda: Queue("a%b").send(a=1), "percent"),
        (lambda: ORDERS.send(a=1, connection=7), "no connection"),
        (lambda: ORDERS.send(body="x" * 400_000, delay=1), "at most about"),
    ):
        with pytest.raises(WorkerError, match=problem):
            send()
    outbox.assert_nothing_enqueued()


def test_tasks_run_when_they_are_due(outbox):
    greeted = []

    @task
    def welcome(customer, colour="red"):
        greeted.append((customer, colour))
        if customer == 7:
            welcome.using(delay=60).send(8)

    welcome.send(7)
    outbox.assert_enqueued(welcome, args=(7,))
    with pytest.raises(WorkerError, match="arguments"):
        outbox.assert_enqueued(welcome)
    assert outbox.drain() == 1 and greeted == [(7, "red")]
    outbox.assert_enqueued(welcome, args=(8,), delay=60, count=1)
    with pytest.raises(AssertionError, match="due 30 s later"):
        outbox.assert_enqueued(welcome, args=(8,), delay=30)
    outbox.advance(59.9)
    assert outbox.drain() == 0
    outbox.advance(0.1)
    assert outbox.drain() == 1 and greeted[1:] == [(8, "red")]


def test_failures_are_raised_or_tried_again(outbox):
    attempts = []

    @task(max_attempts=3)
    def fails(kind):
        attempts.append(kind)
        raise {"error": ValueError("no"), "reject": Reject("bad"), "retry": Retry("later", delay=9)}[kind]

    fails.send("error")
    with pytest.raises(ValueError, match="no"):
        outbox.drain()
    for seconds in (1, 2):
        assert outbox.drain(raises=False) == 0
        outbox.advance(seconds)
        assert outbox.drain(raises=False) == 1
    (message,) = outbox.sent(fails)
    assert (message.state, message.attempts, message.error) == ("dead", 3, "ValueError: no")
    fails.send("reject")
    assert outbox.drain(raises=False) == 1 and outbox.sent(fails)[1].state == "dead"
    fails.send("retry")
    outbox.drain(raises=False)
    outbox.advance(8)
    assert outbox.drain(raises=False) == 0
    outbox.advance(1)
    assert outbox.drain(raises=False) == 1


def test_a_task_has_the_attempts_of_its_queue(outbox):
    @task(max_attempts=8)
    def fails():
        raise ValueError

    @task
    def fails_too():
        raise ValueError

    fails.send()
    fails_too.send()
    for _ in range(10):
        outbox.drain(raises=False)
        outbox.advance(3600)
    assert [(each.attempts, each.state) for each in outbox.messages] == [(8, "dead"), (8, "dead")]


def test_columns_of_a_queue_that_are_named_as_those_of_tasks(outbox):
    ORDERS.send(task="paint", once="k", priority=None)
    ORDERS.send(task="paint", once="k", priority="high")
    assert outbox.drain() == 0 and outbox.drain({"orders": lambda message: None}) == 2


async def test_coroutines_run_also_while_a_loop_runs(outbox):
    seen = []

    @task
    async def show(word):
        seen.append(word)

    show.send("a")
    assert outbox.drain() == 1 and seen == ["a"]


def test_a_coroutine_is_no_handler_of_a_queue_here(outbox):
    async def book(message):
        """Books."""

    with pytest.raises(WorkerError, match="await the handler"):
        outbox.drain({"orders": book}, raises=False)


async def test_a_coroutine_below_an_ordinary_decorator_runs(outbox):
    ran = []

    async def book(message):
        ran.append(message.id)

    ORDERS.send(customer=7)
    assert outbox.drain({"orders": lambda message: book(message)}) == 1 and ran == [1]


def test_a_message_that_is_released_for_later_is_due_then(outbox):
    def book(message):
        raise Release("busy", delay=60)

    ORDERS.send(customer=7)
    for attempts in (1, 0):
        assert outbox.drain({"orders": book}, raises=False) == attempts
    outbox.advance(60)
    assert outbox.drain({"orders": book}, raises=False) == 1 and outbox.messages[0].attempts == 0


def test_handlers_of_queues_get_messages_and_a_transaction(outbox):
    def book(message, transaction):
        if message.customer == 8:
            raise Release
        transaction.execute("INSERT INTO invoices VALUES (%s)", (message.customer,))

    ORDERS.send(customer=7)
    assert outbox.drain() == 0
    assert outbox.drain({"orders": book}) == 1
    assert outbox.statements.executed == [("INSERT INTO invoices VALUES (%s)", (7,))]
    assert outbox.sent("orders")[0].state == "acked"
    ORDERS.send(customer=8)
    with pytest.raises(Release):
        outbox.drain({"orders": book})
    assert outbox.sent("orders")[1].attempts == 0

    def reads(message, transaction):
        transaction.rows("SELECT 1")

    with pytest.raises(WorkerError, match=r"no database.*queuegate_server"):
        outbox.drain({"orders": reads})


def test_priority_comes_before_time(outbox):
    seen = []

    @task
    def show(word):
        seen.append(word)

    show.send("second")
    show.using(priority=1).send("first")
    outbox.drain()
    assert seen == ["first", "second"]


def test_a_unique_task_waits_once(outbox):
    @task(unique=True)
    def refresh(customer):
        """Refreshes."""

    assert refresh.send(7) == 1 and refresh.send(7) is None and refresh.send(8) == 2
    outbox.drain()
    assert refresh.send(7) == 3
    with pytest.raises(WorkerError, match="one by one"):
        refresh.using().send_many([(1,)])


def test_many_calls_at_once(outbox):
    @task
    def show(word, times=1):
        """Shows."""

    assert show.using().send_many([("a",), {"word": "b", "times": 2}]) == 2
    outbox.assert_enqueued(show, kwargs={"word": "b", "times": 2})
    assert show.send_many([("c",)]) == 1 and show.send_many([]) == 0
    outbox.assert_enqueued(show, args=("c",), count=1)


def test_periodic_tasks_are_enqueued_by_the_clock(outbox):
    @task(every="15m", name="poll")
    def poll():
        """Polls."""

    @task(cron="30 14 * * *", time_zone="Europe/Berlin", name="report")
    def report():
        """Reports, at 13:30 UTC in January."""

    outbox.advance(3600)
    assert [each.sent.minute for each in outbox.sent(poll)] == [15, 30, 45, 0]
    outbox.assert_nothing_enqueued(report)
    outbox.advance(3600)
    assert [each.sent.isoformat() for each in outbox.sent(report)] == ["2026-01-01T13:30:00+00:00"]
    assert outbox.now == datetime(2026, 1, 1, 14, 0, tzinfo=UTC)
    with pytest.raises(WorkerError, match="does not go back"):
        outbox.advance(-1)


def test_a_handler_that_sends_without_end_is_noticed(outbox, monkeypatch):
    monkeypatch.setattr("queuegate_worker.testing.outbox._DRAIN_MAX", 20)

    @task
    def again():
        again.send()

    again.send()
    with pytest.raises(AssertionError, match="without end"):
        outbox.drain()


def test_a_clock_needs_a_time_zone():
    with pytest.raises(WorkerError, match="time zone"):
        Outbox(datetime(2026, 1, 1))
