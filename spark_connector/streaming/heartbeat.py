"""Heartbeat: a thread beside a streaming query that renews its leases while a micro-batch takes its time.

It ends with the process, and also where the process goes on without the one that started it: a JVM that was killed
must not leave somebody behind who holds its messages for ever.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

_log = logging.getLogger("queuegate.spark")


class Heartbeat:
    """Calls `beat` at once and then every `every` seconds, from a thread of its own, until it is stopped."""

    def __init__(self, beat: Callable[[], object], every: float, parent: Callable[[], int] = os.getppid) -> None:
        self._beat, self._every = beat, every
        self._parent, self._born_of = parent, parent()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="queuegate-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """No further beat; waits for one that is under way, for so long."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._ended.is_set() and self._parent() == self._born_of:
            try:
                self._beat()
            except Exception as error:  # whatever it is, the next beat may succeed, and nobody else would make one
                _log.warning("leases were not renewed, and will be tried again: %s", error)
            self._ended.wait(self._every)
