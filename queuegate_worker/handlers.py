"""How a handler is called: with one message or a batch, with the transaction or without, in a thread or on a loop.

A handler that is a coroutine function runs on an event loop. The thread of its slot waits for it, and meanwhile runs
the SQL that it awaits: a connection to the proxy is used only by the thread that owns it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from inspect import Parameter
from queue import SimpleQueue
from types import FunctionType, MethodType
from typing import Any, TypeVar

from queuegate_worker.errors import LeaseLost, Reject, Release, WorkerError
from queuegate_worker.hooks import Hooks, notify
from queuegate_worker.message import Message
from queuegate_worker.transaction import AsyncTransaction, Transaction

T = TypeVar("T")
_USAGE = "a handler takes the message, or the message and the transaction"
_OF_PYTHON = (FunctionType, MethodType)  # print takes *args, too
GENERATOR = "a call of a generator function runs nothing of it: return a value, or nothing"


@dataclass(frozen=True, slots=True)
class Handler:
    """A handler and how it is called."""

    function: Callable[..., Any]
    transactional: bool
    asynchronous: bool
    batches: bool


def name_of(function: Any) -> str:
    """For an error: a function as its program calls it."""
    return str(getattr(function, "__qualname__", None) or repr(function))


def handler_of(function: Callable[..., Any], *, batches: bool) -> Handler:
    """Inspects the signature. Raises WorkerError."""
    if not callable(function):
        raise WorkerError(f"{name_of(function)} cannot be called; {_USAGE}")
    if inspect.isclass(function):
        raise WorkerError(f"{name_of(function)} is a class: give an object of it, or a function; {_USAGE}")
    if hasattr(type(function), "takes_context"):  # a Mock has every attribute
        raise WorkerError(
            f"{name_of(function)} is a task: give its module in place of a handler, as in queuegate-work app.tasks"
        )
    transactional = _is_transactional(function)
    call = getattr(function, "__call__", function)  # noqa: B004 - an object whose __call__ is a coroutine function
    if is_generator(function) or is_generator(call):
        raise WorkerError(f"{name_of(function)}: {GENERATOR}")
    asynchronous = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
    return Handler(function, transactional, asynchronous, batches)


def _is_transactional(function: Callable[..., Any]) -> bool:
    """Whether it takes the transaction: where it has to, and where its second argument is called so."""
    try:
        signature = signature_of(function)
    except (TypeError, ValueError):
        raise WorkerError(f"the arguments of {name_of(function)} are not known; {_USAGE}") from None
    first, second, *_ = *signature.parameters.values(), None, None
    if isinstance(function, _OF_PYTHON) and first is not None and first.kind is first.VAR_POSITIONAL:
        raise WorkerError(f"{name_of(function)} takes {signature}: a decorator needs functools.wraps; {_USAGE}")
    by_name = signature.parameters.get("transaction")
    if by_name and by_name.kind is by_name.KEYWORD_ONLY and by_name.default is None:
        raise WorkerError(f"{name_of(function)} takes {signature}: the transaction is the second argument")
    one, two = _accepts(signature, 1), _accepts(signature, 2)
    if not one and not two:
        raise WorkerError(f"{name_of(function)} takes {signature}; {_USAGE}")
    return two and (not one or (second is not None and second.name == "transaction"))


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """How a function is called. A decorator's function with `*args`, or `**kwargs` alone, passes on what it gets: then
    it is the signature of the function in it, as `functools.wraps` names that. Raises ValueError where nothing is
    known."""
    inner, kinds = getattr(function, "__wrapped__", None), set[Any]()
    with suppress(ValueError):  # of what lru_cache makes
        own = inspect.signature(function, follow_wrapped=False)
        kinds = {each.kind for each in own.parameters.values()}
        if Parameter.VAR_POSITIONAL not in kinds and (inner is None or kinds != {Parameter.VAR_KEYWORD}):
            return own
    if inner is None:
        return inspect.signature(function)
    signature = signature_of(MethodType(inner, function.__self__) if inspect.ismethod(function) else inner)
    return _by_name(signature) if kinds == {Parameter.VAR_KEYWORD} else signature


def _by_name(signature: inspect.Signature) -> inspect.Signature:
    """Of a decorator's function with `**kwargs` alone."""
    parameters = signature.parameters.values()
    return signature.replace(
        parameters=[
            each if each.kind is each.VAR_KEYWORD else each.replace(kind=Parameter.KEYWORD_ONLY)
            for each in parameters
            if each.kind not in (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)
        ]
    )


def is_generator(function: Callable[..., Any]) -> bool:
    """Whether a call of it runs nothing."""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def completed(value: Any) -> Any:
    """What a function has returned; awaited where it is a coroutine, as of an ordinary decorator around one. Raises
    Reject where nothing has run."""
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise Reject(GENERATOR)
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def _accepts(signature: inspect.Signature, count: int) -> bool:
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
            completed(self._handler.function(*_arguments(self._handler, messages, transaction)))

    def cancel(self) -> None:
        """A thread cannot be ended from outside; it ends with the process."""


class OnLoop:
    """Calls a coroutine function on an event loop that runs in another thread."""

    def __init__(self, handler: Handler, hooks: Hooks, loop: asyncio.AbstractEventLoop) -> None:
        self._handler, self._hooks, self._loop = handler, hooks, loop
        self._tasks: set[asyncio.Task[SystemExit | None]] = set()  # used only on the loop
        self._cancelled = False

    def __call__(self, messages: Sequence[Message], transaction: Transaction | None) -> None:
        """Raises what the handler raises; LeaseLost or Release where it was cancelled by the worker."""
        calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        ended: Future[None] = Future()
        started: list[asyncio.Task[SystemExit | None]] = []

        def start() -> None:
            task = self._loop.create_task(self._run(messages, transaction, calls))
            started.append(task)
            self._tasks.add(task)
            task.add_done_callback(end)

        def end(task: asyncio.Task[SystemExit | None]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                ended.set_exception(asyncio.CancelledError())
            elif (error := task.exception() or task.result()) is not None:
                ended.set_exception(error)
            else:
                ended.set_result(None)
            calls.put(None)

        def on_lost() -> None:
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in started])

        self._loop.call_soon_threadsafe(start)
        for message in messages:
            message.lease.watch(on_lost)
        try:
            while (call := calls.get()) is not None:
                call()
            ended.result()
        except asyncio.CancelledError:
            if any(message.lost for message in messages):
                raise LeaseLost("the handler was cancelled: the lease of its message is lost") from None
            if self._cancelled:
                raise Release("the worker stops") from None
            raise
        finally:
            for message in messages:
                message.lease.watch(None)

    def cancel(self) -> None:
        """Cancel all running tasks: the grace time is over."""
        self._cancelled = True
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._tasks])

    async def _run(
        self, messages: Sequence[Message], transaction: Transaction | None, calls: SimpleQueue[Any]
    ) -> SystemExit | None:
        """Returns a SystemExit of the handler: if it was raised, the loop would end, which may be the program's."""

        def run_in_slot_thread(function: Callable[[], T]) -> Awaitable[T]:
            future: asyncio.Future[T] = self._loop.create_future()
            calls.put(lambda: self._run_call(function, future))
            return future

        async_transaction = None if transaction is None else AsyncTransaction(transaction, run_in_slot_thread)
        try:
            with _handling(self._hooks, messages):
                await self._handler.function(*_arguments(self._handler, messages, async_transaction))
        except SystemExit as error:
            return error
        return None

    def _run_call(self, function: Callable[[], T], future: asyncio.Future[T]) -> None:
        """Run in the slot's thread."""
        try:
            result = function()
        except BaseException as error:
            self._loop.call_soon_threadsafe(_settle, future, None, error)
        else:
            self._loop.call_soon_threadsafe(_settle, future, result, None)


Caller = InThread | OnLoop


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    """On the loop. The waiting task may be cancelled by now."""
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


@contextmanager
def _handling(hooks: Hooks, messages: Sequence[Message]) -> Iterator[None]:
    """The context of the hooks; if it fails, that is logged, and what becomes of the message stays as it is."""
    stack = ExitStack()
    notify(lambda: stack.enter_context(hooks.handling(messages)))
    try:
        yield
    except BaseException as error:
        raised = error
        notify(lambda: stack.__exit__(type(raised), raised, raised.__traceback__))
        raise
    notify(stack.close)


def _arguments(handler: Handler, messages: Sequence[Message], transaction: Any) -> list[Any]:
    subject: Any = list(messages) if handler.batches else messages[0]
    return [subject, transaction] if handler.transactional else [subject]
