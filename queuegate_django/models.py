"""The table of results: one row for each task that has ended, written in the transaction that acks its message.

A row has all that a TaskResult says, because the message itself is purged. Where an attempt failed and another follows,
the row says `READY` and has the errors so far.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db import models
from django.utils.translation import gettext_lazy as _

from queuegate_django.tasks_api import TaskResultStatus

_DELETED_AT_ONCE = 1000  # rows of one statement, so that none locks many for long


class StoredResults(models.QuerySet):
    """Rows of the table."""

    def delete_before(self, time: datetime) -> int:
        """Delete the results that were written before a time, in pieces; how many there were."""
        old, deleted = self.filter(written_at__lt=time).exclude(status=TaskResultStatus.READY).order_by(), 0
        while ids := [*old.values_list("pk", flat=True)[:_DELETED_AT_ONCE]]:
            deleted += old.delete_those(ids)
        return deleted

    def unfinished_before(self, time: datetime) -> Iterator[tuple[str, list[str]]]:
        """Queues, and tasks of them to come again whose errors were written before a time, in pieces."""
        old = self.filter(written_at__lt=time, status=TaskResultStatus.READY)
        for queue in [*old.order_by().values_list("queue", flat=True).distinct()]:
            last, of_queue = "", old.filter(queue=queue).order_by("pk")
            while ids := [*of_queue.filter(pk__gt=last).values_list("pk", flat=True)[:_DELETED_AT_ONCE]]:
                yield queue, ids
                last = ids[-1]

    def delete_those(self, ids: list[str]) -> int:
        """Delete those of these rows that are still as the query wants them; how many there were."""
        return int(self.filter(pk__in=ids).delete()[0])


class StoredResult(models.Model):
    """See the module. `id` is the task's random id, without the name of its queue."""

    id = models.CharField(_("id"), primary_key=True, max_length=32)
    backend = models.CharField(_("backend"), max_length=64)
    queue = models.CharField(_("queue"), max_length=64)
    task = models.CharField(_("task"), max_length=255)
    args = models.JSONField(_("arguments"))
    priority = models.SmallIntegerField(_("priority"))
    run_after = models.DateTimeField(_("run after"), null=True)
    status = models.CharField(_("status"), max_length=10, choices=TaskResultStatus.choices)
    return_value = models.JSONField(_("return value"), null=True)
    errors = models.JSONField(_("errors"))
    worker_ids = models.JSONField(_("workers"))
    enqueued_at = models.DateTimeField(_("enqueued at"))
    started_at = models.DateTimeField(_("started at"))
    last_attempted_at = models.DateTimeField(_("last attempted at"))
    finished_at = models.DateTimeField(_("finished at"), null=True)
    written_at = models.DateTimeField(_("written at"))

    objects = StoredResults.as_manager()

    class Meta:
        """Newest first, as one looks for what has just happened."""

        db_table = "queuegate_task_results"
        ordering = ("-written_at",)
        indexes = (
            models.Index(fields=("written_at",), name="queuegate_results_written"),
            models.Index(fields=("status", "queue"), name="queuegate_results_status"),
        )
        verbose_name = _("task result")
        verbose_name_plural = _("task results")

    def __str__(self) -> str:
        return f"{self.task} {self.status} ({self.queue}:{self.id})"
