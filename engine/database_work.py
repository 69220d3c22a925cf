"""DatabaseWork: how much of the database's work the engine may have going at once, over all queues.

Every store call of the engine passes through here, in the order asked for. Each queue's manager has at most one call
at a time, and its purger one more, so no queue can starve the others. It also shows here whether the database can be
reached: an outage is logged once when it begins and once when it is over, for all queues together.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from asyncio_pool import AioPool

from engine.clock import Clock, seconds_passed
from engine.model.errors import BackendError, BackendUnavailable

T = TypeVar("T")

_QUIET_SECONDS = 6.0
"""Without a failure, until an outage is over: longer than the longest pause between tries, so none is logged twice."""


class DatabaseWork:
    """See the module. Made inside a running event loop."""

    def __init__(self, limit: int, clock: Clock | None = None, logger: logging.Logger | None = None) -> None:
        assert limit >= 1
        self._pool = AioPool(size=limit)
        self._passed = seconds_passed if clock is None else clock.passed
        self._reach = None if clock is None or logger is None else Reach(clock, logger)
        self.waiting = 0
        """Calls that wait for a place: they are not under way, however long they take."""

    def for_one(self) -> DatabaseWork:
        """The same places and the same database, for one queue, whose own calls are `waiting`."""
        own = copy(self)
        own.waiting = 0
        return own

    async def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Await the call when it is its turn. A caller that is cancelled does not stop a call that has begun."""
        return (await self.timed(call))[0]

    async def timed(self, call: Coroutine[Any, Any, T]) -> tuple[T, float]:
        """As `run`; and when the call began, by Clock.passed."""
        turn = _Turn()
        self.waiting += 1
        try:
            outcome: _Outcome = await self._pool.exec(self._outcome(call, turn))
        finally:
            if turn.began is None:  # cancelled before it came
                turn.given_up = True
                self.waiting -= 1
                call.close()
        if self._reach is not None:
            self._reach.heard(outcome.error)
        if outcome.error is not None:
            raise outcome.error
        assert turn.began is not None
        return outcome.result, turn.began

    async def _outcome(self, call: Coroutine[Any, Any, T], turn: _Turn) -> _Outcome:
        """What the call came to. The pool writes out the traceback of an exception that goes through it, which takes a
        millisecond; in an outage there are many."""
        if turn.given_up:
            return _Outcome()
        self.waiting -= 1
        turn.began = self._passed()
        try:
            return _Outcome(await call)
        except BackendError as error:
            return _Outcome(error=error)


@dataclass(slots=True)
class _Turn:
    """Of one call."""

    began: float | None = None
    given_up: bool = False


class _Outcome(NamedTuple):
    result: Any = None
    error: BackendError | None = None


class Reach:
    """Whether the database can be reached, as calls find it. Who meets a BackendUnavailable need not tell of it, once
    the database has been reached: before that it is the start that fails, with the reason, and nothing is tried again.
    """

    def __init__(self, clock: Clock, logger: logging.Logger) -> None:
        self._clock, self._logger = clock, logger
        self._reached = False
        self._since: float | None = None
        self._failed = 0.0
        self._back: float | None = None  # when the first call after the last failure reached it

    def heard(self, error: BackendError | None) -> None:
        """A call has ended. One that the database refused has reached it."""
        now = self._clock.monotonic()
        if isinstance(error, BackendUnavailable):
            self._failed, self._back = now, None
            if self._since is None and self._reached:
                self._since = now
                self._logger.warning("database trouble, trying again: %s", error)
            return
        self._reached = True
        if self._since is not None:
            self._back = now if self._back is None else self._back
            if now - self._failed >= _QUIET_SECONDS:
                self._logger.info("the database works again after %.1f s", self._back - self._since)
                self._since = None
