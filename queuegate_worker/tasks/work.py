"""The tasks of a program in one process: a worker for each queue, time limits, and what they need in the database."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pymysql

from queuegate_worker.address import Address, address_of
from queuegate_worker.connection import Connect, Connection, connection_factory
from queuegate_worker.errors import WorkerError, error_number, permanent
from queuegate_worker.processes.child import EXIT_REPLACE, LEAVING, Parent
from queuegate_worker.statements import Statement, Statements
from queuegate_worker.tasks.handler import TaskHandler
from queuegate_worker.tasks.layout import columns, delete_expired, schedule, show_schedule, statements
from queuegate_worker.tasks.task import AnyTask
from queuegate_worker.tasks.time_limits import Attempt, TimeLimits, over_limit
from queuegate_worker.worker import Worker, run_together

logger = logging.getLogger("queuegate_worker")

_PROGRAM = "queuegate-tasks"
_ANSWER_SECONDS = 20.0
_NO_SUCH_SCHEDULE = 1539
_OF_LOCKS = frozenset((1205, 1213))  # a wait that was too long, a deadlock
_TRIES = 10
_EXPIRED_EVERY_SECONDS = 60.0
_EXPIRED_MAX = 1000  # results that are deleted at once

Target = str | Mapping[str, Any] | Address


def queues_of(option: str | None, tasks: Mapping[str, AnyTask]) -> list[str]:
    """The queues of `--queue a,b`; by default those of the tasks. Raises WorkerError."""
    if not option:
        return sorted({task.queue for task in tasks.values()})
    names = [name.strip() for name in option.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise WorkerError(f"--queue is {option!r}; it is one name, or several different ones with commas")
    return names


def create(target: Target, tasks: Iterable[AnyTask], show: Callable[[str], object]) -> None:
    """Make queues, tables and schedules where they are missing, and schedules anew that were changed in the program;
    show each statement. Raises WorkerError."""
    all_tasks = [*tasks]
    connection = Connection(_connect(target), _ANSWER_SECONDS)

    def run(what: Iterable[Statement]) -> None:
        for sql, values in what:
            with connection.driver_connection.cursor() as cursor:
                show(" ".join(cursor.mogrify(sql, values).split()) + ";\n")
            connection.execute(sql, values)

    try:
        run(statements(all_tasks))
        for name, query in columns(all_tasks):
            if not connection.has_columns(*query):
                raise WorkerError(f"{name} was there before, with other columns than those of tasks: use another name")
        for each in all_tasks:
            if each.schedule is not None:
                _make_schedule(connection, each, run)
    except (pymysql.MySQLError, OSError) as error:
        raise permanent(error, address_of(target, os.environ)) or WorkerError(f"{error.args[-1]}") from error
    finally:
        connection.close()


def _make_schedule(connection: Connection, task: AnyTask, run: Callable[[Iterable[Statement]], None]) -> None:
    """Also where several deployments do so at once: then their locks may end some of the statements."""
    for left in reversed(range(_TRIES)):
        try:
            what = [*schedule(task, _schedule_now(connection, task))]
            if not what[0][0].startswith("DROP"):
                run(what)
                return
            connection.begin()  # one that cannot be made anew stays as it is
            run(what)
            connection.commit()
            return
        except pymysql.MySQLError as error:
            if not left or error_number(error) not in _OF_LOCKS:
                raise
            connection.roll_back()


def _schedule_now(connection: Connection, task: AnyTask) -> str | None:
    """The statement that makes the task's schedule as it is; None: there is none."""
    try:
        return str([*connection.rows(*show_schedule(task))[0].values()][1])
    except pymysql.MySQLError as error:
        if error_number(error) == _NO_SUCH_SCHEDULE:
            return None
        raise


class TaskWork:
    """`new_worker` makes the worker of a queue. `parent`: the process that replaces this one; None: this one ends after
    a task over its time limit."""

    def __init__(
        self,
        target: Target,
        tasks: Mapping[str, AnyTask],
        queues: Sequence[str],
        new_worker: Callable[[str], Worker],
        parent: Parent | None,
    ) -> None:
        self._connect, self._tasks, self._parent = _connect(target), tasks, parent
        self._workers = {queue: new_worker(queue) for queue in queues}
        self._left = threading.Event()
        self._ended = threading.Event()

    def run(self, *, drain: bool) -> int:
        """Work until a signal, `drain`, or a task over its time limit; the exit code. Raises WorkerError."""
        publish = self._publish if self._parent is None else self._parent.deadline
        handler = TaskHandler(self._tasks, TimeLimits(self._overrun, publish, time.monotonic))
        if self._parent is not None:
            self._parent.on_gone(self._stop)
        expiry = threading.Thread(target=self._delete_expired, name="queuegate-expiry", daemon=True)
        expiry.start()
        try:
            run_together(*((worker, handler) for worker in self._workers.values()), drain=drain)
        except WorkerError as error:
            if not self._left.is_set():
                raise
            logger.error("%s; another process goes on", error)  # the other tasks had no time, or the database no answer
        finally:
            self._ended.set()
        expiry.join(_ANSWER_SECONDS)
        return EXIT_REPLACE if self._left.is_set() else 0

    def _publish(self, deadline: float | None) -> None:
        """Nobody reads it."""

    def _stop(self) -> None:
        for worker in self._workers.values():
            worker.stop()

    def _overrun(self, attempt: Attempt) -> None:
        """End its connection and fail its message; then have this process replaced."""
        self._left.set()
        self._workers[attempt.message.queue].abandon(attempt.message)
        try:
            self._fail(attempt)
        except (pymysql.MySQLError, OSError) as error:
            logger.warning("message %r comes again when this process has ended: %s", attempt.message.id, error)
        if self._parent is not None:
            for queue in self._workers:
                self._parent.state(queue, LEAVING)
        self._stop()

    def _fail(self, attempt: Attempt) -> None:
        message, task = attempt.message, attempt.task
        connection = Connection(self._connect, _ANSWER_SECONDS)
        try:
            if (number := attempt.transaction.connection_id) is not None:
                connection.execute("KILL %s", (number,))
            of_queue = Statements(message.queue, _PROGRAM, 1)
            reason = f"TimeLimitExceeded: {over_limit(task)}"
            last = task.is_last(message.epoch)
            settling = of_queue.reject([message], reason) if last else of_queue.nack([message], reason, None)
            for statement in settling:
                connection.execute(*statement)
        finally:
            connection.close()

    def _delete_expired(self) -> None:
        """A thread: deletes results whose time is over, now and then."""
        queues = sorted(
            {task.queue for task in self._tasks.values() if task.keep_result and task.queue in self._workers}
        )
        connection = Connection(self._connect, _ANSWER_SECONDS)
        while queues and not self._ended.wait(_EXPIRED_EVERY_SECONDS):
            for queue in queues:
                try:
                    while connection.execute(*delete_expired(queue, _EXPIRED_MAX)) == _EXPIRED_MAX:
                        pass
                except (pymysql.MySQLError, OSError) as error:
                    logger.warning("results of %s whose time is over are not deleted for now: %s", queue, error)
        connection.close()


def _connect(target: Target) -> Connect:
    return connection_factory(address_of(target, os.environ), _PROGRAM)
