"""An outbox: messages that are sent go into a list, and handlers run in the test, by a clock of the test."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pymysql

from queuegate_worker.errors import Release, WorkerError, reason_of
from queuegate_worker.handlers import Handler, completed, handler_of
from queuegate_worker.message import Message
from queuegate_worker.outcomes import Failed, Rejected, Released, outcome_of
from queuegate_worker.sending import transport
from queuegate_worker.sending.connections import check
from queuegate_worker.sending.queue import Queue
from queuegate_worker.sending.rows import Due, Row, as_value, inserts
from queuegate_worker.tasks.arguments import Call, as_text
from queuegate_worker.tasks.handler import TaskHandler
from queuegate_worker.tasks.layout import ATTEMPTS
from queuegate_worker.tasks.task import AnyTask, Task, tasks

_DRAIN_MAX = 10_000  # handlers in one drain: one that sends itself a message would go on without end
_DUPLICATE = 1062
_BACKOFF_SECONDS = 1.0  # the queue's own default, doubled with each attempt
_BACKOFF_MAX_SECONDS = 3600.0
_DOUBLINGS_MAX = 12  # with which the backoff is at its most
_PRIORITY = 50  # of a message that has none
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(eq=False)
class Sent:
    """A message in the outbox. `due`: when it is delivered. `state`: 'waiting', 'acked' or 'dead', with the `error`."""

    id: int
    queue: str
    columns: Mapping[str, Any]
    due: datetime
    sent: datetime
    attempts: int = 0
    state: str = "waiting"
    error: str | None = None

    def __str__(self) -> str:
        shown = {name: value for name, value in self.columns.items() if value is not None}
        later = "" if self.due <= self.sent else f", due {(self.due - self.sent).total_seconds():g} s after it was sent"
        return f"{self.queue}: {shown}{later}"


@dataclass
class Statements:
    """The transaction of handlers in an outbox: their statements are recorded, and not run."""

    executed: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)

    def execute(self, sql: str, values: Sequence[Any] | None = None) -> int:
        """Record a statement; 1, as if it had changed one row."""
        self.executed.append((sql, tuple(values or ())))
        return 1

    def rows(self, sql: str, values: Sequence[Any] | None = None) -> list[dict[str, Any]]:
        """There are no rows without a database."""
        raise WorkerError("the outbox has no database: give drain a transaction, or use the fixture queuegate_server")


class Outbox:
    """While it is entered, all messages of this process go into it: of `Queue.send` and of tasks, whatever their
    connection, which is not used. It refuses what the database transport does. A rollback does not take them out.

        with Outbox() as outbox:
            place_order(7)
            outbox.assert_enqueued(welcome, args=(7,))
            outbox.drain()

    `now`: what the clock of the outbox shows; it moves by `advance` alone.
    """

    def __init__(self, now: datetime | None = None) -> None:
        self.now = datetime.now(UTC) if now is None else now
        if self.now.utcoffset() is None:
            raise WorkerError("now has no time zone; use datetime(..., tzinfo=UTC)")
        self.messages: list[Sent] = []
        self.statements = Statements()
        self._ids = itertools.count(1)
        self._entered = ExitStack()

    def __enter__(self) -> Outbox:
        self._entered.enter_context(transport.replaced_by(self))
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.close()

    def send(self, queue: str, rows: Sequence[Row], due: Due, connection: Any) -> list[int | None]:
        """Called by Queue and Task in place of the database."""
        inserts(queue, rows, due)  # refuses what cannot be sent
        if connection is not None:
            check(connection)
        return [self._add(queue, row, due) for row in rows]

    async def send_async(self, queue: str, rows: Sequence[Row], due: Due, connection: Any) -> list[int | None]:
        """Called by Queue and Task in place of the database."""
        transport.check_async(connection)
        return self.send(queue, rows, due, connection)

    def sent(self, what: AnyTask | Queue[Any] | str) -> list[Sent]:
        """The messages of a task, or of a queue, in the order in which they were sent."""
        if isinstance(what, Task):
            return [
                each
                for each in self.messages
                if _is_call(each.queue, each.columns) and each.columns["task"] == what.name
            ]
        name = what.name if isinstance(what, Queue) else what
        return [each for each in self.messages if each.queue == name]

    def assert_enqueued(
        self,
        what: AnyTask | Queue[Any] | str,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        columns: Mapping[str, Any] | None = None,
        delay: float | None = None,
        count: int | None = None,
    ) -> Sent:
        """That a message was sent: of a task with exactly these arguments, or of a queue with at least these columns;
        due `delay` seconds after it was sent, if that is said. Exactly `count` of them, or at least one. The last one.

        Raises AssertionError with what was sent instead.
        """
        wanted = self._wanted(what, args, kwargs or {}, columns or {})
        matching = [each for each in self.sent(what) if _has(each.columns, wanted)]
        if delay is not None:
            matching = [each for each in matching if each.due - each.sent == timedelta(seconds=delay)]
        if not matching or (count is not None and len(matching) != count):
            number = "no message" if not matching else f"{len(matching)} messages, not {count},"
            instead = "".join(f"\n  {each}" for each in self.messages) or " nothing"
            later = "" if delay is None else f", due {delay:g} s later"
            raise AssertionError(f"{number} of {_name(what)} with {dict(wanted)}{later}; sent was:{instead}")
        return matching[-1]

    def assert_nothing_enqueued(self, what: AnyTask | Queue[Any] | str | None = None) -> None:
        """That no message was sent, or none of a task or queue. Raises AssertionError."""
        there = self.messages if what is None else self.sent(what)
        if there:
            raise AssertionError("messages were sent:" + "".join(f"\n  {each}" for each in there))

    def advance(self, seconds: float | timedelta) -> None:
        """Move the clock. Periodic tasks whose time comes meanwhile are enqueued. Raises WorkerError."""
        until = self.now + (seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds))
        if until < self.now:
            raise WorkerError("a clock does not go back")
        ticks = [(tick, task) for task in tasks().values() for tick in _ticks(task, self.now, until)]
        for tick, task in sorted(ticks, key=lambda each: each[0]):
            self.now = tick
            task.send()
        self.now = until

    def drain(
        self,
        handlers: Mapping[str, Callable[..., Any]] | None = None,
        *,
        raises: bool = True,
        transaction: Any = None,
    ) -> int:
        """Handle all messages that are due, also those that are sent meanwhile; how many attempts that were.

        Messages of tasks call their functions; `handlers` has the handlers of other queues, whose messages stay if it
        has none. An exception of a handler is raised here; if `raises` is false, the message is tried again after the
        backoff (`advance`), and is dead after its last attempt, as with a server. `transaction`: what handlers get that
        take one; by default `statements` of this outbox. Raises WorkerError for a handler that is none.
        """
        of_queues = {queue: _handler(function) for queue, function in (handlers or {}).items()}
        attempts = 0
        while (message := self._next(of_queues)) is not None:
            attempts += 1
            if attempts > _DRAIN_MAX:
                raise AssertionError(f"more than {_DRAIN_MAX} attempts: a handler sends or releases without end")
            self._handle(message, of_queues, self.statements if transaction is None else transaction, raises)
        return attempts

    def _add(self, queue: str, row: Row, due: Due) -> int:
        time = due.at or self.now + timedelta(seconds=due.delay or 0)
        columns = {name: as_value(name, value) for name, value in row.items()}
        once = columns.get("once") if _is_call(queue, columns) else None
        if once is not None and any(
            each.queue == queue and each.columns.get("once") == once and each.state == "waiting"
            for each in self.messages
        ):
            raise pymysql.err.IntegrityError(_DUPLICATE, "there is a message with this key already")
        self.messages.append(Sent(next(self._ids), queue, columns, max(time, self.now), self.now))
        return self.messages[-1].id

    def _wanted(
        self, what: Any, args: Sequence[Any], kwargs: Mapping[str, Any], columns: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        if not isinstance(what, Task):
            if args or kwargs:
                raise WorkerError("a queue's messages have columns; args and kwargs are those of a task")
            return {name: as_value(name, value) for name, value in columns.items()}
        return {"args": as_text(what.parameters.checked(Call(args, kwargs))), **columns}

    def _next(self, handlers: Mapping[str, Handler]) -> Sent | None:
        """The next message that is due and has a handler: by priority, then by time, as a queue delivers."""
        due = [
            each
            for each in self.messages
            if each.state == "waiting"
            and each.due <= self.now
            and (each.queue in handlers or _is_call(each.queue, each.columns))
        ]
        return min(due, key=lambda each: (_priority(each), each.due, each.id), default=None)

    def _handle(self, sent: Sent, handlers: Mapping[str, Handler], transaction: Any, raises: bool) -> None:
        sent.attempts += 1
        message = Message(sent.queue, sent.id, sent.attempts, sent.columns)
        try:
            handler = handlers.get(sent.queue)
            if handler is None:
                _without_loop(lambda: TaskHandler(tasks(), _NoLimits())(message, transaction))
            else:
                value = handler.function(*([message, transaction] if handler.transactional else [message]))
                _without_loop(lambda: completed(value))
            sent.state = "acked"
        except Exception as error:
            self._failed(sent, error)
            if raises:
                raise

    def _failed(self, sent: Sent, error: Exception) -> None:
        sent.error = reason_of(error)
        match outcome_of(error):
            case Rejected():
                sent.state = "dead"
            case Released(delay=delay):
                sent.attempts -= 1
                sent.due = self.now + timedelta(seconds=float(delay))
            case Failed(delay=delay) if delay is not None:
                sent.due = self.now + timedelta(seconds=float(delay))
            case _:
                backoff = min(_BACKOFF_SECONDS * 2 ** min(sent.attempts - 1, _DOUBLINGS_MAX), _BACKOFF_MAX_SECONDS)
                sent.due = self.now + timedelta(seconds=backoff)
        if (
            _is_call(sent.queue, sent.columns)
            and sent.attempts >= _attempts_of(sent.queue)
            and not isinstance(error, Release)
        ):
            sent.state = "dead"


class _NoLimits:
    """A test has a time limit of its own."""

    @contextmanager
    def watch(self, *_: Any) -> Iterator[None]:
        """Nothing is watched."""
        yield


def _handler(function: Callable[..., Any]) -> Handler:
    handler = handler_of(function, batches=False)
    if handler.asynchronous:
        raise WorkerError("the outbox runs coroutines of tasks alone: await the handler in the test")
    return handler


def _is_call(queue: str, columns: Mapping[str, Any]) -> bool:
    """Whether a message calls a task; a queue may have columns of such names for itself."""
    known = tasks()
    return {"task", "args"} <= columns.keys() and (
        columns["task"] in known or queue in {each.queue for each in known.values()}
    )


def _attempts_of(queue: str) -> int:
    """The queue's `max_attempts`, as the worker creates it for its tasks."""
    return max((each.max_attempts or ATTEMPTS for each in tasks().values() if each.queue == queue), default=ATTEMPTS)


def _priority(sent: Sent) -> int:
    priority = sent.columns.get("priority")
    return priority if isinstance(priority, int) else _PRIORITY


def _without_loop(call: Callable[[], object]) -> None:
    """Calls it where no event loop runs, in a thread if need be: a task that is a coroutine has a loop of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        call()
        return
    with ThreadPoolExecutor(1) as thread:
        thread.submit(copy_context().run, call).result()


def _has(columns: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the columns have these values; JSON texts are compared as values."""
    return all(name in columns and _plain(columns[name]) == _plain(value) for name, value in wanted.items())


def _plain(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) and value[:1] in ("{", "[") else value
    except ValueError:
        return value


def _name(what: AnyTask | Queue[Any] | str) -> str:
    return what if isinstance(what, str) else what.name


def _ticks(task: AnyTask, after: datetime, until: datetime) -> Iterator[datetime]:
    """The times at which a periodic task's schedule sends, after a time and up to another. Raises WorkerError."""
    schedule = task.schedule
    if schedule is None:
        return
    if schedule.every is not None:
        step = timedelta(seconds=_every(schedule.every))
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        tick = epoch + ((after - epoch) // step + 1) * step
        while tick <= until:
            yield tick
            tick += step
        return
    try:
        cronsim = importlib.import_module("cronsim")
    except ImportError:
        raise WorkerError("a test of cron needs cronsim: pip install 'queuegate-worker[testing]'") from None
    for tick in cronsim.CronSim(schedule.cron, after.astimezone(ZoneInfo(schedule.time_zone or "UTC"))):
        if tick > until:
            return
        yield tick.astimezone(UTC)


def _every(rule: str) -> float:
    number, unit = (rule[:-2], 0.001) if rule.endswith("ms") else (rule[:-1], _UNITS.get(rule[-1:], 0.0))
    try:
        seconds = float(number) * unit
    except ValueError:
        seconds = 0.0
    if seconds < 1:
        raise WorkerError(f"every is {rule!r}; it is a time such as '15m', at least one second")
    return seconds
