"""Workers of a backend's queues: where they connect, and the deletion of old results while they run."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import Error, close_old_connections, connections

from queuegate_django import results
from queuegate_django.backend import QueuegateBackend
from queuegate_django.execution import TaskHandler
from queuegate_django.options import Options
from queuegate_worker import Hooks, Worker, run_together

logger = logging.getLogger("queuegate_worker")

_PURGES_EACH_SECONDS = 600.0  # or a tenth of the age, if that is shorter
_PURGE_ENDS_SECONDS = 10.0  # for a purge that runs when the worker ends; the rest is deleted by the next one
WORKER_ID_CHARACTERS = 64
"""The longest name of a worker."""
_FROM_OPTIONS = ("ssl", "ssl_ca", "unix_socket", "connect_timeout", "read_default_file", "read_default_group")
"""Entries of a database's OPTIONS that mean the same to PyMySQL, by which a worker receives."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Of a worker's command. `worker_id`: None for host and process."""

    queue_names: Sequence[str]
    concurrency: int = 1
    worker_id: str | None = None
    grace: float = 25.0
    drain: bool = False
    hooks: Hooks | None = None


def address_of(database: str) -> dict[str, Any]:
    """Where a worker connects, by the settings of the database: the arguments of `pymysql.connect`."""
    settings: Mapping[str, Any] = connections[database].settings_dict
    options = settings.get("OPTIONS") or {}
    address = {name: options[name] for name in _FROM_OPTIONS if name in options}
    host = settings.get("HOST") or "127.0.0.1"
    if host.startswith("/"):
        address["unix_socket"] = host
    else:
        address |= {"host": host, "port": int(settings.get("PORT") or 3306)}
    named = {"user": "USER", "password": "PASSWORD", "database": "NAME"}
    return address | {name: settings[key] for name, key in named.items() if settings.get(key)}


def run(backend: QueuegateBackend, settings: Settings) -> None:
    """Run tasks until SIGTERM or SIGINT, or until nothing is due. Raises WorkerError."""
    worker_id = (settings.worker_id or f"{socket.gethostname()}:{os.getpid()}")[:WORKER_ID_CHARACTERS]
    address = address_of(backend.settings.database)
    pairs = [
        (
            Worker(
                address,
                backend.settings.table(queue_name),
                concurrency=settings.concurrency,
                consumer=worker_id,
                grace=settings.grace,
                hooks=settings.hooks,
            ),
            TaskHandler(backend.alias, queue_name, worker_id),
        )
        for queue_name in settings.queue_names
    ]
    with purging(backend.settings):
        run_together(*pairs, drain=settings.drain)


@contextmanager
def purging(options: Options) -> Iterator[None]:
    """Delete old results in a thread meanwhile. Several workers may do that at a time."""
    ended = threading.Event()
    pause = min(_PURGES_EACH_SECONDS, options.keep_results.total_seconds() / 10)

    def purge() -> None:
        while not ended.wait(pause):
            try:
                close_old_connections()
                results.purge(options)
            except Error as error:
                logger.warning("old results could not be deleted, and are deleted later: %s", error)
            finally:
                close_old_connections()
        connections[options.database].close()

    thread = threading.Thread(target=purge, name="queuegate-purge", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_PURGE_ENDS_SECONDS)
