"""Tasks without a server: the decorator, arguments, what a message calls, statements, and time limits."""

from __future__ import annotations

import asyncio
import enum
import functools
import inspect
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import ModuleType, SimpleNamespace
from uuid import UUID

import pydantic
import pytest
from servers import ROOT, wait_until

from queuegate_worker import Message, Reject, Release, Retry, TaskContext, WorkerError, task
from queuegate_worker.outcomes import Released, outcome_of
from queuegate_worker.processes.supervisor import Supervisor, Wanted
from queuegate_worker.tasks import task as task_module
from queuegate_worker.tasks.arguments import Call, as_text, from_text
from queuegate_worker.tasks.handler import TaskHandler, TimeLimitExceeded, UnknownTask
from queuegate_worker.tasks.layout import create_queue, results_table, schedule, schedule_name, statements, store_result
from queuegate_worker.tasks.task import tasks_in
from queuegate_worker.tasks.time_limits import TimeLimits
from queuegate_worker.tasks.work import queues_of
from queuegate_worker.testing.outbox import Statements


@pytest.fixture(autouse=True)
def no_tasks(monkeypatch):
    """Tasks of one test are not those of another."""
    monkeypatch.setattr(task_module, "_tasks", {})


class NoLimits:
    def watch(self, *_):
        return nullcontext()


def handled(*tasks, args="{}", name=None, epoch=1):
    handler = TaskHandler({each.name: each for each in tasks}, NoLimits())
    message = Message("tasks", 7, epoch, {"task": name or tasks[0].name, "args": args})
    transaction = Statements()
    handler(message, transaction)
    return transaction.executed


def call(*args, **kwargs):
    return as_text(Call(args, kwargs))


TYPED = """
from queuegate_worker import TaskContext, task
from queuegate_worker.testing import Outbox

@task(takes_context=True)
def book(context: TaskContext, order: int) -> int:
    return order

@task(queue="mails")
async def welcome(customer: int, colour: str = "red") -> None: ...

with Outbox() as outbox:
    book.send(7)
    book.using(delay=5).send(order=7)
    welcome.send(7, colour="blue")
    outbox.assert_enqueued(book, args=(7,))
book.send("x")
"""


def test_a_task_is_still_a_function():
    @task
    def add(a, b=2):
        return a + b

    assert add(1) == 3 and add.queue == "tasks" and add.name == f"{__name__}.{add.function.__qualname__}"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"timeout": 0}, "timeout"), ({"timeout": "30s"}, "timeout"), ({"timeout": True}, "timeout"),
        ({"max_attempts": 0}, "max_attempts"), ({"max_attempts": 2.5}, "max_attempts"), ({"queue": "a.b.c"}, "no name"),
        ({"unique": "order"}, "no argument 'order'"), ({"cron": "* * * * *", "every": "1m"}, "cron or every"),
        ({"time_zone": "Europe/Berlin"}, "cron or every"), ({"every": "1m", "time_zone": "UTC"}, "no time zone"),
        ({"name": "x" * 256}, "255"), ({"retries": 3}, "no option 'retries'"), ({"keep_result": -1}, "keep_result"),
    ],
)  # fmt: skip
def test_options_that_are_refused(options, problem):
    with pytest.raises(WorkerError, match=problem):
        task(**options)(lambda: None)


def test_a_periodic_task_has_no_arguments():
    with pytest.raises(WorkerError, match="arguments"):

        @task(every="1m")
        def report(day):
            """Needs a day."""


def test_two_tasks_of_one_name_are_refused(tmp_path):
    task(name="mail")(lambda: None)
    task(name="mail")(lambda: None)  # the module was loaded again
    names = {}
    exec(compile("def other(): pass", str(tmp_path / "other.py"), "exec"), names)
    with pytest.raises(WorkerError, match="two tasks of the name mail"):
        task(name="mail")(names["other"])


def bare(function):
    """A decorator as it is often written, without functools.wraps."""

    def around(*args):
        return function(*args)

    return around


def test_two_functions_of_one_module_with_one_name_are_refused():
    def charge(customer):
        """Takes money."""

    def refund(customer):
        """Gives it back."""

    task(name="mail")(charge)
    task(name="mail")(charge)
    task(name="wrapped")(ordinary(charge))
    task(name="wrapped")(ordinary(charge))
    for name in ("mail", "wrapped"):
        with pytest.raises(WorkerError, match=f"two tasks of the name {name}"):
            task(name=name)(ordinary(refund))
    task(bare(bare(charge)))
    with pytest.raises(WorkerError, match=r"two tasks of the name .*bare.*around: .*functools\.wraps"):
        task(bare(bare(refund)))


def test_two_functions_of_one_loop_are_refused_and_those_of_a_function_that_runs_again_are_not():
    def new():
        @task
        def mail():
            """Sends it."""

    new()
    new()  # as an application that is made for each test
    names = {"task": task, "__name__": "jobs"}
    program = "for shop in (1, 2):\n  @task\n  def poll(): pass\n"
    with pytest.raises(WorkerError, match=r"two tasks of the name jobs\.poll"):
        exec(program, names)
    task_module._tasks.clear()
    for _ in range(2):
        exec(compile("@task\ndef poll(): pass\n", "jobs.py", "exec"), names)


def test_two_tasks_of_one_function_that_makes_them_are_refused():
    def new(word, **options):
        @task(**options)
        def pay():
            return word

        return pay

    charge = new("charge")
    for word, options in (
        ("refund", {}),
        ("charge", {"queue": "b"}),
        ("charge", {"takes_context": False, "timeout": 1}),
    ):
        with pytest.raises(WorkerError, match=r"two tasks of the name .*new\.<locals>\.pay"):
            new(word, **options)
    assert task_module.tasks() == {charge.name: charge}
    assert new("charge").name == charge.name and new("refund", name="refund").name == "refund"
    del charge
    assert new("refund", queue="b")() == "refund"  # an application of another test


TWINS = """
import functools
from textwrap import dedent
from queuegate_worker import task
def audited(level):
    def decorator(function):
        @functools.wraps(function)
        def around(*args):
            return function(level)
        return around
    return decorator
def report(day): ...
def partly(day):
    return functools.update_wrapper(functools.partial(report, day), report)
def new(word, **options):
    @task(**options)
    def pay(customer=0, word=word):
        return word
    return pay
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("fast = task(queue='fast')(audited('fast')(report))", "slow = task(queue='slow')(audited('slow')(report))"),
        ("fast = task(audited('fast')(report))", "slow = task(audited('slow')(report))"),
        ("fast = task(partly(1))", "slow = task(partly(2))"),
        ("fast = task(queue='fast')(lambda: 1)", "slow = task(queue='slow')(lambda: 1)"),
        ("@task\ndef poll(): return 1", "@task\ndef poll(): return 2"),
        ("charge = new('charge')", "refund = new('refund')"),
        ("fast = task(name='s', queue='fast')(dedent)", "slow = task(name='s', queue='slow')(dedent)"),
    ],
)
def test_two_tasks_of_one_module_are_refused_and_a_module_that_is_loaded_again_has_its_new_ones(first, second):
    def load(*lines):
        exec(compile("\n".join((TWINS, *lines)), "twins.py", "exec"), names)

    names = {"__name__": "twins"}
    with pytest.raises(WorkerError, match="two tasks of the name"):
        load(first, second)
    load(second)
    load(first)
    assert len(task_module.tasks()) == 1


def test_one_function_is_no_two_tasks():
    slow = task(name="slow")(handled)
    with pytest.raises(WorkerError, match="two tasks of the name slow"):
        task(name="slow", queue="fast")(handled)
    assert task(name="slow")(handled) == slow


def test_a_decorator_of_the_program_that_makes_tasks():
    names = {"task": task, "__name__": "helpers"}
    exec("def job(function): return task(queue='jobs')(function)\n", names)

    @names["job"]
    def count(customer):
        pass

    assert count.queue == "jobs" and count.name == f"{__name__}.{count.function.__qualname__}"


def test_a_decorator_that_takes_arguments_by_name():
    def by_name(function):
        @functools.wraps(function)
        def around(**kwargs):
            return function(**kwargs)

        return around

    seen = []

    @task(unique=("order",))
    @by_name
    def book(order: int, day: date | None = None):
        seen.append((order, day))

    handled(book, args=call(order=7, day=date(2026, 5, 1)))
    assert seen == [(7, date(2026, 5, 1))]
    with pytest.raises(WorkerError, match="positional"):
        book.send(7)
    with pytest.raises(WorkerError, match="by name alone"):
        task(takes_context=True)(by_name(lambda context, order: order))


def test_a_default_name_is_that_of_the_function_and_not_of_a_decorator_in_another_module():
    names = {"__name__": "helpers"}
    exec("def logged(function):\n  def around(*args): return function(*args)\n  return around\n", names)
    with pytest.raises(WorkerError, match=r"helpers\.logged\.<locals>\.around .*functools\.wraps.*name="):
        task(names["logged"](lambda customer: None))
    with pytest.raises(WorkerError, match=r"functools\.wraps"):
        task(queue="mails")(names["logged"](lambda customer: None))
    assert task(name="charge")(names["logged"](lambda customer: None)).name == "charge"


def test_a_decorator_that_fills_an_argument_of_its_own():
    seen = []

    def with_session(function):
        @functools.wraps(function)
        def around(customer):
            return function(customer, "session")

        return around

    @task
    @ordinary
    @with_session
    def welcome(customer: int, session):
        seen.append((customer, session))

    with pytest.raises(WorkerError, match="arguments"):
        welcome.parameters.checked(Call((7, "x"), {}))
    with pytest.raises(WorkerError, match="do not fit"):
        welcome.parameters.checked(Call(("seven",), {}))
    handled(welcome, args=as_text(welcome.parameters.checked(Call((7,), {}))))
    assert seen == [(7, "session")]


@pytest.mark.parametrize("command", [["jobs.py"], ["-m", "jobs"]])
def test_a_task_of_the_program_itself_has_the_name_that_workers_know(tmp_path, command):
    (tmp_path / "jobs.py").write_text("from queuegate_worker import task\n@task\ndef mail(): pass\nprint(mail.name)\n")
    where = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=where, capture_output=True, text=True, check=True
    )
    assert done.stdout == "jobs.mail\n"


def test_arguments_are_checked_where_they_are_sent():
    @task
    def welcome(customer, *, colour="red"):
        """Greets."""

    for args, kwargs in (((), {}), ((1, 2), {}), ((1,), {"size": 3})):
        with pytest.raises(WorkerError, match=r"the task's arguments are \(customer, \*, colour='red'\)"):
            welcome.send(*args, **kwargs)
    with pytest.raises(WorkerError, match="JSON"):
        welcome.send(object())
    with pytest.raises(WorkerError, match="priority"):
        welcome.using(priority=101)
    with pytest.raises(WorkerError, match="not both"):
        welcome.using(delay=1, at=timedelta(1))  # type: ignore[arg-type]


@dataclass
class Order:
    customer: int
    amounts: list[int]


def test_arguments_get_the_types_of_their_annotations():
    seen = []

    @task
    def book(order: Order, days: list[timedelta], note: str, plain: dict):
        seen.append((order, days, note, plain))

    handled(book, args=call(Order(7, [1, 2]), [60, 120], note="x", plain={"a": 1}))
    assert seen == [(Order(7, [1, 2]), [timedelta(minutes=1), timedelta(minutes=2)], "x", {"a": 1})]
    for wrong in (call({"customer": "s3cret", "amounts": []}, [], "x", {}), call(1, 2), call()):
        with pytest.raises(Reject, match="do not fit") as rejected:
            handled(book, args=wrong)
        assert "s3cret" not in str(rejected.value)


class Colour(enum.Enum):
    RED = "red"


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    day: date
    amount: Decimal = pydantic.Field(alias="theAmount")


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (datetime, datetime(2026, 1, 2, 3, tzinfo=UTC)), (date, date(2026, 1, 2)), (Decimal, Decimal("1.50")),
        (UUID, UUID(int=7)), (Colour, Colour.RED), (date | None, date(2026, 1, 2)), (timedelta, timedelta(minutes=1)),
        (set[date], {date(2026, 1, 2)}), (dict[int, date], {7: date(2026, 1, 2)}), ("date", date(2026, 1, 2)),
        (Strict, Strict(day=date(2026, 1, 2), theAmount=Decimal("1.50"))), ("Later", {"a": 1}), (None, "x"), (str, "7"),
        (list[Strict], [Strict(day=date(2026, 1, 2), theAmount=Decimal(1))]), (inspect.Parameter.empty, [1]),
    ],
)  # fmt: skip
def test_an_argument_arrives_as_it_was_sent(hint, value):
    seen = []

    def function(one, *more, none=None, **others):
        seen.append((one, more, none, others))

    function.__annotations__ = dict.fromkeys(("one", "more", "none", "others"), hint)
    made = task(name="arrives")(function)
    if hint is None:
        with pytest.raises(WorkerError, match=r"do not fit the task: one: Input should be null"):
            made.parameters.checked(Call((value,), {}))
        return
    arguments = Call((value, value), {"none": value, "other": value})
    handled(made, args=as_text(made.parameters.checked(arguments)))
    handled(made, args=as_text(made.parameters.checked(Call((value,), {"none": None}))))
    assert seen == [(value, (value,), value, {"other": value}), (value, (), None, {})]


@pytest.mark.long
def test_a_type_checker_knows_that_the_worker_gives_the_context(tmp_path):
    program = tmp_path / "books.py"
    program.write_text(TYPED)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(program)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    wrong = TYPED.splitlines().index('book.send("x")') + 1
    assert re.findall(r"books\.py:(\d+): error: .*\[(.*)\]", done.stdout) == [(str(wrong), "arg-type")], done.stdout


def test_a_task_with_its_context_is_called_here_with_one():
    book = task(takes_context=True, name="book")(lambda context, order: (context.attempt, order))
    context = TaskContext(Message("q", 1, 2), Statements())
    assert book(context, 9) == book(context=context, order=9) == book(order=9, context=context) == (2, 9)


def test_aliases_are_read_too():
    seen = []

    @task
    def book(order: Strict, context: "Missing"):  # noqa: F821, UP037 - a name for a type checker
        seen.append(order)

    handled(book, args=call({"day": "2026-01-02", "theAmount": "1"}, 7))
    assert seen == [Strict(day=date(2026, 1, 2), theAmount=Decimal(1))]


def test_arguments_of_another_type_are_refused_where_they_are_sent():
    @task
    def count(number: int, days: list[date] = ()):  # type: ignore[assignment]
        """Counts."""

    for args in (("seven",), (None,), (7, ["s3cret"])):
        with pytest.raises(WorkerError, match=r"do not fit the task: (number|days\.0): Input should be") as refused:
            count.send(*args)
        assert "s3cret" not in str(refused.value)
        with pytest.raises(Reject, match="do not fit the task"):
            handled(count, args=call(*args))


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", "7", '{"args": {}, "kwargs": {}}', '{"args": []}', "[" * 100_000]
)
def test_arguments_that_are_not_json_become_a_dead_letter(text):
    with pytest.raises(Reject):
        from_text(text)


def test_a_message_of_an_unknown_task_comes_again():
    ours = task(lambda: None)
    with pytest.raises(UnknownTask, match="no task 'other'") as unknown:
        handled(ours, name="other", epoch=9)
    assert outcome_of(unknown.value) == Released(15)  # so that other workers have time, and no attempt is used up
    with pytest.raises(Reject, match="columns task and args"):
        TaskHandler({}, NoLimits())(Message("q", 1, 1, {"payload": "x"}), Statements())


def test_after_its_last_attempt_a_task_is_a_dead_letter(caplog):
    @task(max_attempts=2)
    def fails():
        raise ValueError("no")

    @task(max_attempts=1)
    def waits():
        raise Retry("later", delay=5)

    @task(max_attempts=1)
    def gives_back():
        raise Release

    @task(max_attempts=1)
    def exits():
        sys.exit("enough")

    @task(max_attempts=1)
    async def cancels():
        raise asyncio.CancelledError

    caplog.clear()
    for task_, reason in ((exits, "SystemExit: enough"), (cancels, "CancelledError")):
        with pytest.raises(Reject, match=reason):
            handled(task_, args=call())
    assert [record.exc_info is not None for record in caplog.records] == [True, True]
    with pytest.raises(Reject, match="its process ended during attempt 2"):
        handled(fails, args=call(), epoch=3)

    with pytest.raises(ValueError, match="no"):
        handled(fails, args=call())
    with pytest.raises(Reject, match="ValueError: no"):
        handled(fails, args=call(), epoch=2)
    with pytest.raises(Reject, match="later"):
        handled(waits, args=call())
    with pytest.raises(Release):
        handled(gives_back, args=call())


def test_coroutines_run_and_are_cancelled_at_their_limit():
    seen = []

    @task(takes_context=True)
    async def writes(context, number):
        await asyncio.sleep(0)
        seen.append((context.attempt, await context.transaction.execute("INSERT", (number,))))

    assert handled(writes, args=call(5)) == [("INSERT", (5,))] and seen == [(1, 1)]

    @task(timeout=0.01)
    async def hangs():
        await asyncio.Event().wait()

    @task(timeout=60)
    async def times_out():
        raise TimeoutError("of its own")

    with pytest.raises(TimeLimitExceeded, match=r"over its time limit of 0.01 s"):
        handled(hangs, args=call())
    with pytest.raises(TimeoutError, match="of its own"):
        handled(times_out, args=call())


def ordinary(function):
    @functools.wraps(function)
    def around(*args, **kwargs):
        return function(*args, **kwargs)

    return around


def test_a_coroutine_below_an_ordinary_decorator_runs():
    seen = []

    @task(keep_result=60, timeout=0.01)
    @ordinary
    async def doubles(number):
        seen.append(number)
        await (asyncio.sleep(0) if number else asyncio.Event().wait())
        return 2 * number

    assert handled(doubles, args=call(4))[0][1][2] == "8" and seen == [4]
    with pytest.raises(TimeLimitExceeded):
        handled(doubles, args=call(0))


def test_a_generator_of_which_nothing_would_run_is_refused():
    def generates():
        yield

    async def generates_too():
        yield

    for each in (generates, generates_too):
        with pytest.raises(WorkerError, match="runs nothing of it"):
            task(each)
        with pytest.raises(Reject, match="runs nothing of it"):
            handled(task(ordinary(each)), args=call())


def test_a_result_is_stored_in_the_transaction_of_the_ack():
    @task(keep_result=timedelta(hours=1), name="sum")
    def add(a, b):
        return {"sum": a + b}

    ((sql, values),) = handled(add, args=call(1, 2))
    assert sql.startswith("REPLACE INTO `tasks_results` ") and values == ("7", "sum", '{"sum":3}', 3600)

    task(keep_result=60, queue="other")(lambda: None)
    assert add.using(queue="tasks").queue == "tasks" and add.using(queue="other").queue == "other"
    with pytest.raises(WorkerError, match="no task of the queue mails does"):
        add.using(queue="mails")

    @task(keep_result=60)
    def answers():
        return object()

    with pytest.raises(WorkerError, match="the task's result"):
        handled(answers, args=call())


def test_the_context_comes_first():
    seen = []

    @task(takes_context=True)
    def show(context: TaskContext, word):
        seen.append((context.message.id, word))

    handled(show, args=call("x"))
    assert seen == [(7, "x")]
    with pytest.raises(WorkerError, match="takes no arguments"):
        task(takes_context=True)(lambda: None)


def test_equal_arguments_have_one_key():
    @task(unique=("customer",))
    def refresh(customer, reason="x"):
        """Refreshes."""

    def key(*args, **kwargs):
        return refresh.parameters.key(refresh.name, Call(args, kwargs), refresh.unique)

    assert key(7) == key(customer=7) == key(7, "other") != key(8)
    assert key({"a": 1, "b": 2}) == key({"b": 2, "a": 1})
    assert len(key(7)) == 64


def test_what_the_tasks_need_in_the_database():
    first = task(queue="shop.mails", max_attempts=3)(lambda: None)
    nightly = task(queue="shop.mails", name="nightly", cron="0 2 * * *", time_zone="Europe/Berlin", unique=True)(
        lambda: None
    )
    often = task(name="often", every="15m", keep_result=60)(lambda: None)
    texts = [(sql.split("(")[0].strip(), values[:2]) for sql, values in statements([first, nightly, often])]
    assert texts == [
        ("CREATE QUEUE IF NOT EXISTS `shop`.`mails`", (5,)),
        ("CREATE QUEUE IF NOT EXISTS `tasks`", (5,)),
        ("CREATE TABLE IF NOT EXISTS `tasks_results`", ()),
    ]
    texts = [
        (sql.split("(")[0].strip(), values[:2]) for each in (nightly, often) for sql, values in schedule(each, None)
    ]
    assert texts == [
        (
            "CREATE SCHEDULE IF NOT EXISTS `shop`.`nightly` ON `shop`.`mails` CRON %s TIME ZONE %s",
            ("0 2 * * *", "Europe/Berlin"),
        ),
        ("ALTER SCHEDULE `shop`.`nightly` SET", ("0 2 * * *", "Europe/Berlin")),
        ("CREATE SCHEDULE IF NOT EXISTS `often` ON `tasks` EVERY %s", ("15m", "often")),
        ("ALTER SCHEDULE `often` SET", ("15m",)),
    ]
    assert create_queue("q", 3)[1] == (3,) and results_table("a.`b.c`") == "`a`.`b.c_results`"
    assert store_result(often, "tasks", 1, "{}")[1][-1] == 60
    with pytest.raises(WorkerError, match="64 characters"):
        schedule_name(task(name="x" * 65, every="1m")(lambda: None))
    with pytest.raises(WorkerError, match="64 characters"):
        results_table("x" * 60)


def test_the_tasks_and_queues_of_a_command():
    module = ModuleType("app.tasks")
    here = task(queue="b")(lambda: None)
    module.here = here
    elsewhere = task(name="elsewhere", queue="a")(lambda: None)
    assert tasks_in(module) == {here.name: here}
    assert set(tasks_in(ModuleType("app.empty"))) == {here.name, elsewhere.name}
    both = {each.name: each for each in (here, elsewhere)}
    assert queues_of(None, both) == ["a", "b"] and queues_of(" b , c", both) == ["b", "c"]
    for option in ("a,,b", "a,a", " "):
        with pytest.raises(WorkerError, match="--queue"):
            queues_of(option, both)
    task_module._tasks.clear()
    with pytest.raises(WorkerError, match=r"app\.empty has no tasks"):
        tasks_in(ModuleType("app.empty"))


class Clock:
    """A clock that stands still until it is moved, and wakes who waits for it."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_time_limits_end_what_is_over_and_nothing_else():
    clock, over, published = Clock(), [], []
    ended = threading.Event()

    def overrun(attempt):
        over.append(attempt.message.id)
        ended.set()

    limits = TimeLimits(overrun, published.append, clock)
    short, long, free = (
        SimpleNamespace(name=n, timeout=t) for n, t in (("short", 0.0), ("long", 50.0), ("free", None))
    )
    with limits.watch(long, Message("q", 1, 1), None, 0.0), limits.watch(free, Message("q", 2, 1), None, 0.0):
        assert published == [150.0]
        with limits.watch(short, Message("q", 3, 1), None, 0.0):
            assert ended.wait(30)
        assert over == [3] and published[-1] == 150.0
    assert published[-1] is None


IGNORES_SIGTERM = """\
import pathlib, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).touch()
signal.pause()
"""


@pytest.mark.parametrize(("program", "exit_code"), [(IGNORES_SIGTERM, 1), (IGNORES_SIGTERM.replace("IGN", "DFL"), 0)])
def test_a_process_that_has_to_be_killed_at_the_end_is_an_exit_code(tmp_path, program, exit_code):
    """Its messages go to others, as those of a single process whose handlers do not end."""
    begun, now = tmp_path / "begun", [0.0]
    command = [sys.executable, "-c", program, str(begun)]

    def pause(_seconds):
        wait_until(begun.exists, what="the process")
        if not supervisor._signals:
            supervisor._on_signal(signal.SIGTERM, None)
        now[0] += 10.0

    supervisor = Supervisor(Wanted(command, os.environ, 1, grace=0.0), clock=lambda: now[0], pause=pause)
    assert supervisor.run() == exit_code
