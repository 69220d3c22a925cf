"""Results in Django's admin: to read, to search, and to run failed tasks again."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from queuegate_django import queues
from queuegate_django.backend import backends
from queuegate_django.models import StoredResult
from queuegate_django.tasks_api import TaskResultStatus


class StoredResultAdmin(admin.ModelAdmin):
    """See the module. A result is written by workers alone, so it cannot be added, changed or deleted."""

    list_display = ("task", "queue", "status", "attempts", "enqueued_at", "started_at", "finished_at")
    list_filter = ("status", "queue", "backend", "finished_at")
    search_fields = ("id", "task")
    actions = ("run_again",)
    list_per_page = 50
    show_full_result_count = False

    def get_queryset(self, request: Any) -> Any:
        """The table is in the database of the backend."""
        databases = [each.settings.database for each in backends()]
        rows = super().get_queryset(request)
        return rows.using(databases[0]) if databases else rows

    def attempts(self, row: StoredResult) -> int:
        """How often the task ran."""
        return len(row.worker_ids)

    def has_add_permission(self, request: Any) -> bool:
        """Never."""
        return False

    def has_change_permission(self, request: Any, obj: StoredResult | None = None) -> bool:
        """Never."""
        return False

    def has_delete_permission(self, request: Any, obj: StoredResult | None = None) -> bool:
        """Never."""
        return False

    def has_run_again_permission(self, request: Any) -> bool:
        """Who may change results of tasks may have tasks run again."""
        return bool(request.user.has_perm("queuegate_django.change_storedresult"))

    def run_again(self, request: Any, rows: Any) -> None:
        """Put the dead letters of failed tasks back into their queue."""
        failed: dict[tuple[str, str], list[str]] = defaultdict(list)
        for row in rows.filter(status=TaskResultStatus.FAILED):
            failed[row.backend, row.queue].append(row.pk)
        count = sum(_run_again(alias, queue, ids) for (alias, queue), ids in failed.items())
        left = sum(map(len, failed.values())) - count
        self.message_user(request, ngettext("%d task runs again.", "%d tasks run again.", count) % count)
        if left:
            place = "in the dead-letter queue of a backend in TASKS."
            text = ngettext(f"%d failed task is not {place}", f"%d failed tasks are not {place}", left)
            self.message_user(request, text % left, messages.WARNING)

    run_again.short_description = _("Run selected failed tasks again")  # type: ignore[attr-defined]
    run_again.allowed_permissions = ("run_again",)  # type: ignore[attr-defined]


def _run_again(alias: str, queue_name: str, task_ids: list[str]) -> int:
    """How many there were. The row says again that the task waits, with the errors of its earlier attempts."""
    backend = next((each for each in backends() if each.alias == alias), None)
    if backend is None:
        return 0
    options = backend.settings
    with transaction.atomic(using=options.database):
        redriven = queues.redrive(options, queue_name, task_ids)
        rows = StoredResult.objects.using(options.database).filter(pk__in=redriven)
        rows.update(status=TaskResultStatus.READY, finished_at=None)
    return len(redriven)


admin.site.register(StoredResult, StoredResultAdmin)
