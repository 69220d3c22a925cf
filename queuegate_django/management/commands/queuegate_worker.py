"""`manage.py queuegate_worker`: runs tasks until SIGTERM or SIGINT."""

from __future__ import annotations

import logging
import traceback
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.utils.module_loading import import_string

from queuegate_django.backend import QueuegateBackend
from queuegate_django.queues import NoQueuegate, check_proxy, missing
from queuegate_django.tasks_api import LOGGER, task_backends
from queuegate_django.worker_run import WORKER_ID_CHARACTERS, Settings, run
from queuegate_worker import Hooks, WorkerError
from queuegate_worker.errors import reason_of
from queuegate_worker.worker import leave_process

_LEVELS = (logging.CRITICAL, logging.INFO, logging.DEBUG, logging.DEBUG)
"""By the verbosity."""

_handler = logging.StreamHandler()
_handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))


class Command(BaseCommand):
    """See the module."""

    help = "Runs the tasks of queuegate's queues until SIGTERM or SIGINT."
    _began = False

    def run_from_argv(self, argv: list[str]) -> None:
        """As the command of a process, unlike `call_command`, it ends the process also where tasks have not ended."""
        try:
            super().run_from_argv(argv)
        except (SystemExit, CommandError, KeyboardInterrupt) as error:
            if not self._began:
                raise
            if not isinstance(error, SystemExit):
                traceback.print_exc()
            leave_process(130 if isinstance(error, KeyboardInterrupt) else 1)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Its options."""
        parser.add_argument(
            "--queue", action="append", help="a queue; may be repeated (default: QUEUES of the backend)"
        )
        parser.add_argument("--concurrency", type=int, default=1, help="tasks of each queue at a time (default: 1)")
        parser.add_argument("--backend", default="default", help="the backend's name in TASKS (default: default)")
        parser.add_argument("--drain", action="store_true", help="end when no task is due")
        parser.add_argument(
            "--grace", type=float, default=25.0, help="seconds for running tasks at the end (default: 25)"
        )
        parser.add_argument("--worker-id", type=_worker_id, help="this worker's name in results (default: host:pid)")
        parser.add_argument("--hooks", help="a subclass of queuegate_worker.Hooks, as module.Class")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run it. Raises CommandError."""
        backend = backend_of(options["backend"])
        self._log(options["verbosity"])
        hooks = _hooks(options["hooks"]) if options["hooks"] else Hooks()
        for name in options["queue"] or ():
            if backend.queues and name not in backend.queues:
                raise CommandError(f"{name!r} is not in QUEUES of TASKS[{backend.alias!r}]")
        of_worker = Settings(
            queue_names=options["queue"] or backend.queue_names,
            concurrency=options["concurrency"],
            worker_id=options["worker_id"],
            grace=options["grace"],
            drain=options["drain"],
            hooks=hooks,
        )
        self._began = True
        try:
            run(backend, of_worker)
        except (WorkerError, ValueError) as error:
            raise CommandError(f"{error}{_hint(backend, str(error))}") from None

    def _log(self, verbosity: int) -> None:
        """Log to standard error what is logged nowhere. Django's own handlers log nothing of the kind without DEBUG."""
        silent = not settings.LOGGING and not settings.DEBUG
        for name in (LOGGER, "queuegate_worker"):
            logger = logging.getLogger(name)
            if logger.level == logging.NOTSET:
                logger.setLevel(_LEVELS[verbosity])
            if (silent or not logger.hasHandlers()) and _handler not in logger.handlers:
                logger.addHandler(_handler)


def _worker_id(text: str) -> str:
    """Two workers whose names differ only beyond the column's end would be stored as one."""
    if not 1 <= len(text) <= WORKER_ID_CHARACTERS:
        raise ArgumentTypeError(f"it has {len(text)} characters; there may be 1 to {WORKER_ID_CHARACTERS}")
    return text


def _hooks(path: str) -> Hooks:
    """An object of the class. Raises CommandError."""
    try:
        hooks = import_string(path)()
    except Exception as error:  # of the module, or of the class
        raise CommandError(f"--hooks {path}: {reason_of(error)}") from error
    if not isinstance(hooks, Hooks):
        raise CommandError(f"--hooks {path}: it is no subclass of queuegate_worker.Hooks")
    return hooks


def _hint(backend: QueuegateBackend, error: str) -> str:
    """What to do about an error, if it says that there is no such queue. A database without a proxy says so, too."""
    if "ERROR 1146" not in error:
        return ""
    try:
        check_proxy(backend.settings.database)
    except NoQueuegate as reason:
        return f"; {reason}"
    return f"; {missing(backend.settings.database)}"


def backend_of(alias: str) -> QueuegateBackend:
    """A backend of queuegate, by its name in TASKS. Raises CommandError."""
    try:
        backend = task_backends[alias]
    except ImproperlyConfigured as error:  # there is none of that name, or it cannot be made
        raise CommandError(f"TASKS[{alias!r}]: {error}") from None
    if not isinstance(backend, QueuegateBackend):
        raise CommandError(f"TASKS[{alias!r}] is no backend of queuegate; --backend names another one")
    return backend
