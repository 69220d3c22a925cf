"""LeaseReleases: makes leased messages due again, so that other receivers get them at once.

A row that the open transaction of a dead client still locks cannot be released yet, so an incomplete release is tried
again a few times; after that the lease runs out. Where the database refuses an UPDATE because of some of the messages
(Refusals), or of what their triggers wait for, the others are released in smaller parts. While the database, or a
message's shard, cannot be reached, or is read-only, attempts do not count: the leases are released when it works again,
unless they have run out by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from engine.clock import DatabaseTime
from engine.delivery.context import QueueContext
from engine.model.backoff import DoublingDelay
from engine.model.errors import READ_ONLY, BackendError, BackendUnavailable, PartlyRefused, is_refusal
from engine.model.identity import is_spent
from engine.model.queue import MessageId, QueueSpec, ReceiverIdentity
from engine.store.base import UNKNOWN_STATE, LeaseState, Release, lease_is_current

RELEASE_MAX = 1000  # leases in one transaction, as in a claim
_ATTEMPTS_MAX = 6
_REFUSED_MAX = 10  # of one release in a row; with more it is not the messages, and smaller parts are of no use
_LOCKED_PAUSE = 15.0  # where a trigger waits for what another transaction has locked: attempts may take seconds
_FIRST_PAUSE, _MAX_PAUSE = 0.1, 1.0  # with six attempts: 2.5 s for a dead client's transaction to be rolled back


@dataclass(slots=True, eq=False)
class _PendingRelease:
    """Leases of one receiver. `done` is set after the first attempt, whatever its result.

    `alone`: the messages are to be handed out alone. `unconfirmed`: perhaps the leases were never made. `gone`: the
    receiver, where the end of its connection is a failed attempt. `refused`: those that the database lets nobody
    change, of all parts of a release, since one was released.
    """

    leases: Sequence[Release]
    counted: bool
    done: asyncio.Future[None]
    alone: bool = False
    unconfirmed: bool = False
    gone: ReceiverIdentity | None = None
    due: float = 0.0
    attempts: int = 0
    released: int = 0
    refused: set[MessageId] = field(default_factory=set)
    pauses: DoublingDelay = field(default_factory=lambda: DoublingDelay(_FIRST_PAUSE, _MAX_PAUSE))

    def halves(self, due: float) -> list[_PendingRelease]:
        """Two parts of it, due then."""
        half, pauses = len(self.leases) // 2, (DoublingDelay(_FIRST_PAUSE, _MAX_PAUSE) for _ in range(2))
        parts = zip((self.leases[:half], self.leases[half:]), pauses, strict=True)
        return [replace(self, leases=part, due=due, attempts=0, released=0, pauses=delay) for part, delay in parts]


class LeaseReleases:
    """See the module. One pass attempts everything that is due. `on_rejected`: called when messages were set aside."""

    def __init__(
        self,
        context: QueueContext,
        time: DatabaseTime,
        on_rejected: Callable[[], None] = lambda: None,
    ) -> None:
        self._time, self._on_rejected = time, on_rejected
        self._store, self._work, self._clock = context.engine.store, context.work, context.engine.clock
        self._metrics, self._logger, self._host = context.metrics, context.engine.logger, context.engine.host
        self._pending: list[_PendingRelease] = []

    def __len__(self) -> int:
        return sum(len(entry.leases) for entry in self._pending)

    def add(
        self,
        leases: Sequence[Release],
        *,
        counted: bool,
        alone: bool = False,
        unconfirmed: bool = False,
        gone: ReceiverIdentity | None = None,
    ) -> asyncio.Future[None]:
        """Add leases to release; the future is done once the first attempt has ended."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not leases:
            done.set_result(None)
        for start in range(0, len(leases), RELEASE_MAX):
            last = start + RELEASE_MAX >= len(leases)
            part_done = done if last else asyncio.get_running_loop().create_future()
            part = leases[start : start + RELEASE_MAX]
            self._pending.append(_PendingRelease(part, counted, part_done, alone, unconfirmed, gone))
        return done

    def next_attempt(self) -> float | None:
        """When the next attempt is due; None when nothing is pending."""
        return min([entry.due for entry in self._pending]) if self._pending else None

    async def run_once(self, queue: QueueSpec) -> int:
        """Attempt what is due; returns how many messages became due again. Raises BackendError, to be tried again."""
        count, now = 0, self._clock.monotonic()
        while (entry := next((e for e in self._pending if e.due <= now), None)) is not None:
            count += await self._attempt(queue, entry)
        return count

    async def attempt_last(self, queue: QueueSpec, seconds: float) -> None:
        """Attempt what is due once, within this time; the leases left then run out."""
        try:
            await asyncio.wait_for(self.run_once(queue), seconds)
        except (BackendError, TimeoutError) as error:
            self._logger.warning("%s: leases run out, not given back: %s", queue.name, error)

    def abandon(self) -> None:
        """The queue is gone, or the database cannot be used any more: the leases run out."""
        for entry in self._pending:
            _set_done(entry.done)
        self._pending.clear()

    async def _attempt(self, queue: QueueSpec, entry: _PendingRelease) -> int:
        entry.attempts += 1
        entry.due = self._clock.monotonic() + entry.pauses.take()
        try:
            gone = entry.gone if entry.counted else None
            how = {"counted": entry.counted, "alone": entry.alone}
            released = await self._work.run(self._store.release(queue, entry.leases, **how, gone=gone))
            self._note(queue, entry, released)
            held = await self._still_held(queue, entry)
        except BackendError as error:
            changed = error.changed if isinstance(error, PartlyRefused) else 0
            self._note(queue, entry, changed)
            if is_refusal(error) or error.of_rows:
                self._refused(queue, entry, error)
                return changed
            if isinstance(error, BackendUnavailable) or error.errno in READ_ONLY:
                entry.attempts -= 1
            self._drop_if(entry.attempts >= _ATTEMPTS_MAX or self._all_expired(entry), queue, entry, str(error))
            if isinstance(error, PartlyRefused):  # what is in other shards goes on
                return changed
            raise
        finally:
            _set_done(entry.done)
        if not held:
            self._pending.remove(entry)
        elif any(state is UNKNOWN_STATE for state in held):
            entry.attempts -= 1
            self._drop_if(self._all_expired(entry), queue, entry, "a shard does not answer")
        else:
            self._drop_if(entry.attempts >= _ATTEMPTS_MAX, queue, entry, "still locked by another transaction")
        return released

    def _note(self, queue: QueueSpec, entry: _PendingRelease, released: int) -> None:
        entry.released += released
        self._metrics.released += released
        if released:
            entry.refused.clear()
            self._host.released(queue.name)
            if entry.counted and any(is_spent(queue, lease.epoch) for lease in entry.leases):
                self._on_rejected()

    def _refused(self, queue: QueueSpec, entry: _PendingRelease, error: BackendError) -> None:
        """The database refuses to change one of the messages, or all."""
        locked = error.of_rows  # after seconds: first the pass goes on
        if len(entry.leases) > 1 and len(entry.refused) < _REFUSED_MAX:
            at, due = self._pending.index(entry), self._clock.monotonic() if locked else 0.0
            self._pending[at : at + 1] = entry.halves(due)  # the first half comes next, down to one message
            return
        if entry.attempts == 1:
            entry.refused.update(lease.id for lease in entry.leases)
        spent = entry.attempts >= _ATTEMPTS_MAX
        if spent and locked:
            entry.due = self._clock.monotonic() + _LOCKED_PAUSE
        self._drop_if((spent and not locked) or self._all_expired(entry), queue, entry, str(error))

    async def _still_held(self, queue: QueueSpec, entry: _PendingRelease) -> list[LeaseState]:
        """The states of the messages that still have their leases, as far as it is known."""
        if entry.released >= len(entry.leases):
            return []
        states = await self._work.run(self._store.unsettled(queue, [lease.id for lease in entry.leases]))
        known = ((lease, states[lease.id]) for lease in entry.leases if lease.id in states)
        return [state for lease, state in known if lease_is_current(lease, state)]

    def _all_expired(self, entry: _PendingRelease) -> bool:
        return all(lease.lease_until_ns and self._time.is_past(lease.lease_until_ns) for lease in entry.leases)

    def _drop_if(self, condition: bool, queue: QueueSpec, entry: _PendingRelease, reason: str) -> None:
        if condition:
            self._pending.remove(entry)
            left = len(entry.leases) - entry.released
            if not entry.unconfirmed:
                self._logger.warning("%s: could not give back %d leases, they run out: %s", queue.name, left, reason)


def _set_done(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
