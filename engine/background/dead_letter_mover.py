"""DeadLetterMover: moves a queue's rejected messages into its dead-letter queue.

A message is rejected by REJECT or by a final NACK, in the client's transaction, by the end of its receiver, or by a
claim if it was delivered max_attempts times. All of them only set it aside in the table
(engine.model.states.REJECTED_NS), which cannot fail for lack of rights or space elsewhere, and from then on it is never
due. This service moves it: at once when it is notified of a commit or a claim, and every poll_interval in case a
notification was lost; up to sixteen times more seldom where nothing changes in the queue.

Rules
- The table of the dead-letter queue is created when it is first needed, and only outside the move's transaction.
- A move is one transaction. Where a batch fails, its messages are moved one by one; one that does not fit stays where
  it is, is logged as an error, and is tried again later. It holds up no other.
- A move skips rows that others have locked. They are tried again after a tenth of a second, then after twice that and
  so on: another proxy that does the same may have them locked.
- The number of moved messages is logged at once, then at most once a minute.
- Where there can be no dead-letter queue (no right to create it, the name is taken), all messages stay where they are,
  and this is logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from engine.background.dead_letter_names import DeadLetterNames, not_named
from engine.background.pace import IdlePace
from engine.background.summary import Summary
from engine.delivery.context import QueueContext
from engine.model.backoff import DoublingDelay
from engine.model.commit_report import CommitReport
from engine.model.errors import BackendError, BackendUnavailable, EngineError, is_refusal
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import MessageId, QueueName, QueueSpec
from engine.model.trace_event import DEAD_LETTERED
from engine.service import Service

MOVE_MAX = 200
"""Messages in one transaction: short locks, and the cost per row no longer falls much beyond it."""

_STUCK_MAX = 1000  # messages stored here that cannot be moved; beyond it all moves of the queue pause
_LOGGED_MAX = 10  # of these
_STUCK_SECONDS = 60.0  # until one is tried again, and logged again
_FIRST_PAUSE, _MAX_PAUSE = 1.0, 60.0  # where there can be no dead-letter queue
_FIRST_RETRY = 0.1  # where others have rows locked
_PERIOD_SECONDS_MIN = 1.0
_REPORT_SECONDS = 60.0  # between two log records about moved messages

MakeTable = Callable[[QueueSpec, QueueName], Awaitable[None]]
"""Creates the table of a queue's dead-letter queue. Raises BackendError, 1050 where there is a table of that name."""

_EXISTS = 1050


def dead_letter_name(queue: QueueSpec) -> QueueName:
    """The name of the queue's dead-letter queue."""
    return queue.dead_letter


class DeadLetterMover(Service):
    """See the module. The leader also finds rejected messages without a notification. `make` creates a dead-letter
    queue; `names`: which of them may be used."""

    def __init__(self, queue: QueueSpec, context: QueueContext, make: MakeTable, names: DeadLetterNames) -> None:
        super().__init__(f"dead letters of {queue.name}", context.engine.logger)
        self.queue = queue
        self._make, self._names = make, names
        self._engine, self._store, self._work = context.engine.host, context.engine.store, context.work
        self._clock, self._context = context.engine.clock, context
        self._requested = asyncio.Event()
        self._stuck: dict[MessageId, float] = {}  # until when each is not tried again
        self._pauses = DoublingDelay(_FIRST_PAUSE, _MAX_PAUSE)
        self._retry_pauses = DoublingDelay(_FIRST_RETRY, _MAX_PAUSE)
        self._skipped_locked = False  # the last pass skipped messages that others had locked
        self._idle_pace = IdlePace(context.changes)
        self._summary = Summary(_REPORT_SECONDS)

    def notify(self) -> None:
        """Messages were rejected."""
        self._requested.set()

    def reconfigure(self, queue: QueueSpec) -> None:
        """The queue, or another, has changed: messages that did not fit may fit now."""
        self.queue = queue
        self._stuck.clear()
        self._pauses.reset()

    async def run_once(self) -> int:
        """Move the rejected messages; returns how many were moved.

        Raises:
            EngineError: there is no dead-letter queue to move them to, or the database fails.
        """
        moved = 0
        self._skipped_locked = False
        while not self._stopping.is_set():
            ids = await self._rejected()
            if not ids:
                return moved
            dead = await self._target()
            count = await self._move(dead, ids)
            moved += count
            self._context.metrics.dead_lettered += count
            self._summary.add(count)
            if count:
                self._context.trace.note(DEAD_LETTERED, ids, sure=count == len(ids))
            self._skipped_locked = count + sum(id_ in self._stuck for id_ in ids) < len(ids)
            # Once a message is moved, the next one with its key may be delivered.
            blocked = frozenset({self.queue.name} if self.queue.options.order_key is not None else ())
            self._engine.committed(CommitReport(touched=frozenset((dead.name, *blocked)), overdue=blocked))
            if len(ids) < MOVE_MAX or self._skipped_locked:
                return moved
        return moved

    async def _rejected(self) -> list[MessageId]:
        now = self._clock.monotonic()
        stuck = {id_ for id_, until in self._stuck.items() if until > now}
        if len(stuck) >= _STUCK_MAX:
            return []
        ids = await self._work.run(self._store.rejected(self.queue, MOVE_MAX + len(stuck)))
        self._stuck = {id_: self._stuck[id_] for id_ in stuck.intersection(ids)}
        return [id_ for id_ in ids if id_ not in stuck][:MOVE_MAX]

    async def _target(self) -> QueueSpec:
        """The dead-letter queue, created if there is none."""
        name = dead_letter_name(self.queue)
        if name == self.queue.name:
            raise EngineError(f"'{name.table}' cannot be its own dead-letter queue: ALTER QUEUE ... SET (dead_letter)")
        if (dead := self._engine.catalog.get(name)) is not None:
            self._check_role(dead)
            await self._check_name()
            return dead
        await self._check_name()
        dead = await self._make_target(name)
        self._check_role(dead)
        await self._check_name()  # another client may have been quicker
        return dead

    def _check_role(self, dead: QueueSpec) -> None:
        name, owner = dead.name, dead.options.dead_letter_of
        if owner is not None and owner != self.queue.name.table:
            raise EngineError(f"'{name}' holds the dead letters of '{owner}': name another with the option dead_letter")
        if dead.options.topic is not None:
            how = "name another queue with the option dead_letter"
            if self.queue.options.topic is not None:
                how = "DROP GROUP one of the two, and create it under another name"
            raise EngineError(f"'{name}' is fed from its topic: {how}")

    async def _check_name(self) -> None:
        if not await self._work.run(self._names.allows(self.queue, self._engine.catalog)):
            raise EngineError(not_named(self.queue.name, dead_letter_name(self.queue)))

    async def _make_target(self, name: QueueName) -> QueueSpec:
        try:
            await self._make(self.queue, name)
            self._logger.info("made the dead-letter queue %s", name)
        except BackendError as error:
            if error.errno != _EXISTS:
                raise
        # Shielded: where the queue is gone, the refresh closes the mover that called it.
        await asyncio.shield(asyncio.ensure_future(self._engine.catalog_changed((name,))))
        catalog = self._engine.catalog
        if (dead := catalog.get(name)) is not None:
            return dead
        why = catalog.rejected.get(name, "there is a table of that name that is no queue")
        raise EngineError(f"'{name}' cannot be the dead-letter queue: {why}; name another with the option dead_letter")

    async def _move(self, dead: QueueSpec, ids: Sequence[MessageId]) -> int:
        try:
            return await self._work.run(self._store.move_to_dead_letters(self.queue, dead, ids))
        except BackendError as error:
            if not is_refusal(error):
                raise
            if len(ids) == 1:
                self._on_stuck(dead, ids[0], error)
                return 0
        # A message that takes others with it (ON DELETE CASCADE) is mostly older than these.
        return sum([await self._move(dead, (id_,)) for id_ in reversed(ids)])

    def _on_stuck(self, dead: QueueSpec, id_: MessageId, error: BackendError) -> None:
        self._stuck[id_] = self._clock.monotonic() + _STUCK_SECONDS
        if len(self._stuck) <= _LOGGED_MAX:
            text = "%s: message %r cannot be moved to %s and stays set aside: %s"
            self._logger.error(text, self.queue.name, id_, dead.name, error)

    # --- the service

    @property
    def _period(self) -> float:
        return max(self.queue.options.poll_interval_ns / NS_PER_SECOND, _PERIOD_SECONDS_MIN)

    def _wake(self) -> None:
        self._requested.set()

    async def _run(self) -> None:
        # The jitter is 2/3 to 4/3; scaled to 0 to 1 of the period, so that many queues do not read at the same time.
        wait = self._period * (self._context.engine.jitter() - 2 / 3) * 1.5
        while not self._stopping.is_set():
            notified = await self._notified(wait)
            if self._stopping.is_set():
                return
            wait = self._period
            if notified or (self._engine.leads and self._idle_pace.due()):
                wait = await self._pass()
            wait = min(wait, self._report())

    def _report(self) -> float:
        """Log how many were moved; returns the seconds until the next log record is due."""
        now = self._clock.monotonic()
        if count := self._summary.take(now):
            messages = "a message" if count == 1 else f"{count} messages"
            name = dead_letter_name(self.queue).table
            self._logger.warning("%s: moved %s to the dead-letter queue %s", self.queue.name, messages, name)
        return self._summary.wait(now)

    async def _notified(self, seconds: float) -> bool:
        """Wait for so long; whether rejected messages were reported meanwhile."""
        if not await self._is_set_within(self._requested, seconds):
            return False
        self._requested.clear()
        return True

    async def _pass(self) -> float:
        """One pass; returns how long to wait for the next."""
        try:
            moved = await self.run_once()
        except EngineError as error:
            self._context.metrics.backend_errors += 1
            pause = self._pauses.take()
            if not isinstance(error, BackendUnavailable):  # which `engine.database_work` logs
                text = "%s: cannot move rejected messages to the dead-letter queue, trying again: %s"
                self._logger.error(text, self.queue.name, error)
            await self._pause(pause)
            self._requested.set()
            return self._period
        self._idle_pace.passed(useful=moved > 0 or bool(self._stuck))
        self._pauses.reset()
        if self._skipped_locked:
            await self._pause(min(self._retry_pauses.take(), self._period))
            self._requested.set()
        else:
            self._retry_pauses.reset()
        return min(self._period, _STUCK_SECONDS) if self._stuck else self._period
