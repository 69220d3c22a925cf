"""The handler of a queue of tasks: reads which task a message calls, and calls it."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from queuegate_worker.errors import LeaseLost, Reject, Release, for_log, reason_of
from queuegate_worker.handlers import completed
from queuegate_worker.message import Message
from queuegate_worker.sending.rows import as_exact_json
from queuegate_worker.tasks.arguments import Call, from_text
from queuegate_worker.tasks.layout import store_result
from queuegate_worker.tasks.task import AnyTask, TaskContext
from queuegate_worker.tasks.time_limits import Limits, over_limit
from queuegate_worker.transaction import AsyncTransaction, CannotContinue, Transaction

T = TypeVar("T")

_CANCELLING_SECONDS = 5.0  # for a coroutine that is cancelled at its time limit to end
_UNKNOWN_SECONDS = 15.0  # until a message comes again whose task another worker may have

logger = logging.getLogger("queuegate_worker")


class UnknownTask(Release):
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
        if task.max_attempts is not None and message.epoch > task.max_attempts:
            raise Reject(f"its process ended during attempt {task.max_attempts}, the last one")
        try:
            call = task.parameters.load(from_text(message["args"]))
            with self._limits.watch(task, message, transaction, _CANCELLING_SECONDS if _is_coroutine(task) else 0.0):
                value = self._call(task, call, message, transaction)
            if task.keep_result is not None:
                self._store(task, message, transaction, value)
        except (Reject, Release, LeaseLost, CannotContinue):
            raise
        except BaseException as error:  # also of sys.exit, which ends a thread and no process
            if task.is_last(message.epoch) and not isinstance(error, KeyboardInterrupt):
                logger.warning(
                    "message %r of %s: its last attempt failed", message.id, message.queue, exc_info=for_log(error)
                )
                raise Reject(reason_of(error)) from error
            raise

    def _task(self, message: Message) -> AnyTask:
        if "task" not in message.columns or "args" not in message.columns:
            raise Reject("a message of a task has the columns task and args")
        task = self._tasks.get(message["task"])
        if task is None:
            unknown = f"this worker has no task {message['task']!r}"
            logger.warning("message %r of %s comes again: %s", message.id, message.queue, unknown)
            raise UnknownTask(unknown, delay=_UNKNOWN_SECONDS)
        return task

    def _call(self, task: AnyTask, call: Call, message: Message, transaction: Transaction) -> Any:
        used = AsyncTransaction(transaction, _run_now) if _is_coroutine(task) else transaction
        args = (TaskContext(message, used), *call.args) if task.takes_context else call.args
        value = task.function(*args, **call.kwargs)
        return completed(_within_limit(task, value) if inspect.isawaitable(value) else value)

    def _store(self, task: AnyTask, message: Message, transaction: Transaction, value: Any) -> None:
        transaction.execute(*store_result(task, message.queue, message.id, as_exact_json("the task's result", value)))


def _is_coroutine(task: AnyTask) -> bool:
    return inspect.iscoroutinefunction(task.function)


async def _within_limit(task: AnyTask, value: Awaitable[Any]) -> Any:
    """A coroutine is cancelled at its time limit; the thread of the time limits comes only after that."""
    limit = asyncio.timeout(task.timeout)
    try:
        async with limit:
            return await value
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
