"""The worker: the class that a program creates and runs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from queue import Empty, SimpleQueue
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from queuegate_worker.address import Address, address_of
from queuegate_worker.connection import connection_factory
from queuegate_worker.errors import WorkerError
from queuegate_worker.handlers import handler_of
from queuegate_worker.hooks import Hooks
from queuegate_worker.message import Message
from queuegate_worker.run import Plan, Run
from queuegate_worker.statements import KEYS, SHARED_KEYS, Statements, quoted

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_WAIT_SECONDS = 1.0  # within a second of it, a signal is heeded
_CONCURRENCY_MAX = 1000  # each is a thread and a connection
_BATCH_MAX = 10_000
_PREFETCH_MAX = 1_000_000  # the server's bound of `prefetch`


class Worker:
    """Receives messages of one queue and calls a handler for them.

    `address`: `mysql://user:password@host:port/database`, or arguments of `pymysql.connect`. `concurrency`: handlers
    that run at a time. `batch`: the handler gets a list of up to so many messages; None: one message. `ack_wait`: the
    length of a lease in seconds; None: the queue's. `lease`: 'connection' gives unacked messages to others as soon as
    this process is gone, 'time' when their leases end. `consumer`: this worker's name in SHOW SUBSCRIPTIONS; None: host
    and process. `grace`: the seconds that running handlers get at the end. `key_range`: the part of the queue's ring of
    which it receives messages, such as '-80'; None: all messages. `keys`: 'sticky' assigns a part of the ring to this
    worker, and gives it messages of others that wait; 'exclusive' assigns it for this worker alone. Raises WorkerError
    if an argument is invalid.
    """

    def __init__(
        self,
        address: str | Mapping[str, Any] | Address,
        queue: str,
        *,
        concurrency: int = 1,
        batch: int | None = None,
        ack_wait: float | None = None,
        lease: str = "connection",
        consumer: str | None = None,
        grace: float = 25.0,
        hooks: Hooks | None = None,
        key_range: str | None = None,
        keys: str = SHARED_KEYS,
    ) -> None:
        self._address = address_of(address, os.environ)
        quoted(queue)
        _check_range("concurrency", concurrency, 1, _CONCURRENCY_MAX, whole=True)
        if batch is not None:
            _check_range("batch", batch, 1, _BATCH_MAX, whole=True)
        if ack_wait is not None:
            _check_range("ack_wait", ack_wait, 0.1, 86_400)
        _check_range("grace", grace, 0, 86_400)
        for name, text in (("consumer", consumer), ("key_range", key_range)):
            if not isinstance(text, str | None):
                raise WorkerError(f"{name} is {text!r}; it is a text")
        if lease not in ("connection", "time"):
            raise WorkerError(f"lease is {lease!r}; it is 'connection' or 'time'")
        if keys not in KEYS:
            raise WorkerError(f"keys is {keys!r}; it is 'shared', 'sticky' or 'exclusive'")
        self._consumer = (consumer or f"{socket.gethostname()}:{os.getpid()}")[:64]
        self._batch, self._concurrency, self._grace = batch, concurrency, grace
        self._hooks = hooks or Hooks()
        prefetch = min(_PREFETCH_MAX, 1000 + 2 * concurrency * (batch or 1))
        self._statements = Statements(queue, self._consumer, prefetch, lease, ack_wait, False, key_range, keys)
        self._current: Run | None = None
        self._stopped_early = False

    def __repr__(self) -> str:
        return f"<Worker of {self._statements.queue} at {self._address}>"

    def run(self, handle: Callable[..., Any], *, drain: bool = False) -> None:
        """Handle messages until SIGTERM, SIGINT or `stop`; with `drain` until nothing is due.

        A second signal ends the process at once. Raises WorkerError if the worker cannot start or continue.
        """
        run_together((self, handle), drain=drain)

    async def serve(self, handle: Callable[..., Any], *, drain: bool = False, signals: bool = True) -> None:
        """The same inside an event loop, on which coroutines run. `signals`: end at SIGTERM and SIGINT, as all such
        workers of the loop do.

        The WorkerError that ends it is logged, too: the program may await it only at its own end. When it is cancelled
        it stops as `stop` does, and ends when the handlers have.
        """
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        run = self._new_run(handle, drain=drain, loop=loop)
        run.on_end(run.log_error)
        run.on_end(lambda: loop.call_soon_threadsafe(ended.set))

        with _until_a_signal_of(loop, run) if signals else nullcontext():
            run.start()
            try:
                await ended.wait()
            except asyncio.CancelledError:
                run.stop()
                await ended.wait()
                raise
        run.join()

    @contextmanager
    def running(self, handle: Callable[..., Any]) -> Iterator[None]:
        """Handle messages in threads while the block runs, and stop after it: for a program with other work, and for
        tests. Logs the WorkerError that ends it, and raises it at the end of the block."""
        run = self._new_run(handle, drain=False)
        run.on_end(run.log_error)
        run.start()
        try:
            yield
        finally:
            run.stop()
            run.join()

    def stop(self) -> None:
        """Receive nothing more, let handlers end within the grace time, and have `run` return; before `run` has begun,
        have that return at once. Thread-safe."""
        if self._current is None:
            self._stopped_early = True
        if self._current is not None:  # also where it has begun meanwhile
            self._current.stop()

    def abandon(self, message: Message) -> None:
        """Do not wait for the handler of this message at the end: it does not end. Thread-safe."""
        if self._current is not None:
            self._current.abandon(message)

    def _new_run(
        self, handle: Callable[..., Any], *, drain: bool, loop: asyncio.AbstractEventLoop | None = None
    ) -> Run:
        plan = Plan(
            place=str(self._address),
            connect=connection_factory(self._address, self._consumer),
            statements=self._statements,
            handler=handler_of(handle, batches=self._batch is not None),
            hooks=self._hooks,
            concurrency=self._concurrency,
            batch=self._batch or 1,
            grace_seconds=self._grace,
            drain=drain,
            loop=loop,
        )
        self._current = run = Run(plan)
        if self._stopped_early:
            self._stopped_early = False
            run.stop()
        return run


def run_together(*pairs: tuple[Worker, Callable[..., Any]], drain: bool = False) -> None:
    """Run several workers in one process, each with its handler. If one cannot continue, all are stopped. With `drain`
    they run until nothing is due in any queue, also where the handler of one sends to another.

    Raises the first WorkerError.
    """
    runs: list[Run] = []
    again, stopping = True, False

    def stop() -> None:
        nonlocal stopping
        stopping = True
        for run in runs:
            run.stop()

    with _until_a_signal(stop):
        while again:
            runs[:] = [worker._new_run(handle, drain=drain) for worker, handle in pairs]
            if not stopping:
                _run_to_the_end(runs, drain=drain)
            again = drain and len(runs) > 1 and any(run.worked for run in runs) and not any(run.stopped for run in runs)


def _run_to_the_end(runs: Sequence[Run], *, drain: bool) -> None:
    ended: SimpleQueue[None] = SimpleQueue()
    for run in runs:
        run.on_end(lambda: ended.put(None))
    for run in runs:
        run.start()
    for number in range(len(runs)):
        _wait_for_one(ended)
        if number == 0 and not drain:
            for run in runs:
                run.stop()
    for run in runs:
        run.join()


def _wait_for_one(ended: SimpleQueue[None]) -> None:
    """Not without a timeout: a signal that comes in the moment in which the wait begins interrupts nothing, and its
    handler runs when the wait is over."""
    while True:
        with suppress(Empty):
            return ended.get(timeout=_WAIT_SECONDS)


def leave_process(code: int) -> NoReturn:
    """End the process although handlers have not ended: at its exit the interpreter would wait for the threads that
    they have started, also within libraries such as asgiref, while their messages are handled elsewhere."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextmanager
def _until_a_signal(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first signal. A second one has its previous effect: it ends the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def first(_number: int, _frame: object) -> None:
        restore()
        stop()

    for number in _SIGNALS:
        signal.signal(number, first)
    try:
        yield
    finally:
        restore()


_served: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Run]] = WeakKeyDictionary()
"""What a signal stops in a loop, which has one function for a signal."""


@contextmanager
def _until_a_signal_of(loop: asyncio.AbstractEventLoop, run: Run) -> Iterator[None]:
    """Stop the run, and the others of its loop, at the first signal. A second one ends the process."""
    runs = _served.setdefault(loop, [])

    def remove() -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    def stop() -> None:
        remove()
        for each in runs:
            each.stop()

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    runs.append(run)
    try:
        yield
    finally:
        runs.remove(run)
        if not runs:
            remove()


def _check_range(name: str, value: float, least: float, most: float, *, whole: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not least <= value <= most:
        raise WorkerError(f"{name} is {value!r}; it is a {'whole ' if whole else ''}number from {least} to {most}")
