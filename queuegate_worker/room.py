"""How many slots are free: the receiver asks for no more messages than these can begin with at once."""

from __future__ import annotations

import threading


class Room:
    """A count of slots, for a receiver that waits and slots that give back."""

    def __init__(self, slots: int) -> None:
        self._slots = self._free = slots
        self._closed = False
        self._changed = threading.Condition()

    def wait(self, at_least: int = 1) -> int:
        """The free slots, as soon as there are so many; 0 once the room is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._free >= at_least)
            return 0 if self._closed else self._free

    @property
    def idle(self) -> bool:
        """Whether no slot has work."""
        with self._changed:
            return self._free == self._slots

    def wait_idle(self, seconds: float) -> bool:
        """Wait until no slot has work; whether that came in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._free == self._slots, seconds)

    def take(self) -> None:
        """A slot gets work."""
        with self._changed:
            self._free -= 1

    def give_back(self) -> None:
        """A slot is done."""
        with self._changed:
            self._free += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Nothing more is received."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
