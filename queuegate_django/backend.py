"""The backend of Django's tasks: a task is a row of a queue, inserted in the transaction of the application."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

from django.apps import apps
from django.core import checks
from django.db import connections, transaction
from django.db.utils import ConnectionDoesNotExist

from queuegate_django import queues, results
from queuegate_django.options import options_of
from queuegate_django.tasks_api import (
    DEFAULT_TASK_QUEUE_NAME,
    BaseTaskBackend,
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    json_text,
    normalize_json,
    task_backends,
    task_enqueued,
)

_EPOCH = datetime.fromtimestamp(0, UTC)
_EARLIEST, _LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2262, 1, 1, tzinfo=UTC)
"""The times that a queue takes."""

Call = tuple[Any, Sequence[Any], dict[str, Any]]
"""A task, its arguments and its keyword arguments."""


class QueuegateBackend(BaseTaskBackend):
    """BACKEND in TASKS: "queuegate_django.backend.QueuegateBackend". docs/django.md has its OPTIONS."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.settings = options_of(alias, self.options, self.queues)

    @property
    def queue_names(self) -> list[str]:
        """The queues that are created, and received by a worker that names none."""
        return sorted(self.queues) or [DEFAULT_TASK_QUEUE_NAME]

    def validate_task(self, task: Any) -> None:
        """Raises InvalidTask if the task cannot be enqueued."""
        super().validate_task(task)
        path = f"{task.func.__module__}.{task.func.__qualname__}"
        if len(path) > queues.TASK_CHARACTERS:
            raise InvalidTask(f"the import path {path} has more than {queues.TASK_CHARACTERS} characters")
        if task.run_after is not None and results.aware(task.run_after) >= _LATEST:
            raise InvalidTask(f"run_after is {task.run_after}; a queue takes times before {_LATEST.year}")
        try:
            self.settings.table(task.queue_name)
        except ValueError as error:
            raise InvalidTask(str(error)) from None

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Insert a task over the connection of Django, and so in the transaction that is open there."""
        return self.enqueue_all([(task, args, kwargs)])[0]

    def enqueue_all(self, calls: Iterable[Call]) -> list[Any]:
        """Insert many tasks, all of them or none; their results in the same order. 500 go in one statement."""
        inserted: dict[tuple[str, bool], list[dict[str, Any]]] = {}
        enqueued = []
        for task, args, kwargs in calls:
            self.validate_task(task)
            record = self._record(task, normalize_json({"args": args, "kwargs": kwargs}))
            columns = self._columns(record)
            inserted.setdefault((record.queue_name, record.run_after is None), []).append(columns)
            enqueued.append(record.result(task, self.alias))
        with nullcontext() if len(enqueued) == 1 else transaction.atomic(using=self.settings.database):
            for (queue_name, _), rows in inserted.items():
                queues.insert(self.settings, queue_name, rows)
        for result in enqueued:
            task_enqueued.send(type(self), task_result=result)
        return enqueued

    def _record(self, task: Any, args: dict[str, Any]) -> results.Record:
        return results.Record(
            id=results.new_id(),
            queue_name=task.queue_name,
            task=task.module_path,
            args=args,
            priority=int(task.priority),
            run_after=None if task.run_after is None else results.aware(task.run_after),
            enqueued_at=results.now(),
            ending=results.Ending(TaskResultStatus.READY),
        )

    def _columns(self, record: results.Record) -> dict[str, Any]:
        columns: dict[str, Any] = {
            "task_id": record.id,
            "task": record.task,
            "args": json_text(record.args),
            "priority": -record.priority,  # of a queue the lowest goes first
            "enqueued_at": _text(record.enqueued_at),
        }
        if record.run_after is not None:
            due = record.run_after if record.run_after > _EARLIEST else _EPOCH
            microseconds = (due - _EPOCH) // timedelta(microseconds=1)
            columns |= {"run_after": _text(record.run_after), "time_scheduled": microseconds * 1000}
        return columns

    def get_result(self, result_id: str) -> Any:
        """The result of a task, by its id. Raises TaskResultDoesNotExist."""
        record = results.read(self.settings, str(result_id))
        if self.queues and record.queue_name not in self.queues:
            raise TaskResultDoesNotExist(result_id)
        return record.result(record.imported_task(self.alias), self.alias)

    def check(self, **kwargs: Any) -> Iterable[checks.CheckMessage]:
        """What can be found without a connection."""
        if not apps.is_installed("queuegate_django"):
            yield checks.Error(
                f"The task backend {self.alias!r} stores results in a table of 'queuegate_django', which is not"
                " installed.",
                "Add 'queuegate_django' to INSTALLED_APPS.",
                id="queuegate_django.E001",
            )
        database = self.settings.database
        try:
            vendor = connections[database].vendor
        except ConnectionDoesNotExist:
            vendor = "absent"
        if vendor != "mysql":
            yield checks.Error(
                f"The task backend {self.alias!r} uses the database {database!r}, which is "
                + ("not in DATABASES." if vendor == "absent" else f"of {vendor}, not of queuegate."),
                "Its ENGINE is django.db.backends.mysql, and its HOST and PORT those of queuegate. For tests without a"
                " server name another backend in TASKS: Django's ImmediateBackend or DummyBackend.",
                id="queuegate_django.E002",
            )
        elif not connections[database].settings_dict["AUTOCOMMIT"]:
            yield checks.Error(
                f"The task backend {self.alias!r} uses the database {database!r}, whose AUTOCOMMIT is False.",
                "Leave AUTOCOMMIT out: without it a worker's ack and the deletion of old results are not committed.",
                id="queuegate_django.E003",
            )
        for other in backends():
            if other.alias == self.alias:
                break  # of two that share a queue the later one says so
            if self._shares_with(other):
                yield checks.Error(
                    f"The task backends {other.alias!r} and {self.alias!r} have the same queue: the workers of either"
                    " would run the tasks of both, with their own OPTIONS.",
                    "Give one of them another `prefix`, `database` or QUEUES.",
                    id="queuegate_django.E004",
                )

    def _shares_with(self, other: QueuegateBackend) -> bool:
        """Whether a queue of the two is one table. Without QUEUES any name is one."""
        mine, others = self.settings, other.settings
        if mine.database != others.database:
            return False
        if mine.prefix == others.prefix and not (self.queues and other.queues):
            return True
        return not {*map(mine.table, self.queue_names)}.isdisjoint(map(others.table, other.queue_names))


def _text(value: datetime) -> str:
    """A time in UTC, as a DATETIME."""
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def backends() -> list[QueuegateBackend]:
    """Those of TASKS that are of this class."""
    return [backend for backend in task_backends.all() if isinstance(backend, QueuegateBackend)]
