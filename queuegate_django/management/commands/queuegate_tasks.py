"""`manage.py queuegate_tasks`: shows the queues of tasks, creates missing ones, and deletes old results."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from queuegate_django import queues, results
from queuegate_django.backend import QueuegateBackend, backends


class Command(BaseCommand):
    """See the module."""

    help = "Shows the queues of tasks and how many tasks they have."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Its options."""
        parser.add_argument("--create", action="store_true", help="create the queues that are missing, as migrate does")
        parser.add_argument("--purge", action="store_true", help="delete results that are older than keep_results")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run it. Raises CommandError."""
        all_of_them = backends()
        if not all_of_them:
            raise CommandError("no backend in TASKS is queuegate_django.backend.QueuegateBackend")
        for backend in all_of_them:
            try:
                self._show(backend, create=options["create"])
                results.check_table(backend.settings)
                if options["purge"]:
                    self.stdout.write(f"{results.purge(backend.settings, backend.alias)} results are deleted")
            except (queues.NoQueuegate, queues.NotAQueue, results.NoResults) as error:
                raise CommandError(str(error)) from None

    def _show(self, backend: QueuegateBackend, *, create: bool) -> None:
        for queue_name in backend.queue_names:
            table = backend.settings.table(queue_name)
            if create and queues.create_if_missing(backend.settings, queue_name):
                self.stdout.write(f"created {table}")
            counts = queues.counts(backend.settings, queue_name)
            if counts is None:
                self.stdout.write(f"{table}: missing; {queues.missing(backend.settings.database)}")
            else:
                self.stdout.write(f"{table}: " + ", ".join(f"{count} {state}" for state, count in counts.items()))
