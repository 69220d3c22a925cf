"""Workers of a backend's queues: where they connect, and the deletion of old results while they run."""

from __future__ import annotations

import configparser
import logging
import os
import re
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import Error, close_old_connections, connections

from queuegate_django import results
from queuegate_django.backend import QueuegateBackend
from queuegate_django.execution import TaskHandler
from queuegate_django.options import Options
from queuegate_worker import Hooks, Worker, WorkerError, run_together

logger = logging.getLogger("queuegate_worker")

_PURGES_EACH_SECONDS = 600.0  # or a tenth of the age, if that is shorter
_PURGE_ENDS_SECONDS = 10.0  # for a purge that runs when the worker ends; the rest is deleted by the next one
WORKER_ID_CHARACTERS = 64
"""The longest name of a worker."""
_QUOTES = re.compile(r"""\A(['"])(.*)\1\Z""")
_SETTINGS = {"host": "HOST", "port": "PORT", "user": "USER", "password": "PASSWORD", "database": "NAME"}
_OTHER_NAMES = {"passwd": "password", "db": "database"}  # of mysqlclient
_FROM_OPTIONS = (
    *(*_SETTINGS, "unix_socket", "connect_timeout"),
    *("ssl", "ssl_ca", "ssl_cert", "ssl_key", "ssl_disabled", "ssl_verify_cert", "ssl_verify_identity"),
)
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
    """Where Django connects, and so a worker: the arguments of `pymysql.connect`. OPTIONS override the settings of the
    database, and these its option file. Raises WorkerError."""
    settings: Mapping[str, Any] = connections[database].settings_dict
    options = {_OTHER_NAMES.get(name, name): value for name, value in (settings.get("OPTIONS") or {}).items()}
    explicit = {name: settings[key] for name, key in _SETTINGS.items() if settings.get(key)}
    if explicit.get("host", "").startswith("/"):
        explicit["unix_socket"] = explicit.pop("host")
    explicit |= {name: options[name] for name in _FROM_OPTIONS if name in options}
    address = {"host": "127.0.0.1", "port": 3306, **_of_option_file(options), **explicit}
    if "host" in explicit and "unix_socket" not in explicit:
        address.pop("unix_socket", None)  # of the file
    return {**address, "port": int(address["port"])}


def _of_option_file(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a file such as /etc/mysql/my.cnf says, in [client] and in the group that OPTIONS name."""
    if (path := options.get("read_default_file")) is None:
        return {}
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read(Path(path).expanduser(), "utf-8")
        groups = [name for name in ("client", options.get("read_default_group")) if name and parser.has_section(name)]
        lines = {name: value for group in groups for name, value in parser.items(group) if value}
    except (configparser.Error, UnicodeDecodeError) as error:
        raise WorkerError(f"{path}: {error}") from error
    values = {name.replace("_", "-"): _QUOTES.sub(r"\2", value) for name, value in lines.items()}
    address = {name: values[name] for name in _SETTINGS if values.get(name)}
    if values.get("socket"):
        address["unix_socket"] = values["socket"]
    ssl = {name: values[f"ssl-{name}"] for name in ("ca", "capath", "cert", "key") if values.get(f"ssl-{name}")}
    return {**address, "ssl": ssl} if ssl else address


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
    try:
        results.check_table(backend.settings)
    except results.NoResults as error:
        raise WorkerError(str(error)) from None
    except Error as error:
        logger.info("the table of results could not be looked for: %s", error)
    with purging(backend.settings, backend.alias):
        run_together(*pairs, drain=settings.drain)


@contextmanager
def purging(options: Options, backend_alias: str) -> Iterator[None]:
    """Delete old results in a thread meanwhile, the first time at once: a worker may end before the next time. Several
    workers may do that at a time."""
    ended = threading.Event()
    pause = min(_PURGES_EACH_SECONDS, options.keep_results.total_seconds() / 10)

    def purge() -> None:
        while True:
            try:
                close_old_connections()
                results.purge(options, backend_alias)
            except Error as error:
                logger.warning("old results could not be deleted, and are deleted later: %s", error)
            finally:
                close_old_connections()
            if ended.wait(pause):
                break
        connections[options.database].close()

    thread = threading.Thread(target=purge, name="queuegate-purge", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_PURGE_ENDS_SECONDS)
