"""The application: a task that does nothing, and one that says how long it was under way (benchmarks.marks)."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.signals import worker_ready

import queuegate_celery
from benchmarks import marks

app = Celery("bench", broker=os.environ.get("CELERY_BENCH_BROKER", "memory://"))
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=16,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    # RabbitMQ: a publisher that waits until its message is safe, as an INSERT and Redis's AOF do.
    broker_transport_options={"confirm_publish": True},
)

__all__ = ["app", "queuegate_celery"]


@worker_ready.connect
def _ready(**_: Any) -> None:
    marks.append(marks.READY, b".")


@app.task
def nothing() -> None:
    """Done."""
    marks.done()


@app.task
def lone(sent: float) -> None:
    """How long since it was sent, by the clock of one machine."""
    marks.took(sent)
