"""The application: a task that does nothing, and one that says how long it was under way.

What is done is told in files that all workers append to: it costs a system call, on every broker the same.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import worker_ready

import queuegate_celery

SAMPLE = struct.Struct("<d")
_FOLDER = Path(os.environ.get("CELERY_BENCH_FOLDER", "."))
DONE, TOOK, READY = "done", "took", "ready"

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


def _tell(name: str, data: bytes) -> None:
    file = os.open(_FOLDER / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, data)
    finally:
        os.close(file)


@worker_ready.connect
def _ready(**_: Any) -> None:
    _tell(READY, b".")


@app.task
def nothing() -> None:
    """Done."""
    _tell(DONE, b".")


@app.task
def lone(sent: float) -> None:
    """How long since it was sent, by the clock of one machine."""
    _tell(TOOK, SAMPLE.pack(time.time() - sent))
