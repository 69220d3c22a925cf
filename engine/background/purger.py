"""Purger: deletes acked messages older than purge_after, with or without receivers, in small batches.

One pass deletes batch after batch until one is not full, at most for one poll_interval. After each batch it rests, in
proportion to the time that the batch took: so purging takes a third of one connection's time, and less of a busy
database, where a batch takes longer. If that is too slow (a pass did not come to its end), it rests less, and deletes
for two thirds of the time. A batch that takes long is followed by smaller ones, so that rows are never locked for long.
Passes repeat every poll_interval, at once after one that did not come to its end, and up to sixteen times more seldom
where nothing changes in the queue; the first comes after a random part of it, so that many queues do not
purge at the same time.

Tables that are partitioned by id are purged by whole partitions where possible (sql_partitions).

A message that the database does not let go (a foreign key of another table, a trigger) stays, is passed over for a
minute, and is the queue's `problem` meanwhile. A thousand of these keep all that were acked later.

Of several proxies on one database that are connected to each other one purges (`leads`). Two that are not, or that both
take themselves for the leader, do not wait for each other: a batch skips rows that are locked.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.background.pace import SKIPPED_MAX, DeletingPace, IdlePace
from engine.delivery.context import QueueContext
from engine.model.errors import BackendError, BackendUnavailable, PartlyRefused
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import QueueSpec
from engine.service import Service
from engine.store.base import PartitionPurge, Stuck

_STUCK_MAX = 1000  # messages that are passed over: each batch reads all of them again
_STUCK_SECONDS = 60.0
_PERIOD_SECONDS_MIN = 1.0  # a poll_interval of milliseconds is meant for the safety scan, not for deleting


@dataclass(frozen=True, slots=True)
class PurgeResult:
    """One pass: messages deleted, batches it took, whether it stopped for lack of time, and what a shard refused."""

    messages: int
    batches: int
    more: bool
    refused: PartlyRefused | None = None


class Purger(Service):
    """See the module."""

    def __init__(
        self,
        queue: QueueSpec,
        context: QueueContext,
    ) -> None:
        super().__init__(f"purger of {queue.name}", context.engine.logger)
        self.queue = queue
        self._store, self._work, self._clock = context.engine.store, context.work, context.engine.clock
        self._jitter, self._metrics, self._engine = context.engine.jitter, context.metrics, context.engine.host
        self._failing = False
        self._pace, self._idle_pace = DeletingPace(), IdlePace(context.changes)
        self._reported_refusal = ""
        self.problem: str | None = None
        """Why messages are not deleted, where this process deletes them."""
        self._stuck: Stuck = {}
        self._stuck_until = 0.0
        self._changed_at = self._clock.monotonic()  # what was acked before is not known

    @property
    def _period(self) -> float:
        return max(self.queue.options.poll_interval_ns / NS_PER_SECOND, _PERIOD_SECONDS_MIN)

    async def run_once(self) -> PurgeResult:
        """Delete messages that are old enough. Raises BackendError; those deleted before stay deleted."""
        deadline, refused = self._clock.monotonic() + self._period, None
        whole = await self._work.run(self._store.purge_partitions(self.queue))
        messages, batches = 0 if whole is None else self._dropped(whole), 0
        if self._clock.monotonic() >= self._stuck_until:
            self._stuck, self._stuck_until = {}, self._clock.monotonic() + _STUCK_SECONDS
        if (whole is not None and not whole.retained) or len(self._stuck) >= _STUCK_MAX:
            self._pace.behind = False
            return PurgeResult(messages, batches, more=False)
        while not self._stopping.is_set():
            limit, began = self._pace.batch, self._clock.monotonic()
            stuck = len(self._stuck)
            try:
                count = await self._work.run(self._store.purge(self.queue, limit, whole, self._stuck))
            except PartlyRefused as error:  # what is in other shards goes on
                count, refused = error.changed, error
            messages, batches = messages + count, batches + 1
            self._metrics.purged += count
            if count + len(self._stuck) - stuck < limit or len(self._stuck) >= _STUCK_MAX:
                self._pace.behind = False
                return PurgeResult(messages, batches, more=False, refused=refused)
            if self._clock.monotonic() >= deadline:
                break
            await self._pause(self._pace.rest(self._clock.monotonic() - began))
        self._pace.behind = True
        return PurgeResult(messages, batches, more=True, refused=refused)

    def _stuck_problem(self) -> str | None:
        """Without the database's text, which may name other tables and quote the message."""
        rest = ", and no others are deleted meanwhile" if len(self._stuck) >= _STUCK_MAX else ""
        return f"{len(self._stuck)} acked messages cannot be deleted{rest}; the log says why" if self._stuck else None

    def _dropped(self, whole: PartitionPurge) -> int:
        self._metrics.purged += whole.messages
        if whole.refused and whole.refused != self._reported_refusal:
            self._logger.warning(
                "%s: partitions cannot be dropped, their messages go one by one: %s",
                self.queue.name,
                whole.refused,
            )
        self._reported_refusal = whole.refused
        return whole.messages

    def _due(self) -> bool:
        if self._idle_pace.changed:
            self._changed_at = self._clock.monotonic()
        return self._idle_pace.due()

    @property
    def _skipped_max(self) -> int:
        """While acked messages may become old, none is deleted more than a period and an eighth of purge_after late."""
        old_after = self.queue.options.purge_after_ns / NS_PER_SECOND
        if self._clock.monotonic() > self._changed_at + old_after + self._period:
            return SKIPPED_MAX
        return min(int(old_after / self._period / 8), SKIPPED_MAX)

    async def _run(self) -> None:
        # The jitter is 2/3 to 4/3; scaled to 0 to 1 of the period.
        await self._pause(self._period * (self._jitter() - 2 / 3) * 1.5)
        while not self._stopping.is_set():
            if self._engine.leads and self._due():
                await self._pass()
            elif not self._engine.leads:
                self.problem = None
            if not (self._pace.behind and self._engine.leads):
                await self._pause(self._period)

    async def _pass(self) -> None:
        try:
            purged = await self.run_once()
        except BackendError as error:
            self._metrics.backend_errors += 1
            if not self._failing and not isinstance(error, BackendUnavailable):  # once per outage
                self._logger.warning("purge of %s failed: %s", self.queue.name, error)
            self._failing, self._pace.behind = True, False
            self.problem = f"purge failed with {error.number_only}"
            self._idle_pace.passed(useful=True)
            return
        self._failing = False
        problem, before = self._stuck_problem(), self.problem
        if purged.refused is not None:
            self.problem = f"purge failed in a shard with {purged.refused.number_only}"
            self._idle_pace.passed(useful=True)
            return
        self.problem = problem
        if problem is not None and before is None:
            count, text = len(self._stuck), next(iter(self._stuck.values()))
            self._logger.warning("purge of %s: %d messages cannot be deleted: %s", self.queue.name, count, text)
        useful = purged.messages > 0 or purged.more or problem is not None
        self._idle_pace.passed(useful=useful, skipped_max=self._skipped_max)
        if purged.messages:
            self._logger.debug("purged %d messages of %s", purged.messages, self.queue.name)
