"""The handler of a queue of tasks: reads which task a message calls, and calls it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from queuegate_worker.errors import LeaseLost, Reject, Release, reason_of
from queuegate_worker.message import Message
from queuegate_worker.sending.rows import as_json
from queuegate_worker.tasks.arguments import Call, from_text
from queuegate_worker.tasks.layout import store_result
from queuegate_worker.tasks.task import AnyTask, TaskContext
from queuegate_worker.tasks.time_limits import Limits, over_limit
from queuegate_worker.transaction import AsyncTransaction, CannotBegin, Transaction

T = TypeVar("T")

_CANCELLING_SECONDS = 5.0  # for a coroutine that is cancelled at its time limit to end


class UnknownTask(Exception):
    """The message calls a task that this program does not have. It comes again: another worker may have it."""


class TimeLimitExceeded(Exception):
    """A coroutine ran over the time limit of its task, and was cancelled."""


class TaskHandler:
    """Calls tasks for the messages of their queue. It is a handler of Worker."""

    def __init__(self, tasks: Mapping[str, AnyTask], limits: Limits) -> None:
        self._tasks, self._limits = tasks, limits

    def __call__(self, message: Message, transaction: Transaction) -> None:
        """Raises what the task raises; Reject after its last attempt."""
        task = self._task(message)
        try:
            call = task.parameters.load(from_text(message["args"]))
            with self._limits.watch(task, message, transaction, _CANCELLING_SECONDS if _is_coroutine(task) else 0.0):
                value = self._call(task, call, message, transaction)
            if task.keep_result is not None:
                self._store(task, message, transaction, value)
        except (Reject, Release, LeaseLost, CannotBegin):
            raise
        except Exception as error:
            if task.is_last(message.epoch):
                raise Reject(reason_of(error)) from error
            raise

    def _task(self, message: Message) -> AnyTask:
        if "task" not in message.columns or "args" not in message.columns:
            raise Reject("a message of a task has the columns task and args")
        task = self._tasks.get(message["task"])
        if task is None:
            raise UnknownTask(f"this worker has no task {message['task']!r}")
        return task

    def _call(self, task: AnyTask, call: Call, message: Message, transaction: Transaction) -> Any:
        if _is_coroutine(task):
            context = TaskContext(message, AsyncTransaction(transaction, _run_now))
            return asyncio.run(_within_limit(task, _with_context(task, call, context)))
        return task.function(*_with_context(task, call, TaskContext(message, transaction)).args, **call.kwargs)

    def _store(self, task: AnyTask, message: Message, transaction: Transaction, value: Any) -> None:
        transaction.execute(*store_result(task, message.queue, message.id, as_json("the task's result", value)))


def _is_coroutine(task: AnyTask) -> bool:
    return inspect.iscoroutinefunction(task.function)


def _with_context(task: AnyTask, call: Call, context: TaskContext) -> Call:
    return Call((context, *call.args), call.kwargs) if task.takes_context else call


async def _within_limit(task: AnyTask, call: Call) -> Any:
    """A coroutine is cancelled at its time limit; the thread of the time limits comes only after that."""
    limit = asyncio.timeout(task.timeout)
    try:
        async with limit:
            return await task.function(*call.args, **call.kwargs)
    except TimeoutError as error:
        if not limit.expired():
            raise  # the coroutine's own
        raise TimeLimitExceeded(over_limit(task)) from error


def _run_now(function: Callable[[], T]) -> Awaitable[T]:
    """The event loop runs in the thread that owns the connection, so SQL runs here."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    try:
        future.set_result(function())
    except Exception as error:
        future.set_exception(error)
    return future
