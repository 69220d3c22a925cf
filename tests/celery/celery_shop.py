"""The application that the workers of these tests run. Each task notes in a table what it did, so that SQL can tell."""

from __future__ import annotations

import os
import signal
import threading

import pymysql
from celery import Celery
from celery.exceptions import Reject

import queuegate_celery

URL = os.environ["CELERY_TEST_BROKER"]
app = Celery("shop", broker=URL)
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=int(os.environ.get("CELERY_TEST_MULTIPLIER", "4")),
    broker_connection_retry_on_startup=True,
    broker_transport_options={"lease": int(os.environ.get("CELERY_TEST_LEASE", "60"))},
    worker_cancel_long_running_tasks_on_connection_loss=False,
    result_backend=os.environ.get("CELERY_TEST_RESULTS"),
    broker_connection_max_retries=None,
)
if os.environ.get("CELERY_TEST_RESULTS"):
    app.conf.task_ignore_result = False


def database() -> pymysql.Connection:
    """A connection of the application's own, through the proxy."""
    place = app.connection_for_write()
    return pymysql.connect(
        host=place.hostname, port=place.port, user=place.userid, database=place.virtual_host, autocommit=True
    )


def note(what: str, task: object = None) -> None:
    """A row that the test reads."""
    request = getattr(task, "request", None)
    link = database()
    with link, link.cursor() as cursor:
        cursor.execute(
            "INSERT INTO notes (what, task_id, redelivered, pid) VALUES (%s, %s, %s, %s)",
            (
                what,
                request and request.id,
                bool(request and (request.delivery_info or {}).get("redelivered")),
                os.getpid(),
            ),
        )


def wait_for(what: str, seconds: float = 60) -> None:
    """Until somebody has noted that."""
    link, waiting = database(), threading.Event()
    with link, link.cursor() as cursor:
        for _ in range(int(seconds * 20)):
            if cursor.execute("SELECT 1 FROM notes WHERE what = %s LIMIT 1", (what,)):
                return
            waiting.wait(0.05)
    raise TimeoutError(what)


@app.task(bind=True)
def say(self, what):
    note(what, self)


@app.task
def nothing():
    pass


@app.task
def add(*numbers):
    return sum(numbers)


@app.task
def total(numbers):
    note(f"total {sum(numbers)}")
    return sum(numbers)


@app.task(bind=True, acks_late=True)
def late(self, what, until):
    """Begins, waits for a word, ends."""
    note(f"{what} begins", self)
    wait_for(until)
    note(f"{what} ends", self)


@app.task(bind=True, max_retries=3)
def fail_twice(self, what):
    note(f"{what} try {self.request.retries}", self)
    if self.request.retries < 2:
        raise self.retry(countdown=1)
    note(f"{what} done", self)


@app.task(bind=True, acks_late=True)
def refuse(self, what):
    note(what, self)
    raise Reject("no", requeue=False)


@app.task(bind=True, acks_late=True)
def refuse_once(self, what):
    note(what, self)
    if not self.request.delivery_info.get("redelivered") and _first(what):
        raise Reject("not yet", requeue=True)
    note(f"{what} done", self)


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)
def innocent(self, what):
    """Takes a moment, so that it runs beside others."""
    threading.Event().wait(0.05)
    note(what, self)


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)
def deadly(self, what):
    """Ends the process that runs it."""
    note(what, self)
    os._exit(3)


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)
def deadly_kill(self, what):
    """As the kernel does where memory is out."""
    note(what, self)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)
def deadly_parent(self, what):
    """Ends the worker and all of its children."""
    note(what, self)
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _first(what: str) -> bool:
    link = database()
    with link, link.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM notes WHERE what = %s", (what,))
        return cursor.fetchone()[0] == 1


__all__ = ["app", "queuegate_celery"]
