"""One task, run by a worker: the function, its result and the ack in one transaction of Django's.

What a worker calls for each message is a `TaskHandler`. If the function raises, what it has written is rolled back, and
a second transaction stores the error and rejects the message, or has it come again. So it is where the result cannot be
stored. A passing fault of the database before or after the function, such as a lost connection, is no error of the
task: then the worker nacks the message, and the task runs again. What a function of `transaction.on_commit` raises
comes after the commit: it is logged, and changes nothing.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from django.db import Error, InterfaceError, close_old_connections, connections, transaction

from queuegate_django import queues, results
from queuegate_django.results import Record
from queuegate_django.tasks_api import (
    LOGGER,
    TaskContext,
    TaskResultStatus,
    json_text,
    normalize_json,
    task_backends,
    task_error,
    task_finished,
    task_started,
)
from queuegate_worker import LeaseLost, Message, Reject
from queuegate_worker.errors import BACKEND_LOST, LOST, reason_of
from queuegate_worker.mysql_client.driver import error_number

logger = logging.getLogger(LOGGER)

_UNKNOWN, _TOO_LARGE = 1105, 1153
_PASSING = (LOST | {1020, 1205, 1213, 1290, 1637, 1836, 3100, 3101}) - {_UNKNOWN, _TOO_LARGE}
"""MySQL's numbers for a connection that is lost or cannot be had, a lock that was not had, and a server that ends or
may not be written to. Any other error of the database would come again with the same result."""


class TaskHandler:
    """Runs the tasks of one queue. `backend`: its name in TASKS. `worker_id` is stored with each result.

    Raises LeaseLost, and errors of the database.
    """

    def __init__(self, backend: str, queue_name: str, worker_id: str) -> None:
        self._alias, self._queue_name, self._worker_id = backend, queue_name, worker_id

    def __call__(self, message: Message) -> None:
        """Run the task of a message, and settle the message."""
        close_old_connections()  # as Django does at the begin and the end of a request
        try:
            try:
                record = self._received(message)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise Reject(f"its columns are not those of a task of Django: {error!r}") from error
            _Run(task_backends[self._alias], message, record).run()
        finally:
            close_old_connections()

    def _received(self, message: Message) -> Record:
        """The task as it begins to run; with its earlier errors, if this is a further attempt."""
        record, began = results.record_of(self._queue_name, message.columns), results.now()
        stored = None
        if message.epoch > 1:
            options = task_backends[self._alias].settings
            stored = results.stored_record(options, self._queue_name, record.id)
        earlier = stored if stored is not None and stored.ending.status == TaskResultStatus.READY else None
        workers = results.workers_of(message["failed_attempts"], message.epoch - 1, earlier)
        return record.with_ending(
            status=TaskResultStatus.RUNNING,
            errors=() if earlier is None else earlier.ending.errors,
            started_at=began if earlier is None else earlier.ending.started_at,
            last_attempted_at=began,
            worker_ids=(*workers, self._worker_id),
        )


class _Run:
    """One attempt."""

    def __init__(self, backend: Any, message: Message, record: Record) -> None:
        self._backend, self._message, self._record = backend, message, record
        self._database = backend.settings.database
        self._result: Any = None  # of the task, once the task is imported
        self._in_task = False
        self._committed = False

    def run(self) -> None:
        """See the module."""
        try:
            self._result = self._record.result(self._record.imported_task(self._backend.alias), self._backend.alias)
            task_started.send_robust(sender=type(self._backend), task_result=self._result)
            with self._transaction_of_the_task():
                if self._backend.settings.atomic:
                    transaction.on_commit(self._note_commit, using=self._database)  # before those of the task
                self._in_task = True
                value = self._call()
                self._in_task = False
                self._succeed(value)
        except BaseException as error:
            if not self._committed:
                if isinstance(error, LeaseLost) or (not self._in_task and _is_passing(error)):
                    raise
                self._fail(error)
                return
            logger.exception(
                "Task id=%s path=%s is committed; a function of its transaction.on_commit failed, and later ones do not"
                " run",
                self._result.id,
                self._record.task,
            )
        self._finished()

    def _note_commit(self) -> None:
        self._committed = True

    def _transaction_of_the_task(self) -> AbstractContextManager[Any]:
        return self._atomic() if self._backend.settings.atomic else nullcontext()

    def _atomic(self) -> AbstractContextManager[Any]:
        """A transaction that ends in a commit. Without autocommit, which a task may have left, Django sends none."""
        connection = connections[self._database]
        if not connection.in_atomic_block and not connection.get_autocommit():
            connection.set_autocommit(True)
        return transaction.atomic(using=self._database, savepoint=False)  # type: ignore[no-any-return]

    def _call(self) -> Any:
        """What the function returns, as JSON has it; a coroutine function runs on a loop of its own."""
        task, args, kwargs = self._result.task, self._result.args, self._result.kwargs
        context = (TaskContext(task_result=self._result),) if task.takes_context else ()
        value = normalize_json(task.call(*context, *args, **kwargs))
        json_text(value)
        return value

    def _succeed(self, value: Any) -> None:
        self._end(status=TaskResultStatus.SUCCESSFUL, return_value=value, finished_at=results.now())
        with self._atomic():
            results.store(self._backend.settings, self._backend.alias, self._record)
            with connections[self._database].cursor() as cursor:
                self._message.ack(cursor)

    def _fail(self, error: BaseException) -> None:
        """Called while the error is handled, so that the log has its traceback."""
        # A worker that was killed has left no error. Errors from before a REDRIVE do not count.
        attempt = min(len(self._record.ending.errors) + 1, self._message.epoch)
        last = self._result is None or attempt >= self._backend.settings.max_attempts
        self._end(
            status=TaskResultStatus.FAILED if last else TaskResultStatus.READY,
            return_value=None,
            errors=(*self._record.ending.errors, task_error(error)),
            finished_at=results.now() if last else None,
        )
        close_old_connections()  # the task's error may be that its connection is lost
        with self._atomic():
            with connections[self._database].cursor() as cursor:
                settle = self._message.reject if last else self._message.nack
                settle(cursor, reason_of(error))
            if not last and self._is_rejected():
                last = True
                self._end(status=TaskResultStatus.FAILED, finished_at=results.now())
            results.store(self._backend.settings, self._backend.alias, self._record)
        if self._result is None:
            logger.exception("Task id=%s path=%s cannot be imported", self._record.id, self._record.task)
        elif last:
            self._finished()
        else:
            logger.warning(
                "Task id=%s path=%s failed, attempt=%d", self._result.id, self._record.task, attempt, exc_info=error
            )

    def _is_rejected(self) -> bool:
        """Whether this was the last delivery of the queue, which counts those that have ended a worker, too."""
        row = queues.message_row(self._backend.settings, self._record.queue_name, self._record.id)
        return row is None or row["state"] == "rejected"

    def _end(self, **changes: Any) -> None:
        self._record = self._record.with_ending(**changes)

    def _finished(self) -> None:
        """After the commit. An error of a receiver of the signal is logged by Django, and changes nothing."""
        result = self._record.result(self._result.task, self._backend.alias)
        task_finished.send_robust(sender=type(self._backend), task_result=result)


def _is_passing(error: BaseException) -> bool:
    """Whether it is a fault of the database that passes. Django's errors have no SQLSTATE, by which 08S01 of 1105 would
    be known."""
    if not isinstance(error, Error):
        return False
    if error_number(error) == _UNKNOWN:
        return str(error.args[-1]).startswith(BACKEND_LOST)
    return isinstance(error, InterfaceError) or error_number(error, -1) in _PASSING
