"""Functions as tasks: the decorator, what a task is, and how it is sent."""

from __future__ import annotations

import gc
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload
from weakref import ref

from queuegate_worker.errors import WorkerError
from queuegate_worker.handlers import GENERATOR, is_generator, name_of
from queuegate_worker.sending import transport
from queuegate_worker.sending.connections import is_duplicate
from queuegate_worker.sending.rows import Due, Row, current_traceparent
from queuegate_worker.statements import quoted
from queuegate_worker.tasks.arguments import Call, Parameters, as_text, parameters_of

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_QUEUE = "tasks"
_NAME_MAX = 255  # of the column `task`
_SECONDS_MAX = 315_360_000
_PRIORITY_MAX = 100
_DECORATORS = "a decorator below @task needs functools.wraps"
_RULES = ("cron", "every", "time_zone")  # options that make a Schedule


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a periodic task runs: a rule of CREATE SCHEDULE."""

    cron: str | None = None
    every: str | None = None
    time_zone: str | None = None


@dataclass(frozen=True)
class Task(Generic[P, R]):
    """A function that is called by messages. Call it to run it here and now; `send` has a worker run it.

    `queue`: where its messages are. `max_attempts`: after so many failed attempts its message is a dead letter, unless
    the queue's own `max_attempts` comes first. `timeout`: seconds that one attempt may take. `unique`: names of
    arguments; while a message with the same values of them is not acked, another is not sent. Without names: all
    arguments; None: each call is sent. `keep_result`: seconds for which the returned value is stored. `takes_context`:
    the function's first argument is a TaskContext.
    """

    function: Callable[..., R]
    name: str
    parameters: Parameters = field(repr=False)
    queue: str = DEFAULT_QUEUE
    max_attempts: int | None = None
    timeout: float | None = None
    unique: tuple[str, ...] | None = None
    keep_result: float | None = None
    schedule: Schedule | None = None
    takes_context: bool = False

    def is_last(self, attempt: int) -> bool:
        """Whether a message that fails at this attempt is not tried again, by the task's own `max_attempts`."""
        return self.max_attempts is not None and attempt >= self.max_attempts

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here."""
        return self.function(*args, **kwargs)

    def using(
        self,
        *,
        connection: Any = None,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
    ) -> Sender[P]:
        """How its next message is sent.

        `connection`: the application's, in whose transaction the message is sent, as of `Queue.send`. `delay`, `at`:
        when it is due. `priority`: 1 to 100, smaller ones come first. `queue`: another queue. Raises WorkerError.
        """
        if priority is not None and not (isinstance(priority, int) and 1 <= priority <= _PRIORITY_MAX):
            raise WorkerError(f"priority is {priority!r}; it is a number from 1 to {_PRIORITY_MAX}")
        if queue is not None and self.keep_result is not None and not _keeps_results(queue):
            raise WorkerError(f"{self.name} keeps its results, and no task of the queue {queue} does: it has no table")
        return Sender(self, connection, Due.of(delay, at), priority, self.queue if queue is None else queue)

    def send(self, *args: P.args, **kwargs: P.kwargs) -> int | None:
        """Send a message that calls the function with these arguments; its id. See `Sender.send`."""
        return self.using().send(*args, **kwargs)

    async def send_async(self, *args: P.args, **kwargs: P.kwargs) -> int | None:
        """As `send`; needs `using(connection=...)` with a connection of asyncio."""
        return await self.using().send_async(*args, **kwargs)

    def send_many(self, calls: Iterable[Iterable[Any] | Mapping[str, Any]]) -> int:
        """Send a message for each call; how many. See `Sender.send_many`."""
        return self.using().send_many(calls)


@dataclass(frozen=True, slots=True)
class Sender(Generic[P]):
    """A task with what applies to its next message."""

    task: Task[P, Any]
    connection: Any
    due: Due
    priority: int | None
    queue: str

    def send(self, *args: P.args, **kwargs: P.kwargs) -> int | None:
        """Send a message; its id. None, if the task is `unique` and such a message waits or is being handled.

        Raises WorkerError if the function does not take these arguments, or they cannot be written as JSON; and the
        errors of the connection's driver.
        """
        row = self._row(Call(args, kwargs))
        try:
            return transport.current().send(self.queue, [row], self.due, self.connection)[0]
        except Exception as error:
            if row["once"] is not None and is_duplicate(error):
                return None
            raise

    async def send_async(self, *args: P.args, **kwargs: P.kwargs) -> int | None:
        """As `send`, on a connection of asyncio."""
        row = self._row(Call(args, kwargs))
        try:
            return (await transport.current().send_async(self.queue, [row], self.due, self.connection))[0]
        except Exception as error:
            if row["once"] is not None and is_duplicate(error):
                return None
            raise

    def send_many(self, calls: Iterable[Iterable[Any] | Mapping[str, Any]]) -> int:
        """Send a message for each call, with few statements; how many. A call is its positional arguments, or a mapping
        of keyword arguments. Raises WorkerError; for a unique task, whose messages are sent one by one, too."""
        if self.task.unique is not None:
            raise WorkerError(f"{self.task.name} is unique: send its messages one by one")
        rows = [self._row(Call((), {**c}) if isinstance(c, Mapping) else Call((*c,), {})) for c in calls]
        if rows:
            transport.current().send(self.queue, rows, self.due, self.connection)
        return len(rows)

    def _row(self, call: Call) -> Row:
        task, unique = self.task, self.task.unique
        task.parameters.checked(call)
        row: dict[str, Any] = {"task": task.name, "args": as_text(call), "traceparent": current_traceparent()}
        row["once"] = None if unique is None else task.parameters.key(task.name, call, unique)
        if self.priority is not None:
            row["priority"] = self.priority
        return row


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The first argument of a task with `takes_context`: its message, and the transaction that commits with the ack.

    Of a coroutine function the transaction is an AsyncTransaction.
    """

    message: Any
    transaction: Any

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1 on."""
        return int(self.message.epoch)


@dataclass(frozen=True)
class ContextTask(Task[P, R]):
    """One that takes its context, of which those who send it know nothing."""

    if TYPE_CHECKING:  # it has no name for the context, and calls may use the function's own

        def __call__(self, context: TaskContext, /, *args: P.args, **kwargs: P.kwargs) -> R: ...  # type: ignore[override]


AnyTask = Task[..., Any]

_Run = tuple[CodeType, dict[str, Any]]
"""A module's code, and its names."""

_tasks: dict[str, AnyTask] = {}
_runs: dict[str, _Run | None] = {}
"""Where each was made."""


@overload
def task(function: Callable[P, R], /) -> Task[P, R]: ...


@overload
def task(
    *,
    takes_context: Literal[True],
    queue: str = ...,
    name: str | None = ...,
    max_attempts: int | None = ...,
    timeout: float | timedelta | None = ...,
    unique: bool | Iterable[str] = ...,
    keep_result: float | timedelta | None = ...,
    cron: str | None = ...,
    every: str | None = ...,
    time_zone: str | None = ...,
) -> Callable[[Callable[Concatenate[TaskContext, P], R]], ContextTask[P, R]]: ...


@overload
def task(
    *,
    queue: str = ...,
    name: str | None = ...,
    max_attempts: int | None = ...,
    timeout: float | timedelta | None = ...,
    unique: bool | Iterable[str] = ...,
    keep_result: float | timedelta | None = ...,
    cron: str | None = ...,
    every: str | None = ...,
    time_zone: str | None = ...,
    takes_context: Literal[False] = ...,
) -> Callable[[Callable[P, R]], Task[P, R]]: ...


def task(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a function a task: `@task`, or `@task(queue="mails", timeout=30)`.

    `name`: what its messages call it; by default module and name, so a function that is renamed or moved keeps the old
    one here while such messages wait. `cron` or `every` runs it periodically, without arguments: rules of CREATE
    SCHEDULE, such as `cron="0 2 * * *"` with `time_zone="Europe/Berlin"`, or `every="15m"`. `unique`: True, or names of
    arguments. The other options are those of Task. Raises WorkerError.
    """
    if function is not None:
        return _register(_made(function, {}))
    return lambda decorated: _register(_made(decorated, options))


def _made(function: Callable[..., Any], options: Mapping[str, Any]) -> AnyTask:
    known = {"queue", "name", "max_attempts", "timeout", "unique", "keep_result", "takes_context", *_RULES}
    rules = {name: options[name] for name in _RULES if options.get(name) is not None}
    if unknown := sorted(options.keys() - known):
        raise WorkerError(f"a task has no option {unknown[0]!r}")
    if not callable(function) or not hasattr(function, "__qualname__"):
        raise WorkerError(f"{function!r} is no function")
    if is_generator(function):
        raise WorkerError(f"{name_of(function)}: {GENERATOR}")
    name = options.get("name") or _default_name(function)
    if len(name) > _NAME_MAX:
        raise WorkerError(f"the name of a task has at most {_NAME_MAX} characters: {name}")
    takes_context = bool(options.get("takes_context"))
    kind = ContextTask if takes_context else Task
    result: AnyTask = kind(
        function, name, parameters_of(function, skip_first=takes_context), takes_context=takes_context
    )
    return replace(
        result,
        queue=_queue_name(options.get("queue", DEFAULT_QUEUE)),
        max_attempts=_attempts(options.get("max_attempts")),
        timeout=_seconds("timeout", options.get("timeout")),
        unique=_unique(result, options.get("unique", False)),
        keep_result=_seconds("keep_result", options.get("keep_result")),
        schedule=_schedule(result, rules),
    )


def _default_name(function: Callable[..., Any]) -> str:
    """Its module and name. Raises WorkerError where the name would be one for many functions: it is made in a function
    that has returned, of a module that is not running now."""
    name = f"{_module_name(function)}.{function.__qualname__}"
    if "<locals>" in name and function.__module__ not in (each.f_globals.get("__name__") for each in _frames()):
        raise WorkerError(f"{name} is a function of a decorator: {_DECORATORS}, or give the task a name=")
    return name


def _frames() -> Iterator[FrameType]:
    """From the inside to the outside; also a decorator of the program that calls `task`."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def _module_name(function: Callable[..., Any]) -> str:
    """The module as a worker imports it, also where it is the program that runs."""
    if function.__module__ != "__main__":
        return function.__module__
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:  # python -m app.tasks
        return str(spec.name).removesuffix(".__main__")
    return "__main__" if file is None else Path(file).stem


def _queue_name(name: str) -> str:
    quoted(name)
    return name


def _attempts(count: int | None) -> int | None:
    if count is not None and not (isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= 127):
        raise WorkerError(f"max_attempts is {count!r}; it is a number from 1 to 127")
    return count


def _seconds(name: str, value: float | timedelta | None) -> float | None:
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool) and math.isfinite(seconds)
    if not number or not 0 < seconds <= _SECONDS_MAX:
        raise WorkerError(f"{name} is {value!r}; it is a number of seconds, more than 0, or a timedelta")
    return float(seconds)


def _unique(made: AnyTask, option: bool | Iterable[str]) -> tuple[str, ...] | None:
    if isinstance(option, bool):
        return () if option else None
    names = (option,) if isinstance(option, str) else (*option,)
    for name in names:
        if name not in made.parameters.signature.parameters:
            raise WorkerError(f"{made.name} has no argument {name!r} that could be unique")
    return names


def _schedule(made: AnyTask, rules: Mapping[str, str]) -> Schedule | None:
    if not rules:
        return None
    if ("cron" in rules) == ("every" in rules):
        raise WorkerError(f"{made.name}: give cron or every; a time_zone belongs to cron")
    if "every" in rules and "time_zone" in rules:
        raise WorkerError(f"{made.name}: every has no time zone")
    made.parameters.checked(Call((), {}))  # a periodic task is called without arguments
    return Schedule(**rules)


def _register(made: AnyTask) -> AnyTask:
    name, run = made.name, _module_run()
    if name in _tasks and _tasks[name] != made and not _is_loaded_again(_tasks[name], made, run):
        # No variable has the task that was there: it would be in use.
        other = _is_another(_tasks[name], made, run)
        if other or (_differ(_tasks[name], made) and _is_used_elsewhere(name)):
            raise WorkerError(f"there are two tasks of the name {name}: give one another name=; {_DECORATORS}")
    _tasks[name], _runs[name] = made, run
    return made


def _module_run() -> _Run | None:
    """The module that is being loaded, or the program that runs; None in a thread."""
    return next(((each.f_code, each.f_globals) for each in _frames() if each.f_code.co_name == "<module>"), None)


def _is_loaded_again(before: AnyTask, now: AnyTask, run: _Run | None) -> bool:
    """Whether the code of a module, or of a notebook's cell, runs again, and may have been changed."""
    ran = _runs.get(now.name)
    if ran is None or run is None or ran[0] is run[0] or _name_in_module(before) != _name_in_module(now):
        return False
    return ran[1] is run[1] or ran[0].co_filename == run[0].co_filename


def _is_another(before: AnyTask, now: AnyTask, run: _Run | None) -> bool:
    """Whether it has another place in the program, or is a second one of a module; a function that makes tasks may be
    one that makes an application for each test."""
    of_module = run is not None and run[1].get("__name__") == now.function.__module__
    return _places(before) != _places(now) or (of_module and "<locals>" not in _name_in_module(now))


def _name_in_module(made: AnyTask) -> str:
    return str(inspect.unwrap(made.function).__qualname__)


def _differ(before: AnyTask, now: AnyTask) -> bool:
    """Whether one place of the program has made two that do different things, or have different options."""
    same_options = replace(before, function=now.function, parameters=now.parameters) == now
    return not same_options or _values(before.function) != _values(now.function)


def _values(function: Callable[..., Any]) -> list[object]:
    """What the function is, and has from those around it, as far as that can be compared."""
    values = list[Any]()
    for each in _functions(function):
        values += [getattr(each, "__code__", None), *(getattr(each, "__defaults__", None) or ()), *_in_closure(each)]
        values += (getattr(each, "__kwdefaults__", None) or {}).values()
        values += [*each.args, *each.keywords.values()] if isinstance(each, partial) else []
    return [each for each in values if isinstance(each, str | bytes | int | float | CodeType)]


def _is_used_elsewhere(name: str) -> bool:
    """Whether a part of the program has that task; one that was made for a test that is over has it no more."""
    task = ref(_tasks.pop(name))
    if task() is not None:
        gc.collect()
    if (still := task()) is not None:
        _tasks[name] = still
    return still is not None


def _places(made: AnyTask) -> list[tuple[str, str]]:
    """Where the program has the functions of a task."""
    codes = [(getattr(each, "__code__", None), each) for each in _functions(made.function)]
    return [("" if code is None else code.co_filename, getattr(each, "__qualname__", "")) for code, each in codes]


def _functions(function: Callable[..., Any]) -> list[Any]:
    """The function, those that it is a decorator of, and those in closures: a decorator without functools.wraps has the
    function there."""
    functions: list[Any] = [function]
    for each in functions:  # it grows meanwhile
        inside = [getattr(each, "__wrapped__", None), *filter(inspect.isfunction, _in_closure(each))]
        functions += [new for new in inside if new is not None and new not in functions]
    return functions


def _in_closure(function: Any) -> list[Any]:
    return gc.get_referents(*(getattr(function, "__closure__", None) or ()))  # a cell may be empty


def _keeps_results(queue: str) -> bool:
    return any(each.queue == queue and each.keep_result is not None for each in _tasks.values())


def tasks() -> dict[str, AnyTask]:
    """All tasks of the modules that are loaded, by name."""
    return dict(_tasks)


def tasks_in(module: ModuleType) -> dict[str, AnyTask]:
    """The tasks that are names of a module, also those that it imports; if there are none, all. Raises WorkerError."""
    there = {value.name: value for value in vars(module).values() if isinstance(value, Task)} or tasks()
    if not there:
        name = module.__name__
        raise WorkerError(
            f"{name} has no tasks (functions with @task of queuegate_worker); a handler is {name}:function"
        )
    return there
