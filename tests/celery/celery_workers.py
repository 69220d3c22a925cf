"""Brokers' URLs, workers as processes, and the program that enqueues tasks for them."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from servers import ROOT, Gate, Sql, wait_until

HERE = Path(__file__).parent
_numbers = itertools.count(1)


def url_of(gate: Gate, **parts: Any) -> str:
    """The broker URL of a gate."""
    given = {"user": "root", "password": "", "port": gate.port, "database": gate.database, **parts}
    return "queuegate://{user}:{password}@127.0.0.1:{port}/{database}".format(**given)


class Worker:
    """`celery worker`, in a process group of its own."""

    def __init__(self, gate: Gate, folder: Path, *arguments: str, **environment: str) -> None:
        self.log_file = folder / f"worker{next(_numbers)}.log"
        command = [sys.executable, "-m", "celery", "-A", "celery_shop", "worker", "--loglevel=INFO", *arguments]
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment_of(gate, **environment), stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def ready(self) -> Worker:
        wait_until(lambda: self._said(" ready."), 90, "the worker to be ready")
        return self

    def _said(self, words: str) -> bool:
        assert self.process.poll() is None, f"the worker ended:\n{self.log}"
        return words in self.log

    def kill(self) -> None:
        """All of its processes, as a machine that loses its power."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def stop(self) -> int:
        """In order: it finishes what it works on."""
        self.process.terminate()
        return self.process.wait(60)


def open_connections() -> int:
    """How many connections the transport has open in this process."""
    from queuegate_celery import connection

    gc.collect()
    return sum(bool(each.open) for each in connection._open)


def environment_of(gate: Gate, **more: str) -> dict[str, str]:
    """For a process that imports celery_shop."""
    path = os.pathsep.join([str(ROOT), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "CELERY_TEST_BROKER": url_of(gate), "C_FORCE_ROOT": "1", **more}


class Shop:
    """The application, as a program that enqueues tasks would use it, and what its tasks have noted."""

    def __init__(self, gate: Gate, results: bool = False) -> None:
        from celery import Celery

        import queuegate_celery  # noqa: F401

        self.gate = gate
        self.sql = Sql(gate.connect())
        self.sql(
            "CREATE TABLE IF NOT EXISTS notes (id BIGINT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(255), "
            "task_id VARCHAR(64), redelivered INT, pid INT)"
        )
        backend = results_of(gate) if results else None
        self.app = Celery("shop", broker=url_of(gate), backend=backend, set_as_current=False)

    def send(self, task: str, *args: Any, **options: Any) -> Any:
        """Enqueues; the result."""
        return self.app.signature(f"celery_shop.{task}", args=args, app=self.app).apply_async(**options)

    def notes(self, like: str = "%") -> list[str]:
        return [str(what) for what in self.sql.column("SELECT what FROM notes WHERE what LIKE %s ORDER BY id", like)]

    def wait(self, what: str, count: int = 1, timeout: float = 60) -> None:
        wait_until(lambda: len(self.notes(what)) >= count, timeout, f"{count} notes {what!r}; there are {self.notes()}")

    def say(self, what: str) -> None:
        """A word that a task waits for."""
        self.sql("INSERT INTO notes (what) VALUES (%s)", what)

    def settled(self, queue: str = "celery", timeout: float = 30) -> None:
        """Until nothing waits or is held."""
        wait_until(
            lambda: not self.sql.value(f"SELECT COUNT(*) FROM `{queue}` WHERE time_acked IS NULL"), timeout, "all acks"
        )

    def reconnect(self) -> None:
        """After a restart of the gate. The application's own broker connections do it by themselves."""
        self.sql.close()
        self.sql = Sql(self.gate.connect())

    def close(self) -> None:
        from kombu import pools

        self.app.close()
        pools.reset()  # Kombu keeps them by URL, for the process
        self.sql.close()


def results_of(gate: Gate) -> str:
    """A result backend: tables, through the proxy."""
    return f"db+mysql+pymysql://root@127.0.0.1:{gate.port}/{gate.database}"
