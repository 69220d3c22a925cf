"""Workers of a backend's queues: where they connect, and the deletion of old results while they run."""

from __future__ import annotations

import logging
import os
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
from queuegate_worker.mysql_client.option_files import (
    SSL_MODES,
    OptionFileError,
    encryption,
    every_option,
    is_world_writable,
)

logger = logging.getLogger("queuegate_worker")

_PURGES_EACH_SECONDS = 600.0  # or a tenth of the age, if that is shorter
_PURGE_ENDS_SECONDS = 10.0  # for a purge that runs when the worker ends; the rest is deleted by the next one
WORKER_ID_CHARACTERS = 64
"""The longest name of a worker."""
_SSL_FILES = ("ca", "capath", "cert", "key")
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
    in_file = _of_option_file(options)
    explicit = {name: settings[key] for name, key in _SETTINGS.items() if settings.get(key)}
    if explicit.get("host", "").startswith("/"):
        explicit["unix_socket"] = explicit.pop("host")
    explicit |= {name: options[name] for name in _FROM_OPTIONS if name in options}
    address: dict[str, Any] = {"host": "127.0.0.1", "port": 3306}
    address |= {name: in_file[name] for name in _SETTINGS if name in in_file}
    if "socket" in in_file and not ("host" in explicit and "unix_socket" not in explicit):
        address["unix_socket"] = in_file["socket"]
    address |= {**explicit, **_encryption(options, in_file)}
    return {**address, "port": int(address["port"])}


def _of_option_file(options: Mapping[str, Any]) -> dict[str, str]:
    """What a file such as /etc/mysql/my.cnf says, in [client] and in the group that OPTIONS name."""
    if (name := options.get("read_default_file")) is None:
        return {}
    path = Path(name).expanduser()
    if is_world_writable(path):
        logger.warning("%s: anybody may write this file: it is ignored, as by MySQL", path)
        return {}
    try:
        listed = [*every_option(path)] if path.exists() else []
    except OptionFileError as error:
        raise WorkerError(str(error)) from None
    except OSError as error:
        raise WorkerError(f"{error.filename}: {error.strerror}") from error
    groups = ("client", options.get("read_default_group"))
    return {each.key: each.value for group in groups for each in listed if each.group == group and each.value}


def _encryption(options: Mapping[str, Any], in_file: Mapping[str, str]) -> dict[str, Any]:
    """How the driver of a worker is to encrypt, where Django's has an ssl_mode or a file says so."""
    mode, files = options.get("ssl_mode") or in_file.get("ssl-mode"), options.get("ssl") or {}
    if mode is None:
        of_file = {name: in_file[f"ssl-{name}"] for name in _SSL_FILES if f"ssl-{name}" in in_file}
        return {"ssl": of_file} if of_file and "ssl" not in options else {}
    if str(mode).lower() not in SSL_MODES:
        raise WorkerError(f"ssl_mode is {mode!r}; known are {', '.join(SSL_MODES)}")
    others = {*files, *(name for name in options if name.startswith("ssl_"))} - {"ca", "cert", "key", "ssl_mode"}
    if others or "ssl-capath" in in_file:
        raise WorkerError(
            f"with ssl_mode a worker takes ssl's ca, cert and key alone, not {', '.join(sorted(others)) or 'capath'}"
        )
    try:
        return encryption(
            {**in_file, **{f"ssl-{name}": file for name, file in files.items()}, "ssl-mode": mode.lower()}
        )
    except OptionFileError as error:
        raise WorkerError(str(error)) from error
    except OSError as error:
        raise WorkerError(f"{error.filename}: {error.strerror}") from error


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
