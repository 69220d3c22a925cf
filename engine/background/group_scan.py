"""GroupScan: finds groups that became done without a report, and sends the messages stored for them.

One pass reads all groups of a queue for which messages are stored, page by page; passes repeat every poll_interval. Its
start makes sure that the table of groups exists, so that CREATE QUEUE is answered when it does.
"""

from __future__ import annotations

import asyncio

from engine.context import EngineContext
from engine.model.commit_report import CommitReport
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.groups import GroupKey, GroupPlace
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import QueueSpec
from engine.service import Service

_PERIOD_SECONDS_MIN = 1.0  # as the purger's


class GroupScan(Service):
    """See the module."""

    def __init__(self, queue: QueueSpec, group: GroupKey, context: EngineContext) -> None:
        super().__init__(f"group scan of {queue.name}", context.logger)
        self.queue, self.group = queue, group
        self._context = context
        self._failing = False

    @property
    def _period(self) -> float:
        return max(self.queue.options.poll_interval_ns / NS_PER_SECOND, _PERIOD_SECONDS_MIN)

    async def open(self) -> None:
        """Start; the table of groups is created if it does not exist."""
        if not self.running:
            try:
                await self._context.work.run(self._context.store.groups.make(self.group))
            except BackendError as error:
                self._logger.error(
                    "queue %s has a group_key, and the table for groups cannot be made: INSERT ... AFTER GROUP will "
                    "fail. Grant CREATE to the engine's account, or make the table (docs/event-groups.md): %s",
                    self.queue.name,
                    error,
                )
        await super().open()

    async def run_once(self) -> int:
        """Complete the groups that are done. Returns how many. Raises BackendError."""
        groups, work, host = self._context.store.groups, self._context.work, self._context.host
        completed = 0
        after: GroupPlace | None = None
        while not self._stopping.is_set():
            page = await work.run(groups.read(self.group, after))
            for value in page.done:
                sent = await work.run(groups.complete(self.group, value, lambda name: host.catalog.get(name)))
                if sent:
                    host.committed(CommitReport(touched=frozenset(sent)))
                    completed += 1
            if page.last is None:
                break
            after = page.last
            await asyncio.sleep(0)
        return completed

    async def _run(self) -> None:
        # The jitter is 2/3 to 4/3; scaled to 0 to 1 of the period, so that many queues do not scan together.
        await self._pause(self._period * (self._context.jitter() - 2 / 3) * 1.5)
        while not self._stopping.is_set():
            try:
                if self._context.host.leads:
                    await self.run_once()
                self._failing = False
            except BackendError as error:
                if not self._failing and not isinstance(error, BackendUnavailable):  # once per outage
                    self._logger.warning("group scan of %s failed: %s", self.queue.name, error)
                self._failing = True
            await self._pause(self._period)
