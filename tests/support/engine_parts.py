"""What parts of an engine are made with, where a test makes one without an engine."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any

from memory_store import NAME
from virtual_time import VirtualClock

from engine.context import EngineContext
from engine.database_work import DatabaseWork
from engine.delivery.context import QueueContext
from engine.delivery.filter_shares import FilterShares
from engine.model.assignment import Member
from engine.model.commit_report import CommitReport
from engine.model.queue import QueueCatalog, QueueName
from engine.sticky_members import StickyMembers
from engine.traces import Traces

LOGGER = logging.getLogger("queuegate.test")


class Host:
    """An engine as its parts call it, that notes what it is told. `of`: its catalog is that object's."""

    def __init__(self, catalog: QueueCatalog | None = None, *, leads: bool = True, of: Any = None) -> None:
        self._catalog, self._of = catalog or QueueCatalog(), of
        self.leads, self.is_open = leads, True
        self.reports: list[CommitReport] = []

    @property
    def catalog(self) -> QueueCatalog:
        catalog: QueueCatalog = self._catalog if self._of is None else self._of.catalog
        return catalog

    @catalog.setter
    def catalog(self, catalog: QueueCatalog) -> None:
        self._catalog = catalog

    def committed(self, report: CommitReport) -> None:
        self.reports.append(report)

    def released(self, queue: QueueName) -> None:
        pass

    async def catalog_changed(self, named: Collection[QueueName] | None = None) -> None:
        pass

    def request_refresh(self) -> None:
        pass

    def members_changed(self, queue: QueueName, members: Sequence[Member]) -> None:
        pass


def engine_context(
    store: Any, clock: VirtualClock, host: Host | None = None, *, work: int = 2, logger: logging.Logger = LOGGER
) -> EngineContext:
    """The context of such an engine. Without jitter."""
    made = DatabaseWork(work)
    host = host or Host(of=store)
    return EngineContext(store, made, clock, lambda: 1.0, logger, Traces(clock), StickyMembers("one", host), host)


def of_topics(store: Any) -> Any:
    """A store that has topics alone."""
    return SimpleNamespace(topics=store)


def queue_context(store: Any, clock: VirtualClock, host: Host | None = None, **options: Any) -> QueueContext:
    """The context of a queue of such an engine."""
    return QueueContext.of(engine_context(store, clock, host, **options), NAME, FilterShares(clock))
