"""Heartbeat: a thread of a streaming query that renews its leases while a micro-batch runs.

It ends with the process, and also if the parent process ends: after a JVM was killed, no orphan process must renew its
leases forever.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

_log = logging.getLogger("queuegate.spark")


class Heartbeat:
    """Calls `beat` at once and then every `every` seconds, in its own thread, until it is stopped."""

    def __init__(self, beat: Callable[[], object], every: float, parent: Callable[[], int] = os.getppid) -> None:
        self._beat, self._every = beat, every
        self._parent, self._parent_pid = parent, parent()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="queuegate-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Stops beating; waits up to `timeout` seconds for a beat in progress."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._ended.is_set() and self._parent() == self._parent_pid:
            try:
                self._beat()
            except (
                Exception
            ) as error:  # after any error: the next beat may succeed, and there is no other thread for it
                _log.warning("leases were not renewed, and will be tried again: %s", error)
            self._ended.wait(self._every)
