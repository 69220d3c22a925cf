"""One run of a worker: its threads, and their end.

A control thread connects, starts the others, and waits for the reason to end: `stop`, an error that waiting does not
mend, or a queue that is drained. Then the poll is ended, running handlers get the grace time, and the lines are closed.
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

from queuegate_worker.errors import WorkerError
from queuegate_worker.handlers import Caller, Handler, InThread, OnLoop
from queuegate_worker.heartbeat import Heartbeat
from queuegate_worker.held import Held
from queuegate_worker.hooks import Hooks
from queuegate_worker.line import Connect, Line
from queuegate_worker.receiver import WAIT_SECONDS, Batch, Receiver, attempts, columns_to_ask_for
from queuegate_worker.room import Room
from queuegate_worker.slot import Slot
from queuegate_worker.statements import Statements, ack_wait_of

logger = logging.getLogger("queuegate_worker")

_ANSWER_SECONDS = 300.0  # for a handler's own SQL; a line that died silently is noticed after it
_SHORT_ANSWER_SECONDS = 20.0
_KILL_SECONDS = 0.2  # between attempts to end a poll; the first may come just before it began
_KILLS = 10
_CANCELLED_SECONDS = 5.0  # for coroutines to end after they are cancelled


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run works with. `loop`: where coroutines run; None: a loop of the run's own."""

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
        self._reasons: SimpleQueue[WorkerError | None] = SimpleQueue()
        self._stopping, self._closing, self._over = threading.Event(), threading.Event(), threading.Event()
        self._received_last = threading.Event()
        self._work: SimpleQueue[Batch | None] = SimpleQueue()
        self._room, self._held = Room(plan.concurrency), Held()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._looping: threading.Thread | None = None
        self._error: WorkerError | None = None
        self._whenever_over: list[Callable[[], object]] = []
        self._control = self._thread(self._conduct, "control")

    def start(self) -> None:
        """Begin."""
        self._control.start()

    def stop(self) -> None:
        """Ask for the end; returns at once. Safe in a signal handler, and in a handler of messages."""
        self._reasons.put(None)

    def when_over(self, tell: Callable[[], object]) -> None:
        """Have `tell` called in the control thread once the run is over. To be said before `start`."""
        self._whenever_over.append(tell)

    def join(self) -> None:
        """Wait for the end. Raises the WorkerError that ended the run."""
        self._over.wait()
        if self._error is not None:
            raise self._error

    def _thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        return threading.Thread(target=target, name=f"queuegate-{name}", daemon=True)

    def _conduct(self) -> None:
        watcher = self._thread(self._watch, "watcher")
        watcher.start()
        try:
            self._live()
        except WorkerError as error:
            self._error = self._error or error
        except Exception as error:
            logger.exception("a defect of the worker")
            self._error = self._error or WorkerError(f"a defect of the worker: {error!r}")
        finally:
            self._reasons.put(None)
            self._over.set()
            for tell in self._whenever_over:
                tell()

    def _watch(self) -> None:
        """Turns the first reason to end into the event that others wait on.

        `stop` may run in a signal handler, where an event could be locked by the code that it interrupts.
        """
        error = self._reasons.get()
        self._error = self._error or error
        self._stopping.set()

    def _live(self) -> None:
        line = Line(self._plan.connect, WAIT_SECONDS + _SHORT_ANSWER_SECONDS)
        learned = self._learned(line)
        if learned is None:
            line.close()
            return
        columns, statements = learned
        assert statements.ack_wait is not None
        caller = self._caller()
        heart_line = Line(self._plan.connect, _SHORT_ANSWER_SECONDS)
        heartbeat = Heartbeat(heart_line, statements, self._held, statements.ack_wait, self._plan.clock)
        receiver = Receiver(
            line, statements, columns, self._room, self._held, self._plan.hooks,
            batch=self._plan.batch, drain=self._plan.drain, hand_over=self._work.put, clock=self._plan.clock,
            pause=self._stopping.wait, away=heartbeat.at_once,
        )  # fmt: skip
        self._thread(heartbeat.run, "heartbeat").start()
        for number in range(self._plan.concurrency):
            slot = self._slot(statements, caller)
            self._thread(lambda slot=slot: self._serve(slot), f"slot-{number}").start()  # type: ignore[misc]
        receiving = self._thread(lambda: self._receive(receiver, line), "receiver")
        receiving.start()
        logger.info("receiving from %s at %s", statements.queue, self._plan.place)
        self._stopping.wait()
        receiver.stop()
        self._end_poll(receiver)
        self._finish(caller)
        heartbeat.end()
        receiving.join(_KILL_SECONDS)
        self._end_loop()

    def _learned(self, line: Line) -> tuple[list[str], Statements] | None:
        """The queue's columns, and the statements with the length of its leases; None where the end comes first."""
        plan = self._plan
        for failed in attempts(self._stopping.wait, plan.hooks, plan.place, self._stopping.is_set):
            try:
                found = line.columns(*plan.statements.columns)
                # One that `*` shows is a column of the user's.
                tokens = "lease_token" not in found and line.takes(*plan.statements.asks_for_tokens)
                columns = columns_to_ask_for(found, tokens=tokens)
                seconds = plan.statements.ack_wait
                if seconds is None:
                    seconds = ack_wait_of(str([*line.rows(*plan.statements.create)[0].values()][1]))
                if seconds is None:
                    raise WorkerError(f"{plan.statements.queue} does not say its ack_wait: give the worker one")
                return columns, replace(plan.statements, ack_wait=seconds, has_tokens=tokens)
            except (pymysql.MySQLError, OSError) as error:
                failed(error)
            except RuntimeError as error:  # PyMySQL lacks the library of the account's plugin
                raise WorkerError(f"{plan.place}: {error}; pip install 'pymysql[rsa,ed25519]'") from error
        return None

    def _caller(self) -> Caller:
        plan = self._plan
        if not plan.handler.asynchronous:
            return InThread(plan.handler, plan.hooks)
        if plan.loop is not None:
            return OnLoop(plan.handler, plan.hooks, plan.loop)
        self._loop = asyncio.new_event_loop()
        self._looping = self._thread(self._loop.run_forever, "loop")
        self._looping.start()
        return OnLoop(plan.handler, plan.hooks, self._loop)

    def _end_loop(self) -> None:
        """End the run's own loop; one that a handler blocks is left to the end of the process."""
        if self._loop is not None and self._looping is not None:
            asyncio.run_coroutine_threadsafe(_stop_loop(), self._loop)
            self._looping.join(_CANCELLED_SECONDS)
            if not self._looping.is_alive():
                self._loop.close()

    def _slot(self, statements: Statements, caller: Caller) -> Slot:
        plan = self._plan
        return Slot(
            Line(plan.connect, _ANSWER_SECONDS), statements, caller, self._held, plan.hooks,
            transactional=plan.handler.transactional, clock=plan.clock, pause=self._closing.wait,
            fail=self._reasons.put,
        )  # fmt: skip

    def _serve(self, slot: Slot) -> None:
        """A slot's thread."""
        while (batch := self._work.get()) is not None:
            try:
                slot.work(batch)
            except Exception as error:
                logger.exception("a defect of the worker")
                self._reasons.put(WorkerError(f"a defect of the worker: {error!r}"))
            finally:
                self._room.give_back()
        slot.close()

    def _receive(self, receiver: Receiver, line: Line) -> None:
        """The receiver's thread. Its line, and with it the leases of what has not ended in time, is closed last."""
        try:
            receiver.run()
            self._reasons.put(None)
        except WorkerError as error:
            self._reasons.put(error)
        except Exception as error:
            logger.exception("a defect of the worker")
            self._reasons.put(WorkerError(f"a defect of the worker: {error!r}"))
        self._received_last.set()
        self._closing.wait()
        line.close()

    def _end_poll(self, receiver: Receiver) -> None:
        """End the poll that waits. Where that cannot be done, what it may still receive is given back at once."""
        line = Line(self._plan.connect, _SHORT_ANSWER_SECONDS)
        try:
            for _ in range(_KILLS):
                if (connection := receiver.polling) is not None:
                    line.execute("KILL QUERY %s", (connection,))
                if self._received_last.wait(_KILL_SECONDS):
                    break
        except (pymysql.MySQLError, OSError) as error:
            logger.info("the poll that waits could not be ended: %s", error)
        finally:
            line.close()

    def _finish(self, caller: Caller) -> None:
        """Give running handlers their time."""
        in_time = self._room.wait_idle(self._plan.grace_seconds)
        if not in_time:
            caller.cut_off()
            in_time = self._plan.handler.asynchronous and self._room.wait_idle(_CANCELLED_SECONDS)
        if not in_time:
            over = f"the grace time is over: {len(self._held)} messages are still being handled, and go to others"
            logger.error(over)
            self._error = self._error or WorkerError(over)
        self._closing.set()
        for _ in range(self._plan.concurrency):
            self._work.put(None)


async def _stop_loop() -> None:
    """Runs on the run's own loop, as its last task."""
    loop = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    loop.stop()
