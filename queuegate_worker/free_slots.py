"""How many messages the receiver requests: as many as slots are free, and a few more where handlers are short."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from queuegate_worker.message import Message


class FreeSlots:
    """A counter, like a semaphore: the receiver waits for free slots, and slots release them. It also counts what
    slots have handled and left to be acked."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._busy: dict[int, Sequence[Message]] = {}  # what slots handle; one that is left takes its slot with it
        self._deferred = 0
        self._closed = False
        self._changed = threading.Condition()

    def wait(self, seconds: float | None = None) -> int:
        """The free slots, as soon as there is one; 0 after `close`, and if there is none in so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._free() > 0, seconds)
            return 0 if self._closed else self._free()

    @property
    def idle(self) -> bool:
        """Whether all slots are free, and nothing is to be acked."""
        with self._changed:
            return self._is_idle()

    @property
    def busy(self) -> int:
        """How many slots handle something."""
        return len(self._busy)

    def _free(self) -> int:
        return self._slots - len(self._busy)

    def _is_idle(self) -> bool:
        return not self._busy and not self._deferred

    def wait_idle(self, seconds: float) -> bool:
        """Wait until all slots are free, and all is acked; whether that happened in time."""
        with self._changed:
            return self._changed.wait_for(self._is_idle, seconds)

    def wait_progress(self, free: int, seconds: float) -> bool:
        """Wait until more slots than that are free, or `idle`, or `close`; whether that happened in so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed or self._free() > free or self._is_idle(), seconds)

    def defer(self) -> None:
        """A slot's work is done but for its ack."""
        with self._changed:
            self._deferred += 1

    def settled(self, count: int) -> None:
        """Of so many deferred ones the acks are sent."""
        with self._changed:
            self._deferred -= count
            self._changed.notify_all()

    def acquire(self, batch: Sequence[Message]) -> None:
        """A slot becomes busy with these messages."""
        with self._changed:
            self._busy[id(batch)] = batch

    def release(self, batch: Sequence[Message]) -> None:
        """Its slot becomes free, if it was not abandoned."""
        with self._changed:
            self._busy.pop(id(batch), None)
            self._changed.notify_all()

    def abandon(self, message: Message) -> None:
        """Do not wait for the slot of this message any more, if it is still busy."""
        with self._changed:
            for number, batch in [*self._busy.items()]:
                if any(each is message for each in batch):
                    del self._busy[number]
                    self._slots -= 1
            self._changed.notify_all()

    def close(self) -> None:
        """Nothing more is received."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


_AHEAD_SECONDS = 0.05  # of work
_AHEAD_MAX = 400  # messages; `prefetch` of a poll has room for them
_AHEAD_MAX_BYTES = 4 << 20
_SLOWER, _FASTER = 0.5, 0.125  # how far one sample moves the average: a handler that gets slow counts at once


class Pace:
    """How fast the handlers are, and so how many messages are received beyond the free slots: as many as are handled
    in 50 ms. A poll costs the proxy more than a short handler takes; where a handler takes longer, a message would only
    wait here while another worker is idle. Methods may be called from any thread: a lost sample does no harm."""

    def __init__(self, slots: int, batch: int) -> None:
        self._slots, self._batch = slots, batch
        self._seconds: float | None = None
        self._bytes = 0.0

    def handled(self, seconds: float) -> None:
        """A slot has handled and settled one batch in that time."""
        average = self._seconds
        if average is None:
            self._seconds = seconds
        else:
            self._seconds = average + (seconds - average) * (_SLOWER if seconds > average else _FASTER)

    def received(self, size: int) -> None:
        """A message of about so many bytes has come."""
        self._bytes = max(float(size), self._bytes + (size - self._bytes) * _FASTER)

    @property
    def worked(self) -> bool:
        """Whether anything was handled."""
        return self._seconds is not None

    @property
    def ahead(self) -> int:
        """Messages to receive beyond the free slots."""
        if self._seconds is None:
            return 0
        batches = int(_AHEAD_SECONDS / max(self._seconds, 1e-6) * self._slots)
        most = int(_AHEAD_MAX_BYTES / self._bytes) if self._bytes else 0
        return min(batches * self._batch, _AHEAD_MAX, most)
