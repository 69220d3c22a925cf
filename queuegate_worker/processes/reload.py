"""`--autoreload`: watches the program's files, by the library watchfiles."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from queuegate_worker.errors import WorkerError


@contextmanager
def watched(folder: Path, changed: Callable[[], object]) -> Iterator[None]:
    """While the block runs, call `changed` in a thread after Python files below the folder have changed.

    Raises WorkerError if watchfiles is not installed.
    """
    try:
        watchfiles = importlib.import_module("watchfiles")
    except ImportError:
        raise WorkerError("--autoreload needs watchfiles: pip install 'queuegate-worker[reload]'") from None
    ended = threading.Event()

    def watch() -> None:
        changes = watchfiles.watch(
            folder, watch_filter=watchfiles.PythonFilter(), stop_event=ended, raise_interrupt=False
        )
        for _ in changes:
            changed()

    thread = threading.Thread(target=watch, name="queuegate-reload", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
