"""A thread for each receiving connection: renews leases while tasks run, and sends acks that the event loop has not
sent.

It has to be a thread, because a worker of the pool `solo` runs its tasks in the event loop itself. It shares the
connection for statements, one statement at a time, so no lease is renewed after its message was settled.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

logger = logging.getLogger(__name__)

ACK_SECONDS = 0.1
"""The longest time an ack waits for the event loop's next iteration before it is sent from here."""

LISTENER_SECONDS = 60.0
_IDLE_SECONDS = 60.0  # servers and firewalls close connections that are idle for long


class Leaseholder(Protocol):
    """What has the leases that are renewed, and the acks."""

    def renew(self) -> None: ...

    def send_acks(self) -> None: ...

    def idle_seconds(self) -> float: ...

    def ping(self) -> None: ...


class Owner(Protocol):
    """The connection, which listens to broadcasts, and learns of a failure."""

    def listen(self) -> None: ...

    def fail(self, error: Exception) -> None: ...


class Renewal:
    """Runs until `stop`, or until the connection fails."""

    def __init__(
        self,
        holder: Leaseholder,
        owner: Owner,
        lease_seconds: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._holder, self._owner, self._clock = holder, owner, clock
        self._every = lease_seconds / 3  # two renewals may fail before a lease ends
        self._wake, self._stopped = threading.Event(), False
        self._renew_at = clock() + self._every
        self._listen_at = clock() + LISTENER_SECONDS
        self._acks_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="queuegate-renewal", daemon=True)
        self._thread.start()

    def acks_wait(self) -> None:
        """There are acks that the event loop is to send soon."""
        if self._acks_at is None:
            self._acks_at = self._clock() + ACK_SECONDS
            self._wake.set()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(5)

    def _run(self) -> None:
        while not self._stopped:
            self._wake.wait(max(0.0, self._next() - self._clock()))
            self._wake.clear()
            if self._stopped:
                return
            try:
                self.run_once()
            except Exception as error:  # the event loop raises it in its next iteration, and Celery reconnects
                logger.debug("renewal ends: %r", error)
                self._owner.fail(error)
                return

    def run_once(self) -> None:
        """Does what is due."""
        now = self._clock()
        if self._acks_at is not None and now >= self._acks_at:
            self._acks_at = None
            self._holder.send_acks()
        if now >= self._renew_at:
            self._renew_at = now + self._every
            self._holder.renew()
            if self._holder.idle_seconds() > _IDLE_SECONDS:
                self._holder.ping()
        if now >= self._listen_at:
            self._listen_at = now + LISTENER_SECONDS
            self._owner.listen()

    def _next(self) -> float:
        return min(self._renew_at, self._listen_at, *(() if self._acks_at is None else (self._acks_at,)))
