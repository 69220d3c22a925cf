"""The number of free slots: the receiver requests no more messages than can be started at once."""

from __future__ import annotations

import threading


class FreeSlots:
    """A counter, like a semaphore: the receiver waits for free slots, and slots release them."""

    def __init__(self, slots: int) -> None:
        self._slots = self._free = slots
        self._closed = False
        self._changed = threading.Condition()

    def wait(self, at_least: int = 1) -> int:
        """The free slots, as soon as there are that many; 0 after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._free >= at_least)
            return 0 if self._closed else self._free

    @property
    def idle(self) -> bool:
        """Whether all slots are free."""
        with self._changed:
            return self._free == self._slots

    def wait_idle(self, seconds: float) -> bool:
        """Wait until all slots are free; whether that happened in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._free == self._slots, seconds)

    def acquire(self) -> None:
        """A slot becomes busy."""
        with self._changed:
            self._free -= 1

    def release(self) -> None:
        """A slot becomes free."""
        with self._changed:
            self._free += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Nothing more is received."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
