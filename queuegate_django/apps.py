"""The application: missing queues are created after migrations, and a check says where the database is no proxy."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.db import DEFAULT_DB_ALIAS
from django.db.models.signals import post_migrate

from queuegate_django import backend, queues, results


class QueuegateConfig(AppConfig):
    """See the module."""

    name = "queuegate_django"
    verbose_name = "queuegate"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Called by Django when all models are there."""
        post_migrate.connect(create_missing, sender=self)
        checks.register(check_databases, checks.Tags.database)


def create_missing(*, using: str, verbosity: int = 1, **kwargs: Any) -> None:
    """After `migrate`: create the queues of the backends whose database was migrated.

    A database without a proxy is no error: migrations may be run around it, by another account. Raises NotAQueue, and
    errors of the database.
    """
    output = kwargs.get("stdout") or sys.stdout
    for each in backend.backends():
        if each.settings.database != using or list(each.check()):
            continue
        for queue_name in each.queue_names:
            try:
                created = queues.create_if_missing(each.settings, queue_name)
            except queues.NoQueuegate as error:
                output.write(f"  No queue is created: {error}.\n")
                break
            if created and verbosity >= 1:
                output.write(f"  Created the queue {each.settings.table(queue_name)}\n")


def check_databases(databases: Sequence[str] | None = None, **_: Any) -> Iterable[checks.CheckMessage]:
    """With `check --database` and `migrate`: whether queuegate answers at the database of each backend, and has results
    there."""
    for each in backend.backends():
        if each.settings.database in (databases or ()) and not list(each.check()):
            try:
                queues.check_proxy(each.settings.database)
                if each.settings.database != DEFAULT_DB_ALIAS:  # of that one Django itself says what is not migrated
                    results.check_table(each.settings)
            except queues.NoQueuegate as error:
                yield checks.Warning(
                    f"The task backend {each.alias!r}: {error}.",
                    "Without a proxy no queue is created and no task is received. Tasks that are inserted around it are"
                    " found within half a minute.",
                    id="queuegate_django.W003",
                )
            except results.NoResults as error:
                yield checks.Warning(
                    f"The task backend {each.alias!r}: {error}.",
                    "Routers of DATABASE_ROUTERS have to allow it there. Without the table no task can end.",
                    id="queuegate_django.W004",
                )
