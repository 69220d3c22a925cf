"""GiveBacks: leases whose receiver is gone, made due again so that others get the messages at once.

A row that its dead client's open transaction still locks cannot be given back yet, so a release that fell short is
tried again a few times; after that the lease simply runs out. While the database is away, or only lets itself be read,
tries do not count: what was held when it went is given back when it returns, unless the lease has run out by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.clock import DatabaseTime
from engine.delivery.context import WorkContext
from engine.model.backoff import DoublingDelay
from engine.model.errors import READ_ONLY, BackendError, BackendUnavailable
from engine.model.queue import QueueSpec, SubscribeRequest
from engine.store.base import Release, holds

RELEASE_MAX = 1000  # leases in one transaction, as in a claim
_TRIES_MAX = 6
_FIRST_PAUSE, _MOST_PAUSE = 0.1, 1.0  # with six tries: 2.5 s for a dead client's transaction to be rolled back


@dataclass(slots=True, eq=False)
class _GiveBack:
    """Leases of one receiver. `done` is set after the first try, whatever came of it.

    `doubtful`: perhaps they were never made. `gone`: the receiver, where that its connection has ended is a failed
    attempt.
    """

    leases: Sequence[Release]
    counted: bool
    done: asyncio.Future[None]
    doubtful: bool = False
    gone: SubscribeRequest | None = None
    due: float = 0.0
    tries: int = 0
    released: int = 0
    pauses: DoublingDelay = field(default_factory=lambda: DoublingDelay(_FIRST_PAUSE, _MOST_PAUSE))


class GiveBacks:
    """See the module. One pass tries everything that is due. `on_released`: messages of this queue are due again."""

    def __init__(
        self, context: WorkContext, time: DatabaseTime, on_released: Callable[[], None] = lambda: None
    ) -> None:
        self._on_released = on_released
        self._time = time
        self._store, self._work, self._clock = context.store, context.work, context.clock
        self._metrics, self._logger = context.metrics, context.logger
        self._pending: list[_GiveBack] = []

    def __len__(self) -> int:
        return sum(len(entry.leases) for entry in self._pending)

    def add(
        self,
        leases: Sequence[Release],
        *,
        counted: bool,
        doubtful: bool = False,
        gone: SubscribeRequest | None = None,
    ) -> asyncio.Future[None]:
        """Take leases to give back; the future is done once the first try is over."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not leases:
            done.set_result(None)
        for start in range(0, len(leases), RELEASE_MAX):
            last = start + RELEASE_MAX >= len(leases)
            part_done = done if last else asyncio.get_running_loop().create_future()
            self._pending.append(_GiveBack(leases[start : start + RELEASE_MAX], counted, part_done, doubtful, gone))
        return done

    def next_try(self) -> float | None:
        """When something is due to be tried; None when nothing is pending."""
        return min((entry.due for entry in self._pending), default=None)

    async def run_once(self, queue: QueueSpec) -> int:
        """Try what is due; returns how many messages became due again. Raises BackendError, to be tried again."""
        count = 0
        for entry in [e for e in self._pending if e.due <= self._clock.monotonic()]:
            count += await self._try(queue, entry)
        return count

    def abandon(self) -> None:
        """The queue is gone, or nothing can be done any more: the leases run out."""
        for entry in self._pending:
            _finish(entry.done)
        self._pending.clear()

    async def _try(self, queue: QueueSpec, entry: _GiveBack) -> int:
        entry.tries += 1
        entry.due = self._clock.monotonic() + entry.pauses.take()
        try:
            gone = entry.gone if entry.counted else None
            release = self._store.release(queue, entry.leases, counted=entry.counted, gone=gone)
            released = await self._work.run(release)
            entry.released += released
            self._metrics.released += released
            if released:
                self._on_released()
            over = await self._nothing_left(queue, entry)
        except BackendError as error:
            if isinstance(error, BackendUnavailable) or error.errno in READ_ONLY:
                entry.tries -= 1
            self._drop_if(entry.tries >= _TRIES_MAX or self._ran_out(entry), queue, entry, str(error))
            raise
        finally:
            _finish(entry.done)
        if over:
            self._pending.remove(entry)
        else:
            self._drop_if(entry.tries >= _TRIES_MAX, queue, entry, "still locked by another transaction")
        return released

    async def _nothing_left(self, queue: QueueSpec, entry: _GiveBack) -> bool:
        if entry.released >= len(entry.leases):
            return True
        left = await self._work.run(self._store.unsettled(queue, [lease.id for lease in entry.leases]))
        return not any(lease.id in left and holds(lease, left[lease.id]) for lease in entry.leases)

    def _ran_out(self, entry: _GiveBack) -> bool:
        return all(lease.lease_until_ns and self._time.is_past(lease.lease_until_ns) for lease in entry.leases)

    def _drop_if(self, hopeless: bool, queue: QueueSpec, entry: _GiveBack, reason: str) -> None:
        if hopeless:
            self._pending.remove(entry)
            left = len(entry.leases) - entry.released
            if not entry.doubtful:
                self._logger.warning("%s: could not give back %d leases, they run out: %s", queue.name, left, reason)


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
