"""A thread for each receiving connection: renews leases while tasks run, and does what the event loop has not done:
receives, sends acks, and keeps silent connections awake.

It has to be a thread, because a worker of the pool `solo` runs its tasks in the event loop itself. It shares the
connection for statements, one statement at a time, so no lease is renewed after its message was settled.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable
from typing import Protocol

from queuegate_celery.errors import RETRY_SECONDS, Unavailable

logger = logging.getLogger(__name__)

ACK_SECONDS = 0.1
"""The longest time an ack waits for the event loop's next iteration before it is sent from here."""

LISTENER_SECONDS = 60.0
AWAKE_SECONDS = 60.0
"""Servers, proxies and firewalls may close connections that are idle for so long."""

_TURNS = 3  # a turn that fails is repeated each second: for two thirds of a lease, its owner has not lost it


class Leaseholder(Protocol):
    """What has the leases that are renewed, and the acks."""

    def renew(self) -> None: ...

    def send_acks(self) -> bool: ...


class Owner(Protocol):
    """The connection, which receives, listens to broadcasts, and learns of a failure."""

    def receive_and_keep_awake(self, idle_seconds: float) -> None: ...

    def listen(self) -> None: ...

    def fail(self, error: Exception) -> None: ...


class Renewal:
    """Runs until `stop`, or until the connection fails or is garbage: a program that drops its connection without
    closing it does not keep its messages. `seconds`: what ends first of a lease and of a connection that is silent."""

    def __init__(
        self,
        holder: Leaseholder,
        owner: Owner,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._holder, self._owner, self._clock = weakref.ref(holder), weakref.ref(owner), clock
        self._every = min(seconds, AWAKE_SECONDS) / _TURNS
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
            except Unavailable as error:
                logger.warning("leases are renewed again in a second: %s", error)
                self._renew_at = self._clock() + RETRY_SECONDS
            except Exception as error:  # the event loop raises it in its next iteration, and Celery reconnects
                logger.debug("renewal ends: %r", error)
                if (owner := self._owner()) is not None:
                    owner.fail(error)
                return

    def run_once(self) -> None:
        """Does what is due."""
        now, holder, owner = self._clock(), self._holder(), self._owner()
        if holder is None or owner is None:
            self._stopped = True
            return
        if self._acks_at is not None and now >= self._acks_at:
            self._acks_at = None if holder.send_acks() else now + RETRY_SECONDS
        if now >= self._renew_at:
            self._renew_at = now + self._every
            # Half a turn: a connection that was used just after the last one is not left until the next one.
            owner.receive_and_keep_awake(self._every / 2)
            holder.renew()
        if now >= self._listen_at:
            self._listen_at = now + LISTENER_SECONDS
            owner.listen()

    def _next(self) -> float:
        return min(self._renew_at, self._listen_at, *(() if self._acks_at is None else (self._acks_at,)))
