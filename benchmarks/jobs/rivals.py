"""Who takes part, and one turn of each: a backlog is enqueued and drained, then lone jobs are timed."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks import marks
from benchmarks.celery import run as celery
from benchmarks.celery.brokers import Broker
from benchmarks.jobs import by_hand, db_scheduler, with_queuegate
from benchmarks.jobs.targets import (
    BY_HAND,
    CELERY_QUEUEGATE,
    CELERY_RABBITMQ,
    CELERY_REDIS,
    DB_SCHEDULER,
    DB_SCHEDULER_TUNED,
    DJ_QUEUE,
    DJANGO_TASKS_DB,
    DRAINED,
    EMBEDDED,
    ENQUEUED,
    MARIADB,
)
from benchmarks.jobs.watch import drain_seconds, wait_for_lone
from benchmarks.jobs.with_queuegate import SLOTS
from benchmarks.measure import latencies
from benchmarks.others import DURABLE_REDIS, RABBITMQ, others
from benchmarks.places import Place, embedded, mariadb
from tests.servers import ROOT, MariaDb

INSTALL = Path(__file__).resolve().parent.parent / "install_rivals.sh"
WARM_UP = 4
DJANGO = {"dj_queue": (DJ_QUEUE, "dj_queue"), "django_tasks_db": (DJANGO_TASKS_DB, "db_worker")}
"""By the name of the Django application: its name here, and its worker's command."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """`backlog`: jobs that fast ways drain; `slow_backlog`: that slow ones do. `pause_seconds` between lone jobs."""

    backlog: int = 5000
    slow_backlog: int = 500
    lone_jobs: int = 60
    pause_seconds: float = 0.2
    repeats: int = 5


class JobQueue(Protocol):
    """A way to run jobs."""

    @property
    def name(self) -> str: ...

    def turn(self, amounts: Amounts) -> dict[str, float]:
        """Its rates and latencies."""
        ...


@dataclass(frozen=True, slots=True)
class Programs:
    """One whose producer and workers are programs. `slow`: it drains the smaller backlog. `prepare`: makes it empty."""

    name: str
    slow: bool
    environment: Mapping[str, str]
    produce: tuple[str, ...]
    workers: tuple[tuple[str, ...], ...]
    prepare: Callable[[], None]

    def turn(self, amounts: Amounts) -> dict[str, float]:
        """See JobQueue."""
        self.prepare()
        backlog = amounts.slow_backlog if self.slow else amounts.backlog
        with tempfile.TemporaryDirectory(prefix="queuegate-bench-") as name:
            folder = Path(name)
            enqueued = self._produced(folder, backlog, 0.0)
            with self._working(folder):
                drained = drain_seconds(folder, backlog)
                self._produced(folder, WARM_UP + amounts.lone_jobs, amounts.pause_seconds)
                wait_for_lone(folder, WARM_UP + amounts.lone_jobs, self.name)
            took = marks.samples(folder)[WARM_UP:]
        return {DRAINED: backlog / drained, ENQUEUED: backlog / enqueued, **latencies(took)}

    def _produced(self, folder: Path, count: int, pause: float) -> float:
        return float(_run([*self.produce, str(count), str(pause)], self._environment(folder)).split()[-1])

    @contextlib.contextmanager
    def _working(self, folder: Path) -> Iterator[None]:
        environment = self._environment(folder)
        with (folder / "workers.log").open("wb") as log:
            started = [
                subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
                for command in self.workers
            ]
            try:
                yield
                ended = [process.args for process in started if process.poll() is not None]
                assert not ended, (folder / "workers.log").read_text(errors="replace")[-2000:]
            finally:
                for process in started:
                    process.terminate()
                for process in started:
                    process.wait(60)

    def _environment(self, folder: Path) -> dict[str, str]:
        return {**os.environ, **self.environment, "PYTHONPATH": str(ROOT), marks.FOLDER: str(folder)}


@dataclass(frozen=True, slots=True)
class CeleryQueue:
    """Celery with one of its brokers."""

    name: str
    broker: Broker

    def turn(self, amounts: Amounts) -> dict[str, float]:
        """See JobQueue."""
        found = celery.turn(self.broker, celery.Turn(amounts.backlog, amounts.lone_jobs, amounts.pause_seconds))
        renamed = {"drain tasks/s": DRAINED, "enqueue tasks/s": ENQUEUED}
        return {renamed.get(column, column): value for column, value in found.items()}


@dataclass(frozen=True, slots=True)
class Field:
    """All that this machine has, their versions, and who is absent and why."""

    queues: tuple[JobQueue, ...]
    versions: dict[str, str]
    absent: tuple[str, ...]


@contextlib.contextmanager
def field() -> Iterator[Field]:
    """Starts what they need."""
    subprocess.run([INSTALL, "celery", sys.executable], check=False)
    with contextlib.ExitStack() as stack:
        place, file = stack.enter_context(mariadb()), stack.enter_context(embedded())
        server = place.server
        assert server is not None
        own = f"queuegate://root@127.0.0.1:{place.gate.port}/{place.gate.database}"
        rest = stack.enter_context(
            others({
                RABBITMQ: lambda it: Broker(
                    CELERY_RABBITMQ, f"amqp://guest:guest@127.0.0.1:{it.port}//", "persistent, confirmed"
                ),
                DURABLE_REDIS: lambda it: Broker(CELERY_REDIS, f"redis://127.0.0.1:{it.port}/0", "flush per command"),
            })
        )  # fmt: skip
        brokers = [Broker(CELERY_QUEUEGATE, own, place.durability), *rest.found]
        django, versions, absent = _django(server)
        java, java_versions, java_absent = _db_scheduler(server, stack)
        queues: list[JobQueue] = [_queuegate(MARIADB, place), _queuegate(EMBEDDED, file), _by_hand(server)]
        queues += [*django, *java]
        queues += [CeleryQueue(broker.name, broker) for broker in brokers]
        versions = {"database": _version(server), **versions, **java_versions, **rest.versions}
        yield Field(tuple(queues), versions, (*absent, *java_absent, *rest.absent))


def _queuegate(name: str, place: Place) -> JobQueue:
    module = [sys.executable, "-m", with_queuegate.__name__]

    def prepare() -> None:
        with place.gate.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP QUEUE IF EXISTS {with_queuegate.QUEUE}")
            cursor.execute(with_queuegate.CREATE)

    environment = {"JOBS_PORT": str(place.gate.port), "JOBS_DATABASE": place.gate.database}
    return Programs(name, False, environment, (*module, "produce"), ((*module, "work"),), prepare)


def _by_hand(server: MariaDb) -> JobQueue:
    module, database = [sys.executable, "-m", by_hand.__name__], "jobs_by_hand"

    def prepare() -> None:
        server.fresh_database(database)
        with server.connect(database=database) as connection, connection.cursor() as cursor:
            cursor.execute(by_hand.CREATE)

    environment = {"JOBS_PORT": str(server.port), "JOBS_DATABASE": database}
    return Programs(BY_HAND, False, environment, (*module, "produce"), ((*module, "work"),) * SLOTS, prepare)


def _django(server: MariaDb) -> tuple[list[JobQueue], dict[str, str], list[str]]:
    """Both Django backends, their versions, and why they are absent."""
    made = subprocess.run([INSTALL, "django", sys.executable], stdout=subprocess.PIPE, text=True, check=False)
    python = made.stdout.strip()
    if made.returncode or not python:
        return [], {}, ["dj-queue and django-tasks-db, which need Python 3.12 or newer and a compiler for mysqlclient"]
    listed = _run([python, "-m", "pip", "list", "--format=freeze"], dict(os.environ))
    found = dict(re.findall(r"^([\w-]+)==(\S+)$", listed, re.MULTILINE))
    wanted = ("Django", "mysqlclient", "dj-queue", "django-tasks-db")
    versions = {"Django": ", ".join(f"{name} {found.get(name, '?')}" for name in wanted)}
    return [_of_django(server, python, application) for application in DJANGO], versions, []


def _of_django(server: MariaDb, python: str, application: str) -> JobQueue:
    (name, command), database = DJANGO[application], f"jobs_{application}"
    environment = {
        "JOBS_PORT": str(server.port), "JOBS_DATABASE": database, "JOBS_BACKEND": application,
        "DJANGO_SETTINGS_MODULE": "benchmarks.jobs.django_settings",
    }  # fmt: skip

    def prepare() -> None:
        server.fresh_database(database)
        _run([python, "-m", "django", "migrate"], {**os.environ, **environment, "PYTHONPATH": str(ROOT)})

    produce = (python, "-m", "benchmarks.jobs.django_producer")
    # dj-queue's worker has four threads; the other's is one process with one slot.
    workers = ((python, "-m", "django", command),) * (1 if application == "dj_queue" else SLOTS)
    return Programs(name, True, environment, produce, workers, prepare)


def _db_scheduler(server: MariaDb, stack: contextlib.ExitStack) -> tuple[list[JobQueue], dict[str, str], list[str]]:
    """db-scheduler as it comes and tuned, its versions, and why it is absent."""
    subprocess.run([INSTALL, "java"], check=False)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="queuegate-bench-")))
    try:
        command, versions = db_scheduler.compiled(folder)
    except db_scheduler.Absent as error:
        return [], {}, [f"db-scheduler: {error}"]
    workers = {DB_SCHEDULER: (*command, "work"), DB_SCHEDULER_TUNED: (*command, "work", "tuned")}
    database = "jobs_db_scheduler"

    def prepare() -> None:
        server.fresh_database(database)
        with server.connect(database=database) as connection, connection.cursor() as cursor:
            cursor.execute(db_scheduler.CREATE)

    environment = {"JOBS_PORT": str(server.port), "JOBS_DATABASE": database}
    queues: list[JobQueue] = [
        Programs(name, False, environment, (*command, "produce"), (worker,), prepare)
        for name, worker in workers.items()
    ]
    return queues, {"db-scheduler": versions}, []


def _version(server: MariaDb) -> str:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION(), @@innodb_flush_log_at_trx_commit")
        ((version, flush),) = cursor.fetchall()
    return f"{version}, innodb_flush_log_at_trx_commit={flush}"


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr[-2000:]}"
    return done.stdout
