"""DatabaseWork: limits the engine's concurrent database calls, over all queues.

Every store call of the engine goes through here, in the order of the requests. Each queue's manager has at most one
call at a time, and its purger one more, so no queue can starve the others. Here it is also detected whether the
database can be reached: an outage is logged once when it begins and once when it ends, for all queues together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from asyncio_pool import AioPool

from engine.clock import Clock, boottime_seconds
from engine.model.errors import TOO_LARGE, BackendError, BackendUnavailable

T = TypeVar("T")

_QUIET_SECONDS = 6.0
"""Without a failure, until an outage is taken to have ended: longer than the longest pause between attempts, so none is
logged twice."""


class DatabaseWork:
    """See the module. Made inside a running event loop."""

    def __init__(self, limit: int, clock: Clock | None = None, logger: logging.Logger | None = None) -> None:
        assert limit >= 1
        self._pool = AioPool(size=limit)
        self._boottime = boottime_seconds if clock is None else clock.boottime
        self._reachability = None if clock is None or logger is None else Reachability(clock, logger)
        self.waiting = 0
        """Calls that wait for a slot: they have not begun."""

    def for_queue(self) -> DatabaseWork:
        """The same slots and the same database, for one queue, with a `waiting` of its own."""
        own = copy(self)
        own.waiting = 0
        return own

    async def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Await the call when it is its turn. Cancelling the caller does not stop a call that has begun."""
        return (await self.run_timed(call))[0]

    async def run_timed(
        self, call: Coroutine[Any, Any, T], abandoned: Callable[[Outcome], None] = lambda outcome: None
    ) -> tuple[T, float]:
        """As `run`; and when the call began, by Clock.boottime. `abandoned` is called with the outcome of a call whose
        caller was cancelled after it had begun."""
        state = _CallState()
        self.waiting += 1
        try:
            outcome: Outcome = await self._pool.exec(self._outcome(call, state))
        except asyncio.CancelledError:
            if state.outcome is None:
                state.abandoned = abandoned
            else:  # it ended in the same moment
                abandoned(state.outcome)
            raise
        finally:
            if state.began is None:  # cancelled before its turn
                state.cancelled = True
                self.waiting -= 1
                call.close()
        if self._reachability is not None:
            self._reachability.record(outcome.error)
        if outcome.error is not None:
            raise outcome.error
        assert state.began is not None
        return outcome.result, state.began

    async def _outcome(self, call: Coroutine[Any, Any, T], state: _CallState) -> Outcome:
        """The call's result or error. The pool formats the traceback of an exception that goes through it, which takes
        a millisecond; in an outage there are many."""
        if state.cancelled:
            return Outcome()
        self.waiting -= 1
        state.began = self._boottime()
        try:
            outcome = Outcome(await call)
        except BackendError as error:
            outcome = Outcome(error=error)
        state.outcome = outcome
        if state.abandoned is not None:
            state.abandoned(outcome)
        return outcome


class Outcome(NamedTuple):
    """What a call has returned or raised."""

    result: Any = None
    error: BackendError | None = None


@dataclass(slots=True)
class _CallState:
    """Of one call. `abandoned`: see `run_timed`, once its caller was cancelled."""

    began: float | None = None
    cancelled: bool = False
    outcome: Outcome | None = None
    abandoned: Callable[[Outcome], None] | None = None


class Reachability:
    """Whether the database can be reached, from the results of calls. Callers need not log a BackendUnavailable, once
    the database has been reached: before that the start fails, with the reason, and nothing is tried again.
    """

    def __init__(self, clock: Clock, logger: logging.Logger) -> None:
        self._clock, self._logger = clock, logger
        self._reached = False
        self._unreachable_since: float | None = None
        self._failed_at = 0.0
        self._recovered_at: float | None = None  # when the first call after the last failure reached it

    def record(self, error: BackendError | None) -> None:
        """A call has ended. One that the database refused has reached it, too."""
        now = self._clock.monotonic()
        if isinstance(error, BackendUnavailable) and error.errno != TOO_LARGE:  # that is what it did answer
            self._failed_at, self._recovered_at = now, None
            if self._unreachable_since is None and self._reached:
                self._unreachable_since = now
                self._logger.warning("database trouble, trying again: %s", error)
            return
        self._reached = True
        if self._unreachable_since is not None:
            self._recovered_at = now if self._recovered_at is None else self._recovered_at
            if now - self._failed_at >= _QUIET_SECONDS:
                self._logger.info("the database works again after %.1f s", self._recovered_at - self._unreachable_since)
                self._unreachable_since = None
