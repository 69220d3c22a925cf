"""DatabaseWork: how much of the database's work the engine may have going at once, over all queues.

Every store call of the engine passes through here, in the order asked for. Each queue's manager has at most one call
at a time, and its purger one more, so no queue can starve the others. It also shows here whether the database can be
reached: an outage is logged once when it begins and once when it is over, for all queues together.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from asyncio_pool import AioPool

from engine.clock import Clock
from engine.model.errors import BackendError, BackendUnavailable

T = TypeVar("T")

_QUIET_SECONDS = 6.0
"""Without a failure, until an outage is over: longer than the longest pause between tries, so none is logged twice."""


class DatabaseWork:
    """See the module. Made inside a running event loop."""

    def __init__(self, limit: int, clock: Clock | None = None, logger: logging.Logger | None = None) -> None:
        assert limit >= 1
        self._pool = AioPool(size=limit)
        self._reach = None if clock is None or logger is None else Reach(clock, logger)

    async def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Await the call when it is its turn. A caller that is cancelled does not stop a call that has begun."""
        result = cast("T | BackendError", await self._pool.exec(_outcome(call)))
        failed = result if isinstance(result, BackendError) else None
        if self._reach is not None:
            self._reach.heard(failed)
        if isinstance(result, BackendError):
            raise result
        return result


async def _outcome(call: Coroutine[Any, Any, T]) -> T | BackendError:
    """What the call came to. The pool writes out the traceback of an exception that goes through it, which takes a
    millisecond; in an outage there are many."""
    try:
        return await call
    except BackendError as error:
        return error


class Reach:
    """Whether the database can be reached, as calls find it. Who meets a BackendUnavailable need not tell of it."""

    def __init__(self, clock: Clock, logger: logging.Logger) -> None:
        self._clock, self._logger = clock, logger
        self._since: float | None = None
        self._failed = 0.0
        self._back: float | None = None  # when the first call after the last failure reached it

    def heard(self, error: BackendError | None) -> None:
        """A call has ended. One that the database refused has reached it."""
        now = self._clock.monotonic()
        if isinstance(error, BackendUnavailable):
            self._failed, self._back = now, None
            if self._since is None:
                self._since = now
                self._logger.warning("database trouble, trying again: %s", error)
        elif self._since is not None:
            self._back = now if self._back is None else self._back
            if now - self._failed >= _QUIET_SECONDS:
                self._logger.info("the database works again after %.1f s", self._back - self._since)
                self._since = None
