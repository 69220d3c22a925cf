"""Sequencer: makes sure that a topic's messages have their numbers before it is read.

Any number of processes may take steps: that is safe, but of two concurrent steps one fails. So the steps of one process
are serial; and after a failed step a process yields to the others for a second.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable

from engine.backend.base import StorePool
from engine.model.errors import NO_SUCH_TABLE, BackendError, BackendUnavailable, LockWaitTimeout
from engine.model.queue import QueueName, TopicSpec
from engine.model.sequence import NumberingResult
from engine.store.operations.sequence import SequenceStatements, step
from engine.store.statements.dialect import Dialect

_LOST = frozenset((1213, 1062))
"""Another step was faster: the transaction was rolled back, or the topic's row was created just now."""

_CHANCE = secrets.SystemRandom().random
_TRIES = 6
_PAUSE_SECONDS = 0.01  # at most, after a step that was in vain; each time twice as long
_YIELD_SECONDS = 1.0  # for which the others go first then


class Sequencer:
    """See the module. `make_positions` makes the table of positions of a database; `chance` is from 0 to 1."""

    def __init__(
        self,
        pool: StorePool,
        dialect: Dialect,
        make_positions: Callable[[str], Awaitable[None]],
        chance: Callable[[], float] = _CHANCE,
    ) -> None:
        self._pool, self._dialect, self._make_positions, self._chance = pool, dialect, make_positions, chance
        self._turns: dict[QueueName, asyncio.Lock] = {}
        self._yields_until: dict[QueueName, float] = {}
        self._texts: dict[QueueName, tuple[TopicSpec, SequenceStatements]] = {}

    async def number(self, topic: TopicSpec) -> NumberingResult:
        """Assign numbers to the topic's next messages without one. Raises BackendError."""
        statements = self._statements(topic)
        for tries in range(_TRIES):
            if not await self._to_number(topic, statements):
                return NumberingResult()
            async with self._turns.setdefault(topic.name, asyncio.Lock()):
                numbered = await self._step(topic, statements)
            if numbered is not None:
                return numbered
            self._yields_until[topic.name] = asyncio.get_running_loop().time() + _YIELD_SECONDS
            await asyncio.sleep(_PAUSE_SECONDS * 2**tries * self._chance())
        return NumberingResult(waiting=True)

    async def number_all(self, topic: TopicSpec) -> None:
        """The same for all messages that are committed now, except those that clients have locked. A million takes
        about a minute. Raises BackendError."""
        statements = self._statements(topic)
        ((last,),) = await self._pool.read(lambda connection: connection.query(statements.last_unnumbered))
        more = last is not None
        while more:
            more = (await self.number(topic)).more
            first = await self._first(statements) if more else None
            more = first is not None and first <= int(last)

    async def _to_number(self, topic: TopicSpec, statements: SequenceStatements) -> bool:
        """Whether a message has no number, also after yielding to the others, if that is due."""
        there = await self._first(statements) is not None
        if there and self._yields(topic.name):
            await asyncio.sleep(_PAUSE_SECONDS * (1 + self._chance()))
            there = await self._first(statements) is not None
        return there

    def _yields(self, topic: QueueName) -> bool:
        return asyncio.get_running_loop().time() < self._yields_until.get(topic, 0.0)

    async def _first(self, statements: SequenceStatements) -> int | None:
        """The first message without a number. Outside of a transaction, so that on a cluster it waits for what other
        nodes have committed."""
        rows = await self._pool.read(lambda connection: connection.query(statements.unnumbered, (1,)))
        return int(rows[0][0]) if rows else None

    async def _step(self, topic: TopicSpec, statements: SequenceStatements) -> NumberingResult | None:
        """One step; None where it was in vain."""
        try:
            return await self._pool.write(lambda connection: step(connection, statements))
        except BackendUnavailable:
            raise
        except LockWaitTimeout:  # that took seconds
            return NumberingResult(waiting=True)
        except BackendError as error:
            if error.errno == NO_SUCH_TABLE:
                await self._make_positions(topic.name.database)  # if the topic was dropped, the next poll reports it
            elif error.errno not in _LOST:
                raise
        return None

    def _statements(self, topic: TopicSpec) -> SequenceStatements:
        known = self._texts.get(topic.name)
        if known is None or known[0] is not topic:
            known = self._texts[topic.name] = (topic, SequenceStatements(self._dialect, topic))
        return known[1]
