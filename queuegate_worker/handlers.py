"""How a handler is called: with one message or a batch, with the transaction or without, in a thread or on a loop.

A handler that is a coroutine function runs on an event loop. The thread of its slot waits for it, and meanwhile runs
the SQL that it awaits: a line to the proxy is used by the thread that it belongs to and by no other.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

from queuegate_worker.errors import LeaseLost, Release, WorkerError
from queuegate_worker.hooks import Hooks, logger
from queuegate_worker.message import Message
from queuegate_worker.transaction import AsyncTransaction, Transaction

T = TypeVar("T")
_WORDS = "a handler takes the message, or the message and the transaction"


@dataclass(frozen=True, slots=True)
class Handler:
    """A handler, and what it wants."""

    function: Callable[..., Any]
    transactional: bool
    asynchronous: bool
    batches: bool


def handler_of(function: Callable[..., Any], *, batches: bool) -> Handler:
    """What the signature says. Raises WorkerError."""
    if not callable(function):
        raise WorkerError(f"{function!r} cannot be called; {_WORDS}")
    signature = inspect.signature(function)
    wants = next((count for count in (1, 2) if _takes(signature, count)), None)
    if wants is None:
        raise WorkerError(f"{function!r} takes {signature}; {_WORDS}")
    call = getattr(function, "__call__", function)  # noqa: B004 - an object whose __call__ is a coroutine function
    asynchronous = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
    return Handler(function, wants == 2, asynchronous, batches)


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


class InThread:
    """Calls a function in the slot's own thread."""

    def __init__(self, handler: Handler, hooks: Hooks) -> None:
        self._handler, self._hooks = handler, hooks

    def __call__(self, messages: Sequence[Message], transaction: Transaction | None) -> None:
        """Raises what the handler raises."""
        with _handling(self._hooks, messages):
            self._handler.function(*_arguments(self._handler, messages, transaction))

    def cut_off(self) -> None:
        """A thread cannot be ended from outside; it ends with the process."""


class OnLoop:
    """Calls a coroutine function on an event loop that runs in another thread."""

    def __init__(self, handler: Handler, hooks: Hooks, loop: asyncio.AbstractEventLoop) -> None:
        self._handler, self._hooks, self._loop = handler, hooks, loop
        self._tasks: set[asyncio.Task[None]] = set()  # touched on the loop alone
        self._cut_off = False

    def __call__(self, messages: Sequence[Message], transaction: Transaction | None) -> None:
        """Raises what the handler raises; LeaseLost or Release where it was cancelled by the worker."""
        errands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        ended: Future[None] = Future()
        started: list[asyncio.Task[None]] = []

        def start() -> None:
            task = self._loop.create_task(self._run(messages, transaction, errands))
            started.append(task)
            self._tasks.add(task)
            task.add_done_callback(end)

        def end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                ended.set_exception(asyncio.CancelledError())
            elif (error := task.exception()) is not None:
                ended.set_exception(error)
            else:
                ended.set_result(None)
            errands.put(None)

        def lost() -> None:
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in started])

        self._loop.call_soon_threadsafe(start)
        for message in messages:
            message.lease.watch(lost)
        try:
            while (errand := errands.get()) is not None:
                errand()
            ended.result()
        except asyncio.CancelledError:
            if any(message.lost for message in messages):
                raise LeaseLost("the handler was cancelled: the lease of its message is lost") from None
            if self._cut_off:
                raise Release("the worker stops") from None
            raise
        finally:
            for message in messages:
                message.lease.watch(None)

    def cut_off(self) -> None:
        """Cancel all that run: the grace time is over."""
        self._cut_off = True
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._tasks])

    async def _run(
        self, messages: Sequence[Message], transaction: Transaction | None, errands: SimpleQueue[Any]
    ) -> None:
        def elsewhere(function: Callable[[], T]) -> Awaitable[T]:
            future: asyncio.Future[T] = self._loop.create_future()
            errands.put(lambda: self._errand(function, future))
            return future

        given = None if transaction is None else AsyncTransaction(transaction, elsewhere)
        with _handling(self._hooks, messages):
            await self._handler.function(*_arguments(self._handler, messages, given))

    def _errand(self, function: Callable[[], T], future: asyncio.Future[T]) -> None:
        """Run in the slot's thread."""
        try:
            result = function()
        except BaseException as error:
            self._loop.call_soon_threadsafe(_settle, future, None, error)
        else:
            self._loop.call_soon_threadsafe(_settle, future, result, None)


Caller = InThread | OnLoop


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    """On the loop. Whoever waited may be cancelled by now."""
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


def _handling(hooks: Hooks, messages: Sequence[Message]) -> ExitStack:
    """The context of the hooks; a hook that cannot make one is logged, and the handler runs without."""
    stack = ExitStack()
    try:
        stack.enter_context(hooks.handling(messages))
    except Exception:
        logger.exception("a hook failed")
    return stack


def _arguments(handler: Handler, messages: Sequence[Message], transaction: Any) -> list[Any]:
    subject: Any = list(messages) if handler.batches else messages[0]
    return [subject, transaction] if handler.transactional else [subject]
