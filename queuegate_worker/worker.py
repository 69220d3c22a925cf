"""The worker: what a program makes and runs."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from queuegate_worker.address import Address, address_of
from queuegate_worker.errors import WorkerError
from queuegate_worker.handlers import handler_of
from queuegate_worker.hooks import Hooks
from queuegate_worker.line import connecting
from queuegate_worker.run import Plan, Run
from queuegate_worker.statements import Statements, quoted

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_CONCURRENCY_MAX = 1000  # each is a thread and a connection
_BATCH_MAX = 10_000
_ROOM_MAX = 1_000_000  # the server's bound of `prefetch`


class Worker:
    """Receives messages of one queue and has a handler handle them.

    `address`: `mysql://user:password@host:port/database`, or arguments of `pymysql.connect`. `concurrency`: handlers
    that run at a time. `batch`: the handler gets a list of up to so many messages; None: one message. `ack_wait`: the
    length of a lease in seconds; None: the queue's. `lease`: 'connection' gives what is unacked to others as soon as
    this process is gone, 'time' when its lease ends. `consumer`: this worker's name in SHOW SUBSCRIPTIONS; None: host
    and process. `grace`: the seconds that running handlers get at the end. Raises WorkerError where something of it
    cannot be.
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
    ) -> None:
        self._address = address_of(address, os.environ)
        quoted(queue)
        _within("concurrency", concurrency, 1, _CONCURRENCY_MAX)
        _within("batch", batch or 1, 1, _BATCH_MAX)
        if ack_wait is not None:
            _within("ack_wait", ack_wait, 0.1, 86_400)
        _within("grace", grace, 0, 86_400)
        if lease not in ("connection", "time"):
            raise WorkerError(f"lease is {lease!r}; it is 'connection' or 'time'")
        self._consumer = (consumer or f"{socket.gethostname()}:{os.getpid()}")[:64]
        self._batch, self._concurrency, self._grace = batch, concurrency, grace
        self._hooks = hooks or Hooks()
        room = min(_ROOM_MAX, 1000 + 2 * concurrency * (batch or 1))
        self._statements = Statements(queue, self._consumer, room, lease, ack_wait)
        self._current: Run | None = None

    def __repr__(self) -> str:
        return f"<Worker of {self._statements.queue} at {self._address}>"

    def run(self, handle: Callable[..., Any], *, drain: bool = False) -> None:
        """Handle messages until SIGTERM, SIGINT or `stop`; with `drain` until nothing is due.

        A second signal ends the process at once. Raises WorkerError where the worker cannot begin or go on.
        """
        run_together((self, handle), drain=drain)

    async def serve(self, handle: Callable[..., Any], *, drain: bool = False, signals: bool = True) -> None:
        """The same inside an event loop, on which coroutines run. `signals`: end at SIGTERM and SIGINT.

        When it is cancelled it stops as `stop` does, and ends when the handlers have.
        """
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        run = self._prepared(handle, drain=drain, loop=loop)
        run.when_over(lambda: loop.call_soon_threadsafe(over.set))

        def stop() -> None:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
            run.stop()

        for number in _SIGNALS if signals else ():
            loop.add_signal_handler(number, stop)
        run.start()
        try:
            await over.wait()
        except asyncio.CancelledError:
            run.stop()
            await over.wait()
            raise
        finally:
            for number in _SIGNALS if signals else ():
                loop.remove_signal_handler(number)
        run.join()

    @contextmanager
    def running(self, handle: Callable[..., Any]) -> Iterator[None]:
        """Handle messages in threads while the block runs, and stop behind it: in a program that has more to do, and in
        tests. Raises WorkerError at the end of the block."""
        run = self._prepared(handle, drain=False)
        run.start()
        try:
            yield
        finally:
            run.stop()
            run.join()

    def stop(self) -> None:
        """Take nothing more, let handlers end within the grace time, and have `run` return. From any thread."""
        if self._current is not None:
            self._current.stop()

    def _prepared(
        self, handle: Callable[..., Any], *, drain: bool, loop: asyncio.AbstractEventLoop | None = None
    ) -> Run:
        plan = Plan(
            place=str(self._address),
            connect=connecting(self._address, self._consumer),
            statements=self._statements,
            handler=handler_of(handle, batches=self._batch is not None),
            hooks=self._hooks,
            concurrency=self._concurrency,
            batch=self._batch or 1,
            grace_seconds=self._grace,
            drain=drain,
            loop=loop,
        )
        self._current = Run(plan)
        return self._current


def run_together(*pairs: tuple[Worker, Callable[..., Any]], drain: bool = False) -> None:
    """Run several workers in one process, each with its handler. Where one cannot go on, all are stopped.

    Raises the first WorkerError.
    """
    runs = [worker._prepared(handle, drain=drain) for worker, handle in pairs]
    ended: SimpleQueue[None] = SimpleQueue()

    def stop() -> None:
        for run in runs:
            run.stop()

    for run in runs:
        run.when_over(lambda: ended.put(None))
    with _until_a_signal(stop):
        for run in runs:
            run.start()
        for number in range(len(runs)):
            ended.get()
            if number == 0 and not drain:
                stop()
    for run in runs:
        run.join()


@contextmanager
def _until_a_signal(stop: Callable[[], None]) -> Iterator[None]:
    """Have the first signal stop. A second one does what it did before: it ends the process."""
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


def _within(name: str, value: float, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise WorkerError(f"{name} is {value!r}; it is a number from {least} to {most}")
