"""What is known of a task: from its message, from the row of its result, or from both.

A message that is not acked decides: the task waits or runs. Else the stored result does. A message in the dead-letter
queue without a stored result has ended its workers too often.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.db import DatabaseError, connections
from django.utils import timezone
from django.utils.module_loading import import_string

from queuegate_django import queues
from queuegate_django.options import Options
from queuegate_django.tasks_api import Task, TaskError, TaskResult, TaskResultDoesNotExist, TaskResultStatus
from queuegate_worker.mysql_client.driver import error_number

UNKNOWN_WORKER = "unknown"
"""Stands for a worker whose name the row does not have: that of a running attempt, or one that was killed."""

_FAILED, _READY, _RUNNING = TaskResultStatus.FAILED, TaskResultStatus.READY, TaskResultStatus.RUNNING


class NoResults(Exception):
    """The database lacks the table of results; the text says what to do."""


class TaskRejected(Exception):
    """The error of a task that has no result: each worker that ran it ended meanwhile, or its message was rejected by
    hand. It is raised nowhere."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How far a task has come. Times are aware. `errors`: those of its attempts."""

    status: Any
    return_value: Any = None
    errors: tuple[Any, ...] = ()
    worker_ids: tuple[str, ...] = ()
    started_at: datetime | None = None
    last_attempted_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A task as it was enqueued, and its `ending`. `task`: an import path. `args`: `args` and `kwargs`, as JSON has
    them."""

    id: str
    queue_name: str
    task: str
    args: Mapping[str, Any]
    priority: int
    run_after: datetime | None
    enqueued_at: datetime
    ending: Ending

    def imported_task(self, backend_alias: str) -> Any:
        """The Task. Raises what its import raises, and SuspiciousOperation if something else has that path."""
        task = import_string(self.task)
        if not isinstance(task, Task):
            raise SuspiciousOperation(f"{self.task} of task {self.id} is not a task")
        return task.using(
            priority=self.priority,
            queue_name=self.queue_name,
            run_after=_of_settings(self.run_after),
            backend=backend_alias,
        )

    def result(self, task: Any, backend_alias: str) -> Any:
        """The TaskResult of this task."""
        ending = self.ending
        result = TaskResult(
            task=task,
            id=f"{self.queue_name}:{self.id}",
            status=ending.status,
            enqueued_at=_of_settings(self.enqueued_at),
            started_at=_of_settings(ending.started_at),
            finished_at=_of_settings(ending.finished_at),
            last_attempted_at=_of_settings(ending.last_attempted_at),
            args=self.args["args"],
            kwargs=self.args["kwargs"],
            backend=backend_alias,
            errors=[*ending.errors],
            worker_ids=[*ending.worker_ids],
        )
        object.__setattr__(result, "_return_value", ending.return_value)
        return result

    def with_ending(self, **changes: Any) -> Record:
        """The same task, having come further."""
        return replace(self, ending=replace(self.ending, **changes))


def new_id() -> str:
    """The random part of a result's id."""
    return secrets.token_hex(16)


def now() -> datetime:
    """The time, aware."""
    return datetime.now(UTC)


def aware(value: datetime) -> datetime:
    """A time of the application as an aware one: without USE_TZ its times are naive, of the default time zone."""
    return value if timezone.is_aware(value) else timezone.make_aware(value, timezone.get_default_timezone())


def _of_settings(value: datetime | None) -> datetime | None:
    """The opposite of `aware`."""
    if value is None or settings.USE_TZ:
        return value
    return timezone.make_naive(value, timezone.get_default_timezone())  # type: ignore[no-any-return]


def read(options: Options, result_id: str) -> Record:
    """What is known of a task. Raises TaskResultDoesNotExist."""
    queue_name, _, task_id = result_id.rpartition(":")
    try:
        options.table(queue_name)
    except ValueError:
        raise TaskResultDoesNotExist(result_id) from None
    stored = stored_record(options, queue_name, task_id)
    if stored is not None and stored.ending.status == TaskResultStatus.SUCCESSFUL:
        return stored
    row = queues.message_row(options, queue_name, task_id)
    if row is not None and row["state"] in ("waiting", "in flight"):
        return _unfinished(queue_name, task_id, row, stored)
    # Between the two queries it may have ended.
    stored = stored_record(options, queue_name, task_id)
    if stored is not None and stored.ending.status != _READY:
        return stored
    if row is None:
        row = queues.dead_letter_row(options, queue_name, task_id)
    if row is None or row["state"] == "acked":
        raise TaskResultDoesNotExist(result_id)
    return _lost(queue_name, task_id, row, stored)


def record_of(queue_name: str, columns: Mapping[str, Any]) -> Record:
    """A task from the columns of its message. Raises ValueError, TypeError or KeyError for another program's."""
    run_after, enqueued_at = columns["run_after"], columns["enqueued_at"]
    arguments = json.loads(columns["args"])
    return Record(
        id=columns["task_id"],
        queue_name=queue_name,
        task=columns["task"],
        args={"args": [*arguments["args"]], "kwargs": {**arguments["kwargs"]}},
        priority=-columns["priority"],
        run_after=None if run_after is None else run_after.replace(tzinfo=UTC),
        enqueued_at=enqueued_at.replace(tzinfo=UTC),
        ending=Ending(_READY),
    )


def workers_of(failed_attempts: str | bytes | None, attempts: int, stored: Record | None) -> tuple[str, ...]:
    """The workers of the first attempts: those of the stored result, and receivers that the message names."""
    receivers = queues.receivers_of(failed_attempts)
    if stored is not None:
        stored_ids = enumerate(stored.ending.worker_ids, start=1)
        receivers |= {number: name for number, name in stored_ids if name != UNKNOWN_WORKER}
    return tuple(receivers.get(number) or UNKNOWN_WORKER for number in range(1, attempts + 1))


def _unfinished(queue_name: str, task_id: str, row: Mapping[str, Any], stored: Record | None) -> Record:
    """A task that waits or runs. Its lease token is the time of its last delivery, in microseconds."""
    epoch, token = int(row["epoch"]), int(row["lease_token"] or 0)
    earlier = stored if stored is not None and stored.ending.status == _READY else None
    delivered = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=token) if epoch and token else None
    return record_of(queue_name, {**row, "task_id": task_id}).with_ending(
        status=_RUNNING if row["state"] == "in flight" else _READY,
        errors=() if earlier is None else earlier.ending.errors,
        worker_ids=workers_of(row["failed_attempts"], epoch, earlier),
        started_at=delivered if earlier is None or not epoch else earlier.ending.started_at,
        last_attempted_at=delivered,
    )


def _lost(queue_name: str, task_id: str, row: Mapping[str, Any], stored: Record | None) -> Record:
    """A rejected message whose worker could not store a result, or whose result is purged."""
    reason = row["last_error"] or "the worker's process ended while it ran the task"
    error = TaskError(exception_class_path=f"{TaskRejected.__module__}.{TaskRejected.__qualname__}", traceback=reason)
    attempts = int(row.get("attempts") or row.get("epoch") or 0)
    return record_of(queue_name, {**row, "task_id": task_id}).with_ending(
        status=_FAILED,
        errors=(*(stored.ending.errors if stored is not None else ()), error),
        worker_ids=workers_of(row["failed_attempts"], attempts, stored),
        started_at=None if stored is None else stored.ending.started_at,
        last_attempted_at=None if stored is None else stored.ending.last_attempted_at,
    )


def _stored_results(options: Options) -> Any:
    """The rows of the table. The model may be imported only when all applications are there."""
    return apps.get_model("queuegate_django", "StoredResult").objects.using(options.database)


def check_table(options: Options) -> None:
    """Raises NoResults, and errors of the database. Leaves no connection open that was not."""
    connection = connections[options.database]
    was_open = connection.connection is not None
    try:
        _stored_results(options).order_by().values_list("pk").first()
    except DatabaseError as error:
        if error_number(error) != queues.NO_SUCH_TABLE:
            raise
        raise NoResults(
            f"the database {options.database!r} has no table of results: run `manage.py migrate --database"
            f" {options.database}`"
        ) from error
    finally:
        if not was_open:
            connection.close()


def stored_record(options: Options, queue_name: str, task_id: str) -> Record | None:
    """What the table of results has of a task."""
    row = _stored_results(options).filter(pk=task_id, queue=queue_name).first()
    if row is None:
        return None
    times = ("run_after", "enqueued_at", "started_at", "last_attempted_at", "finished_at")
    at = {name: None if (value := getattr(row, name)) is None else aware(value) for name in times}
    ending = Ending(
        status=TaskResultStatus(row.status),
        return_value=row.return_value,
        errors=tuple(TaskError(**each) for each in row.errors),
        worker_ids=tuple(row.worker_ids),
        started_at=at["started_at"],
        last_attempted_at=at["last_attempted_at"],
        finished_at=at["finished_at"],
    )
    assert at["enqueued_at"] is not None
    return Record(row.pk, row.queue, row.task, row.args, row.priority, at["run_after"], at["enqueued_at"], ending)


def store(options: Options, backend_alias: str, record: Record) -> None:
    """Write a result, with one statement, over an earlier one of the same task."""
    ending = record.ending
    values = {
        "backend": backend_alias,
        "queue": record.queue_name,
        "task": record.task,
        "args": dict(record.args),
        "priority": record.priority,
        "run_after": _of_settings(record.run_after),
        "status": ending.status,
        "return_value": ending.return_value,
        "errors": [
            {"exception_class_path": each.exception_class_path, "traceback": each.traceback} for each in ending.errors
        ],
        "worker_ids": [*ending.worker_ids],
        "enqueued_at": _of_settings(record.enqueued_at),
        "started_at": _of_settings(ending.started_at),
        "last_attempted_at": _of_settings(ending.last_attempted_at),
        "finished_at": _of_settings(ending.finished_at),
        "written_at": _of_settings(now()),
    }
    rows = _stored_results(options)
    rows.bulk_create([rows.model(id=record.id, **values)], update_conflicts=True, update_fields=[*values])


def purge(options: Options, backend_alias: str) -> int:
    """Delete results of the backend that are older than `keep_results`; how many there were. The errors of a task that
    is to come again stay as long as its message does."""
    rows, time = _stored_results(options).filter(backend=backend_alias), _of_settings(now() - options.keep_results)
    deleted = int(rows.delete_before(time))
    for queue_name, task_ids in rows.unfinished_before(time):
        gone = [*{*task_ids} - queues.unacked(options, queue_name, task_ids)]
        deleted += int(rows.filter(status=_READY).delete_those(gone))
    return deleted
