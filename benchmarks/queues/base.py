"""What a queue has to do to be measured. Queues are frozen values: each client process gets a copy, and connects."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

from benchmarks.topics.logs import Measured

PAYLOAD = "x" * 100
BATCH = 100
FILL = 1000  # rows of each INSERT before the clock runs
WINDOW = 500  # messages on their way to a receiver that is pushed to
POLL_SECONDS = 0.1  # how long a receiver that polls sleeps when it has found nothing
LEASE = "10 MINUTE"


class Rival(Measured, Protocol):
    """One queue of one server."""

    def sender(self, messages: int) -> Callable[[], object]:
        """Connect; each call of the answer sends so many messages in one commit, and returns when it is durable."""

    def receiver(self, acked: int, taken: int | None = None) -> Iterator[int]:
        """Connect and yield 0; then, again and again, receive messages, ack so many at a time and yield how many.

        It has at most `taken` messages at a time; None: BATCH where it polls, WINDOW where it is pushed to.

        Where there are none it waits; it ends with its process.
        """


def polled(take: Callable[[], list[int]]) -> list[int]:
    """What a receiver that polls takes next: at least one."""
    while not (taken := take()):
        time.sleep(POLL_SECONDS)
    return taken
