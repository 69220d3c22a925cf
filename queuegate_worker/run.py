"""One run of a worker: its threads, and their end.

A control thread connects, starts the others, and waits for the reason to end: `stop`, an error that waiting does not
fix, or a queue that is drained. Then the poll is ended, running handlers get the grace time, and the connections are
closed.
The threads are daemons: a handler that does not end in its time ends with the process.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from queue import SimpleQueue

import pymysql

from queuegate_worker.acker import Acker
from queuegate_worker.connection import Connect, Connection
from queuegate_worker.errors import WorkerError
from queuegate_worker.free_slots import FreeSlots, Pace
from queuegate_worker.handlers import Caller, Handler, InThread, OnLoop
from queuegate_worker.heartbeat import Heartbeat, InFlight
from queuegate_worker.hooks import Hooks, notify
from queuegate_worker.message import Message
from queuegate_worker.receiver import WAIT_SECONDS, Batch, Receiver, columns_to_select, connect_attempts
from queuegate_worker.settler import Settler
from queuegate_worker.shared import Shared
from queuegate_worker.slot import Slot
from queuegate_worker.statements import Statements, ack_wait_of

logger = logging.getLogger("queuegate_worker")

_ANSWER_SECONDS = 300.0  # for a handler's own SQL; a connection that died silently is detected after it
_SHORT_ANSWER_SECONDS = 20.0
_KILL_SECONDS = 0.2  # between attempts to end a poll; the first may come just before it began
_KILLS = 10
_GIVING_BACK_SECONDS = 10.0  # for the messages that no slot has taken, on a busy database
_CANCELLED_SECONDS = 5.0  # for coroutines to end after they are cancelled


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run. `loop`: where coroutines run; None: a loop of the run's own."""

    place: str
    connect: Connect
    statements: Statements
    handler: Handler
    hooks: Hooks
    concurrency: int
    batch: int
    grace_seconds: float
    drain: bool = False
    loop: asyncio.AbstractEventLoop | None = None
    clock: Callable[[], float] = time.monotonic


class Run:
    """See the module."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._stop_reasons: SimpleQueue[WorkerError | None] = SimpleQueue()
        self._stopping, self._closing, self._ended = threading.Event(), threading.Event(), threading.Event()
        self._receiver_done = threading.Event()
        self._work: SimpleQueue[Batch | None] = SimpleQueue()
        self._free_slots, self._in_flight = FreeSlots(plan.concurrency), InFlight()
        self._pace = Pace(plan.concurrency, plan.batch)
        self._own_loop: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None
        self._stopped = False
        self._error: WorkerError | None = None
        self._end_callbacks: list[Callable[[], object]] = []
        self._control = self._thread(self._control_main, "control")

    def start(self) -> None:
        """Begin."""
        self._control.start()

    def stop(self) -> None:
        """Ask for the end; returns at once. Safe in a signal handler, and in a handler of messages."""
        self._stopped = True
        self._stop_reasons.put(None)

    def abandon(self, message: Message) -> None:
        """Neither renew this message's lease nor wait for its handler at the end. Thread-safe."""
        self._in_flight.remove([message])
        self._free_slots.abandon(message)

    def on_end(self, callback: Callable[[], object]) -> None:
        """Have `callback` called in the control thread when the run has ended. To be registered before `start`."""
        self._end_callbacks.append(callback)

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    @property
    def worked(self) -> bool:
        """Whether it has handled messages."""
        return self._pace.worked

    def join(self) -> None:
        """Wait for the end. Raises the WorkerError that ended the run."""
        self._ended.wait()
        if self._error is not None:
            raise self._error

    def log_error(self) -> None:
        """Log the error that ended the run: for a program that joins it much later."""
        if self._error is not None:
            logger.error("the worker of %s has ended: %s", self._plan.statements.queue, self._error)

    def _thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        return threading.Thread(target=target, name=f"queuegate-{name}", daemon=True)

    def _control_main(self) -> None:
        watcher = self._thread(self._watch, "watcher")
        watcher.start()
        try:
            self._run_until_stopped()
        except WorkerError as error:
            self._error = self._error or error
        except Exception as error:
            logger.exception("a defect of the worker")
            self._error = self._error or WorkerError(f"a defect of the worker: {error!r}")
        finally:
            self._stop_reasons.put(None)
            self._ended.set()
            for callback in self._end_callbacks:
                callback()

    def _watch(self) -> None:
        """Turns the first reason to end into the event that others wait on.

        `stop` may run in a signal handler, where an event could be locked by the code that it interrupts.
        """
        error = self._stop_reasons.get()
        self._error = self._error or error
        self._stopping.set()

    def _run_until_stopped(self) -> None:
        connection = Connection(self._plan.connect, WAIT_SECONDS + _SHORT_ANSWER_SECONDS)
        description = self._describe_queue(connection)
        if description is None:
            connection.close()
            return
        columns, statements = description
        assert statements.ack_wait is not None
        caller = self._caller()
        heartbeat_connection = Connection(self._plan.connect, _SHORT_ANSWER_SECONDS)
        heartbeat = Heartbeat(heartbeat_connection, statements, self._in_flight, statements.ack_wait, self._plan.clock)
        shared = self._shared(statements)
        receiver = Receiver(
            connection,
            shared,
            columns,
            batch=self._plan.batch,
            drain=self._plan.drain,
            dispatch=self._work.put,
            on_reconnect=heartbeat.at_once,
        )
        self._thread(lambda: self._guarded(heartbeat.run), "heartbeat").start()
        acker = self._acker(shared)
        self._thread(lambda: self._guarded(acker.run), "acker").start()
        for number in range(self._plan.concurrency):
            slot = self._slot(shared, caller, acker)
            self._thread(lambda slot=slot: self._serve(slot), f"slot-{number}").start()  # type: ignore[misc]
        receiving = self._thread(lambda: self._receive(receiver, connection), "receiver")
        receiving.start()
        logger.info("receiving from %s at %s", statements.queue, self._plan.place)
        notify(self._plan.hooks.receiving)
        self._stopping.wait()
        if self._stopped and (busy := self._free_slots.busy):
            logger.info(
                "stopping: running handlers (%s: %d) have up to %g s; a second signal ends the process at once",
                statements.queue,
                busy,
                self._plan.grace_seconds,
            )
        until = self._plan.clock() + self._plan.grace_seconds
        receiver.stop()
        # Before a proxy that is silent it takes long, of the time that handlers have.
        ending = self._thread(lambda: self._end_poll(receiver), "end-poll")
        ending.start()
        ending.join(max(self._plan.grace_seconds, _KILLS * _KILL_SECONDS))
        self._finish(caller, max(until - self._plan.clock(), 0.0))
        acker.end()
        heartbeat.end()
        receiving.join(_KILL_SECONDS if receiver.polling_id is not None else _GIVING_BACK_SECONDS)
        self._end_loop()

    def _describe_queue(self, connection: Connection) -> tuple[list[str], Statements] | None:
        """The queue's columns, and the statements with the length of its leases; None if the run ends first."""
        plan = self._plan
        stopped = self._stopping.is_set
        for failed in connect_attempts(self._stopping.wait, plan.hooks, plan.place, stopped, drain=plan.drain):
            try:
                columns = connection.columns(*plan.statements.columns)
                # If `*` includes it, it is a column of the user's.
                tokens = "lease_token" not in columns and connection.has_columns(*plan.statements.probe_tokens)
                columns = columns_to_select(columns, tokens=tokens)
                seconds = plan.statements.ack_wait
                if seconds is None:
                    seconds = ack_wait_of(str([*connection.rows(*plan.statements.create)[0].values()][1]))
                if seconds is None:
                    raise WorkerError(f"{plan.statements.queue} does not say its ack_wait: give the worker one")
                return columns, replace(plan.statements, ack_wait=seconds, has_tokens=tokens)
            except (pymysql.MySQLError, OSError) as error:
                failed(error)
            except RuntimeError as error:  # PyMySQL lacks the library for the account's plugin
                raise WorkerError(f"{plan.place}: {error}; pip install 'pymysql[rsa,ed25519]'") from error
        return None

    def _caller(self) -> Caller:
        plan = self._plan
        if not plan.handler.asynchronous:
            return InThread(plan.handler, plan.hooks)
        if plan.loop is not None:
            return OnLoop(plan.handler, plan.hooks, plan.loop)
        loop = asyncio.new_event_loop()
        thread = self._thread(lambda: _run_loop(loop), "loop")
        self._own_loop = loop, thread
        thread.start()
        return OnLoop(plan.handler, plan.hooks, loop)

    def _end_loop(self) -> None:
        """End the run's own loop; a loop that a handler blocks ends with the process."""
        if self._own_loop is not None:
            loop, thread = self._own_loop
            asyncio.run_coroutine_threadsafe(_stop_loop(), loop)
            thread.join(_CANCELLED_SECONDS)
            if not thread.is_alive():
                loop.close()

    def _shared(self, statements: Statements) -> Shared:
        return Shared(
            statements=statements,
            hooks=self._plan.hooks,
            in_flight=self._in_flight,
            free_slots=self._free_slots,
            pace=self._pace,
            clock=self._plan.clock,
            pause=self._closing.wait,
            pause_receiving=self._stopping.wait,
            fail=self._stop_reasons.put,
        )

    def _acker(self, shared: Shared) -> Acker:
        connection = Connection(self._plan.connect, _ANSWER_SECONDS)
        return Acker(Settler(connection, shared.statements, shared.pause), shared)

    def _slot(self, shared: Shared, caller: Caller, acker: Acker) -> Slot:
        connection = Connection(self._plan.connect, _ANSWER_SECONDS)
        return Slot(connection, shared, caller, acker, transactional=self._plan.handler.transactional)

    def _serve(self, slot: Slot) -> None:
        """A slot's thread."""
        while (batch := self._work.get()) is not None:
            began = self._plan.clock()
            try:
                self._guarded(lambda batch=batch: slot.work(batch))  # type: ignore[misc]
            finally:
                self._pace.handled(self._plan.clock() - began)
                self._free_slots.release(batch)
        slot.close()

    def _receive(self, receiver: Receiver, connection: Connection) -> None:
        """The receiver's thread. Its connection, which owns the leases of unfinished messages, is closed last."""
        self._guarded(receiver.run)
        self._stop_reasons.put(None)
        self._receiver_done.set()
        while not self._closing.wait(receiver.awake_seconds):
            self._guarded(receiver.keep_awake)
        connection.close()

    def _guarded(self, do: Callable[[], object]) -> None:
        """Do it; what it raises ends the run."""
        try:
            do()
        except WorkerError as error:
            self._stop_reasons.put(error)
        except Exception as error:
            logger.exception("a defect of the worker")
            self._stop_reasons.put(WorkerError(f"a defect of the worker: {error!r}"))

    def _end_poll(self, receiver: Receiver) -> None:
        """End the waiting poll. If that fails, messages that it still receives are given back at once."""
        connection = Connection(self._plan.connect, _SHORT_ANSWER_SECONDS)
        try:
            for _ in range(_KILLS):
                if (connection_id := receiver.polling_id) is not None:
                    connection.execute("KILL QUERY %s", (connection_id,))
                if self._receiver_done.wait(_KILL_SECONDS):
                    break
        except (pymysql.MySQLError, OSError) as error:
            logger.info("the poll that waits could not be ended: %s", error)
        finally:
            connection.close()

    def _finish(self, caller: Caller, seconds: float) -> None:
        """Give running handlers that time."""
        in_time = self._free_slots.wait_idle(seconds)
        if not in_time:
            caller.cancel()
            in_time = self._plan.handler.asynchronous and self._free_slots.wait_idle(_CANCELLED_SECONDS)
        if not in_time:
            over = f"the grace time is over: {len(self._in_flight)} messages are still being handled, and go to others"
            logger.error(over)
            self._error = self._error or WorkerError(over)
        self._closing.set()
        for _ in range(self._plan.concurrency):
            self._work.put(None)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Run it until `_stop_loop`. What leaves it besides, such as `sys.exit` in a task, is the task's outcome too."""
    while True:
        try:
            loop.run_forever()
            return
        except (SystemExit, KeyboardInterrupt) as error:
            logger.warning("%s in a coroutine: the event loop goes on", type(error).__name__)


async def _stop_loop() -> None:
    """Runs on the run's own loop, as its last task."""
    loop = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    loop.stop()
