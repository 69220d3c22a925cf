"""What the test cases of django-tasks-db import from it, as far as queuegate has the like.

`DatabaseBackend` is QueuegateBackend itself. `DBTaskResult` reads the queues and the stored results, and puts a task
of any path into a queue. All else are names without a use: cases that need them are not run.
"""

from __future__ import annotations

import io
import logging
import sys
import types

from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from queuegate_django import queues, results
from queuegate_django.backend import QueuegateBackend
from queuegate_django.models import StoredResult
from queuegate_django.tasks_api import TaskResultStatus, task_backends
from tests import tasks


class Listed:
    """The tasks of the backend that have this status; all by default."""

    def __init__(self, status=None):
        self._status = status

    def all(self):
        return Listed()

    def ready(self):
        return Listed(TaskResultStatus.READY)

    def successful(self):
        return Listed(TaskResultStatus.SUCCESSFUL)

    def failed(self):
        return Listed(TaskResultStatus.FAILED)

    def get(self, id):
        return task_backends["default"].get_result(id)

    def values(self, _):
        """What another connection is asked."""
        return types.SimpleNamespace(query="SELECT task_id FROM tasks_default")

    def count(self):
        return sum(self._fits(result) for result in map(task_backends["default"].get_result, self._ids()))

    def _fits(self, result):
        due = result.task.run_after is None or result.task.run_after <= timezone.now()
        ready = TaskResultStatus.READY
        return self._status in (None, result.status) and (self._status != ready or due)

    def _ids(self):
        """Of the results: those of messages that are not acked, and those that are stored."""
        listed = {f"{row.queue}:{row.pk}" for row in StoredResult.objects.all()}
        backend = task_backends["default"]
        for name in backend.queue_names:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT task_id FROM `{backend.settings.table(name)}` WHERE time_acked IS NULL")
                listed |= {f"{name}:{row[0]}" for row in cursor.fetchall()}
        return listed

    def create(self, *, args_kwargs, task_path, backend_name):
        return DBTaskResult(args_kwargs, task_path, backend_name)


class DBTaskResult:
    """A task whose path need not be one of a task."""

    objects = Listed()

    def __init__(self, args_kwargs, task_path, backend_name):
        self.task_path, self._alias = task_path, backend_name
        enqueued = tasks.noop_task.enqueue(*args_kwargs["args"], **args_kwargs["kwargs"])
        self.id, self._key = enqueued.id, enqueued.id.rpartition(":")[2]
        self.status = self.traceback = None
        with connection.cursor() as cursor:
            cursor.execute("UPDATE tasks_default SET task = %s WHERE task_id = %s", [task_path, self._key])

    @property
    def task(self):
        settings = task_backends[self._alias].settings
        row = queues.message_row(settings, "default", self._key)
        return results.record_of("default", {**row, "task_id": self._key}).imported_task(self._alias)

    def refresh_from_db(self):
        row = StoredResult.objects.get(pk=self._key)
        self.status, self.traceback = row.status, row.errors[0]["traceback"]


def work(*, queue_name="default", worker_id=None, verbosity=0, **_):
    """`db_worker --batch`: its other arguments say how to poll, and where to write."""
    queue = {"*": None}.get(queue_name, queue_name.split(","))
    call_command("queuegate_worker", queue=queue, drain=True, worker_id=worker_id, verbosity=verbosity)


def fresh():
    """Empty queues and no results, for the backend as it is set."""
    call_command("queuegate_tasks", create=True, stdout=io.StringIO())
    with connection.cursor() as cursor:
        for name in task_backends["default"].queue_names:
            table = task_backends["default"].settings.table(name)
            cursor.execute(f"DELETE FROM `{table}`")
    StoredResult.objects.all().delete()


def stand_in():
    """Makes the modules."""
    no_use = {
        "admin": {"DBTaskResultAdmin": None},
        "compat": {},
        "models": {"DBTaskResult": DBTaskResult, "get_date_max": None},
        "utils": {"exclusive_transaction": lambda: lambda case: case, "normalize_uuid": None},
        "management.commands.prune_db_task_results": {"logger": logging.getLogger("django_tasks_db")},
    }
    root = sys.modules["django_tasks_db"] = types.ModuleType("django_tasks_db")
    root.DatabaseBackend, root.__path__ = QueuegateBackend, []
    for name, members in no_use.items():
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            full = f"django_tasks_db.{'.'.join(parts[:depth])}"
            sys.modules.setdefault(full, types.ModuleType(full)).__path__ = []
        vars(sys.modules[f"django_tasks_db.{name}"]).update(members)
    root.compat = sys.modules["django_tasks_db.compat"]
