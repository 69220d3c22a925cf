"""QueuegateBackend with what the test cases of DummyBackend and of ImmediateBackend need besides."""

from __future__ import annotations

from django.db import connection

from queuegate_django import queues, worker_run
from queuegate_django.backend import QueuegateBackend
from queuegate_django.models import StoredResult


class Listed(QueuegateBackend):
    """Lists what is in its queues, and deletes it."""

    def _tables(self):
        with connection.cursor() as cursor:
            cursor.execute("SELECT queue FROM queuegate.queues WHERE db = DATABASE()")
            names = [row[0] for row in cursor.fetchall()]
        return [name for name in names if name.startswith(self.settings.prefix) and not name.endswith("_dead")]

    @property
    def results(self):
        listed = []
        for table in self._tables():
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT task_id FROM `{table}` ORDER BY id")
                ids = [row[0] for row in cursor.fetchall()]
            listed += [self.get_result(f"{table.removeprefix(self.settings.prefix)}:{each}") for each in ids]
        return listed

    def clear(self):
        for name in self.queue_names:
            queues.create_if_missing(self.settings, name)
        for table in self._tables():
            with connection.cursor() as cursor:
                cursor.execute(f"DELETE FROM `{table}`")
        StoredResult.objects.all().delete()


class Ran(QueuegateBackend):
    """Has a worker run each task before `enqueue` returns."""

    def enqueue(self, task, args, kwargs):
        queues.create_if_missing(self.settings, task.queue_name)
        result = super().enqueue(task, args, kwargs)
        worker_run.run(self, worker_run.Settings([task.queue_name], drain=True))
        result.refresh()
        return result
