"""Surveyor: counts of the queues' tables, for monitoring: read seldom, shared, and without delaying deliveries.

Rules: a census younger than FRESH_SECONDS is not taken again. That of a large table is cached for longer, so that its
counts take no more than SHARE of the time. A caller that requests one in progress waits for it, and at most
SURVEYS_AT_ONCE are in progress, so that the database is free for deliveries. If a database does not answer within
SURVEY_SECONDS, the survey has no numbers, but the reason. The wait for a turn is part of that time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.context import EngineContext
from engine.model.errors import BackendError
from engine.model.key_range import KeyRange
from engine.model.queue import Condition, MessageId, QueueName, QueueSpec
from engine.store.base import LeasedMessage
from engine.store.census import Census, RangeCount

FRESH_SECONDS = 1.0  # a dashboard and a scraper that ask in the same second cost one count
LARGE = 10_000  # messages in a table
FRESH_SECONDS_MAX = 10.0
SHARE = 0.02  # of the time, for the count of one queue that is monitored
SURVEYS_AT_ONCE = 2
SURVEY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Survey:
    """The census of one queue, or the problem for which there is none."""

    census: Census | None
    problem: str | None = None


class Surveyor:
    """See the module. Made inside a running event loop."""

    def __init__(self, context: EngineContext) -> None:
        self._store, self._work, self._clock = context.store, context.work, context.clock
        self._turns = asyncio.Semaphore(SURVEYS_AT_ONCE)
        self._running: dict[QueueName, asyncio.Task[Survey]] = {}
        self._taken: dict[QueueName, tuple[float, Survey]] = {}

    async def survey(self, queues: Iterable[QueueSpec]) -> dict[QueueName, Survey]:
        """The surveys of these queues, by name, within SURVEY_SECONDS: those not counted by then are marked so."""
        tasks = {queue.name: self._one(queue) for queue in queues}
        running = [task for task in tasks.values() if isinstance(task, asyncio.Task)]
        if running:
            await asyncio.wait(running, timeout=SURVEY_SECONDS)
        return {name: _result(task) for name, task in tasks.items()}

    async def leased_messages(self, queue: QueueSpec, limit: int) -> list[LeasedMessage]:
        """The messages in flight of one queue; none if the database fails or does not answer in time."""
        try:
            async with asyncio.timeout(SURVEY_SECONDS), self._turns:
                return await self._work.run(self._store.counts.leased_messages(queue, limit))
        except (BackendError, TimeoutError):
            return []

    async def ready(self, queue: QueueSpec, limit: int) -> list[MessageId]:
        """The first ready messages, up to a limit, in the order of delivery; none if the database fails or does not
        answer in time."""
        try:
            async with asyncio.timeout(SURVEY_SECONDS), self._turns:
                poll = await self._work.run(self._store.poll(queue, limit))
        except (BackendError, TimeoutError):
            return []
        return [key.id for key in poll.keys]

    async def fitting(
        self, queue: QueueSpec, conditions: Iterable[Condition], ids: Sequence[MessageId]
    ) -> set[MessageId]:
        """Those of these messages for which one of the conditions is true, so far as the database answers in time."""
        matches: set[MessageId] = set()
        try:
            async with asyncio.timeout(SURVEY_SECONDS), self._turns:
                for condition in conditions:
                    matches |= await self._work.run(self._store.fitting(queue, condition, ids))
        except (BackendError, TimeoutError):
            pass
        return matches

    async def ranges(self, queue: QueueSpec, ranges: Sequence[KeyRange]) -> list[RangeCount]:
        """The messages of each of these parts of a queue's ring. Raises BackendError, also where the database does not
        answer in time."""
        try:
            async with asyncio.timeout(SURVEY_SECONDS), self._turns:
                return await self._work.run(self._store.counts.ranges(queue, ranges))
        except TimeoutError:
            raise BackendError(f"not counted within {SURVEY_SECONDS:g} s", 1205, "HY000") from None

    async def reachable(self, seconds: float) -> str | None:
        """None if the database answers within that time, else what is wrong."""
        try:
            async with asyncio.timeout(seconds):
                await self._store.ping()
        except BackendError as error:
            return error.message
        except TimeoutError:
            return f"the database did not answer within {seconds:g} s"
        return None

    async def close(self) -> None:
        """Stop counting. Later calls return nothing new."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _one(self, queue: QueueSpec) -> asyncio.Task[Survey] | Survey:
        until, survey = self._taken.get(queue.name, (float("-inf"), None))
        if survey is not None and self._clock.monotonic() < until:
            return survey
        task = self._running.get(queue.name)
        if task is None:
            task = self._running[queue.name] = asyncio.create_task(self._take(queue))
        return task

    async def _take(self, queue: QueueSpec) -> Survey:
        try:
            async with self._turns:
                began = self._clock.monotonic()
                survey = await self._query(queue)
            now = self._clock.monotonic()
            fresh = FRESH_SECONDS
            if survey.census is not None and survey.census.unacked + survey.census.acked >= LARGE:
                fresh = min(max(FRESH_SECONDS, (now - began) / SHARE), FRESH_SECONDS_MAX)
            self._taken[queue.name] = (now + fresh, survey)
            return survey
        finally:
            del self._running[queue.name]

    async def _query(self, queue: QueueSpec) -> Survey:
        try:
            async with asyncio.timeout(SURVEY_SECONDS):
                return Survey(await self._work.run(self._store.counts.census(queue)))
        except BackendError as error:
            return Survey(None, error.message)
        except TimeoutError:
            return _LATE


_LATE = Survey(None, f"not counted within {SURVEY_SECONDS:g} s")


def _result(task: asyncio.Task[Survey] | Survey) -> Survey:
    if isinstance(task, Survey):
        return task
    return task.result() if task.done() and not task.cancelled() else _LATE
