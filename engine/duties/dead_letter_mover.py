"""DeadLetterMover: moves a queue's rejected messages into its dead-letter queue.

A message is rejected by REJECT or by a NACK that is final, in the client's transaction, by the end of its receiver, or
by a claim that finds it delivered max_attempts times. All of them only set it aside in the table
(engine.model.states.REJECTED_NS), which cannot fail for want of rights or room elsewhere, and from then on it is never
due. To move it is this service's work: informed of a commit or a claim at once, and by a look every poll_interval for
words that were lost.

Rules
- The table of the dead-letter queue is made at first need, and only outside the move's transaction.
- A move is one transaction. Where a batch fails, its messages are moved one by one; one that does not fit stays where
  it is, is logged as an error, and is tried again later. It holds up no other.
- A move passes over rows that others have locked. They are tried again after a tenth of a second, then after twice that
  and so on: who has them locked may be another proxy that does the same.
- What was moved is told in the log at once, then at most once a minute, as a count.
- Where there is no dead-letter queue to be had (no right to make it, the name taken), all stay where they are, as
  logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from engine.delivery.context import WorkContext
from engine.duties.dead_letter_names import DeadLetterNames, not_named
from engine.duties.summary import Summary
from engine.model.backoff import DoublingDelay
from engine.model.commit_report import CommitReport
from engine.model.errors import BackendError, BackendUnavailable, EngineError, passes
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import MessageId, QueueCatalog, QueueName, QueueSpec
from engine.model.traced import DEAD_LETTERED
from engine.service import Service

MOVE_MAX = 200
"""Messages in one transaction: short locks, and the cost per row no longer falls much beyond it."""

_STUCK_MAX = 1000  # messages remembered as not to be moved; beyond it all moves of the queue pause
_STUCK_SECONDS = 60.0  # until one is tried again, and logged again
_FIRST_PAUSE, _MOST_PAUSE = 1.0, 60.0  # where no dead-letter queue is to be had
_FIRST_AGAIN = 0.1  # where others have rows locked
_PERIOD_SECONDS_MIN = 1.0
_TELL_SECONDS = 60.0  # between two lines of the log about messages that were moved

MakeTable = Callable[[QueueSpec, QueueName], Awaitable[None]]
"""Makes the table of a queue's dead-letter queue. Raises BackendError, 1050 where there is a table of that name."""

_EXISTS = 1050


def dead_letter_name(queue: QueueSpec) -> QueueName:
    """Where the queue's dead letters go."""
    return queue.dead_letter


@dataclass(frozen=True, slots=True)
class Moves:
    """What movers need of the engine. `refresh` reads the catalog again; `moved` tells of messages that are in another
    queue now; `leads`: whether lost words are looked for here; `names`: whose dead letters may go where."""

    make: MakeTable
    catalog: Callable[[], QueueCatalog]
    refresh: Callable[[], Awaitable[None]]
    moved: Callable[[CommitReport], None]
    leads: Callable[[], bool]
    names: DeadLetterNames = field(default_factory=DeadLetterNames)


class DeadLetterMover(Service):
    """See the module."""

    def __init__(
        self,
        queue: QueueSpec,
        context: WorkContext,
        moves: Moves,
    ) -> None:
        super().__init__(f"dead letters of {queue.name}", context.logger)
        self.queue = queue
        self._store, self._work, self._clock = context.store, context.work, context.clock
        self._jitter, self._metrics, self._trace = context.jitter, context.metrics, context.trace
        self._moves = moves
        self._wanted = asyncio.Event()
        self._stuck: dict[MessageId, float] = {}  # until when each is left alone
        self._pauses = DoublingDelay(_FIRST_PAUSE, _MOST_PAUSE)
        self._again = DoublingDelay(_FIRST_AGAIN, _MOST_PAUSE)
        self._passed_over = False  # the last pass left messages that others had locked
        self._summary = Summary(_TELL_SECONDS)

    def want(self) -> None:
        """Messages were rejected."""
        self._wanted.set()

    def retune(self, queue: QueueSpec) -> None:
        """The queue, or another, has changed: what did not fit may fit now."""
        self.queue = queue
        self._stuck.clear()
        self._pauses.reset()

    async def run_once(self) -> int:
        """Move what is rejected; returns how many messages went.

        Raises:
            EngineError: there is no dead-letter queue to move them to, or the database fails.
        """
        moved = 0
        self._passed_over = False
        while not self._stopping.is_set():
            ids = await self._rejected()
            if not ids:
                return moved
            dead = await self._target()
            count = await self._move(dead, ids)
            moved += count
            self._metrics.dead_lettered += count
            self._summary.add(count)
            if count:
                self._trace.note(DEAD_LETTERED, ids, sure=count == len(ids))
            self._passed_over = count + sum(id_ in self._stuck for id_ in ids) < len(ids)
            # A message that is gone may let the next of its key go.
            behind = {self.queue.name} if self.queue.options.order_key is not None else set()
            self._moves.moved(CommitReport(touched=frozenset((dead.name, *behind))))
            if len(ids) < MOVE_MAX or self._passed_over:
                return moved
        return moved

    async def _rejected(self) -> list[MessageId]:
        now = self._clock.monotonic()
        stuck = {id_ for id_, until in self._stuck.items() if until > now}
        if len(stuck) >= _STUCK_MAX:
            return []
        found = await self._work.run(self._store.rejected(self.queue, MOVE_MAX + len(stuck)))
        self._stuck = {id_: self._stuck[id_] for id_ in stuck.intersection(found)}
        return [id_ for id_ in found if id_ not in stuck][:MOVE_MAX]

    async def _target(self) -> QueueSpec:
        """The dead-letter queue, made if there is none."""
        name = dead_letter_name(self.queue)
        if name == self.queue.name:
            raise EngineError(f"'{name.table}' cannot be its own dead-letter queue: ALTER QUEUE ... SET (dead_letter)")
        if (dead := self._moves.catalog().get(name)) is not None:
            self._check_role(dead)
            await self._check_name()
            return dead
        await self._check_name()
        dead = await self._made(name)
        self._check_role(dead)
        await self._check_name()  # somebody may have been quicker
        return dead

    def _check_role(self, dead: QueueSpec) -> None:
        name, owner = dead.name, dead.options.dead_letter_of
        if owner is not None and owner != self.queue.name.table:
            raise EngineError(f"'{name}' holds the dead letters of '{owner}': name another with the option dead_letter")
        if dead.options.topic is not None:
            raise EngineError(f"'{name}' is fed from its topic: name another queue with the option dead_letter")

    async def _check_name(self) -> None:
        if not await self._work.run(self._moves.names.allows(self.queue, self._moves.catalog())):
            raise EngineError(not_named(self.queue.name, dead_letter_name(self.queue)))

    async def _made(self, name: QueueName) -> QueueSpec:
        try:
            await self._moves.make(self.queue, name)
            self._logger.info("made the dead-letter queue %s", name)
        except BackendError as error:
            if error.errno != _EXISTS:
                raise
        await self._moves.refresh()
        catalog = self._moves.catalog()
        if (dead := catalog.get(name)) is not None:
            return dead
        why = catalog.rejected.get(name, "there is a table of that name that is no queue")
        raise EngineError(f"'{name}' cannot be the dead-letter queue: {why}; name another with the option dead_letter")

    async def _move(self, dead: QueueSpec, ids: Sequence[MessageId]) -> int:
        try:
            return await self._work.run(self._store.bury(self.queue, dead, ids))
        except BackendError as error:
            if passes(error):
                raise
            if len(ids) == 1:
                self._left(dead, ids[0], error)
                return 0
        return sum([await self._move(dead, (id_,)) for id_ in ids])

    def _left(self, dead: QueueSpec, id_: MessageId, error: BackendError) -> None:
        self._stuck[id_] = self._clock.monotonic() + _STUCK_SECONDS
        text = "%s: message %r cannot be moved to %s and stays set aside: %s"
        self._logger.error(text, self.queue.name, id_, dead.name, error)

    # --- the service

    @property
    def _period(self) -> float:
        return max(self.queue.options.poll_interval_ns / NS_PER_SECOND, _PERIOD_SECONDS_MIN)

    def _wake(self) -> None:
        self._wanted.set()

    async def _run(self) -> None:
        # The jitter is 2/3 to 4/3; stretched to 0 to 1 of the period, so that many queues do not look at once.
        wait = self._period * (self._jitter() - 2 / 3) * 1.5
        while not self._stopping.is_set():
            told = await self._told(wait)
            if self._stopping.is_set():
                return
            wait = self._period
            if told or self._moves.leads():
                wait = await self._pass()
            wait = min(wait, self._say())

    def _say(self) -> float:
        """Log what was moved; seconds until there is more to say."""
        now = self._clock.monotonic()
        if count := self._summary.take(now):
            messages = "a message" if count == 1 else f"{count} messages"
            name = dead_letter_name(self.queue).table
            self._logger.warning("%s: moved %s to the dead-letter queue %s", self.queue.name, messages, name)
        return self._summary.wait(now)

    async def _told(self, seconds: float) -> bool:
        """Whether somebody has reported rejected messages within this time."""
        try:
            await asyncio.wait_for(self._wanted.wait(), seconds)
        except TimeoutError:
            return False
        self._wanted.clear()
        return True

    async def _pass(self) -> float:
        """One pass; how long to wait for the next."""
        try:
            await self.run_once()
        except EngineError as error:
            self._metrics.backend_errors += 1
            pause = self._pauses.take()
            if not isinstance(
                error, BackendUnavailable
            ):  # logged by `engine.database_work`; there may be no such messages
                text = "%s: rejected messages wait, set aside, for there is no moving them: %s"
                self._logger.error(text, self.queue.name, error)
            await self._pause(pause)
            self._wanted.set()
            return self._period
        self._pauses.reset()
        if self._passed_over:
            await self._pause(min(self._again.take(), self._period))
            self._wanted.set()
        else:
            self._again.reset()
        return min(self._period, _STUCK_SECONDS) if self._stuck else self._period
