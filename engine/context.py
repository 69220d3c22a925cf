"""EngineContext: what an engine hands to everything that it makes, as one value; and EngineHost, the engine as those
parts call it.

A part takes the whole value, not what it uses of it today: so no constructor has a dozen parameters, and none of them
is handed on through parts that do not use it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from engine.clock import Clock, Jitter
from engine.database_work import DatabaseWork
from engine.model.commit_report import CommitReport
from engine.model.queue import QueueCatalog, QueueName
from engine.sticky_members import StickyMembers
from engine.store.base import MessageStore
from engine.traces import Traces


class EngineHost(Protocol):
    """The engine, as its parts call it."""

    @property
    def catalog(self) -> QueueCatalog:
        """The queues and topics as last read."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether it delivers."""
        ...

    @property
    def leads(self) -> bool:
        """Whether this engine does what only one of those on the database has to do: purge, clean, send, upgrade."""
        ...

    def committed(self, report: CommitReport) -> None:
        """A transaction of the engine's own is committed, here and for the neighbours."""
        ...

    def released(self, queue: QueueName) -> None:
        """Messages of a queue are due again: neighbours may have receivers for them."""
        ...

    async def catalog_changed(self, named: Collection[QueueName] | None = None) -> None:
        """Read the catalog, here and at the neighbours: these queues or any may have changed. Raises BackendError."""
        ...

    def request_refresh(self) -> None:
        """A statement failed as if its table had changed: read the catalog soon."""
        ...


@dataclass(frozen=True, slots=True)
class EngineContext:
    """See the module. `work` bounds the concurrent calls of the database. Time and chance are injected."""

    store: MessageStore
    work: DatabaseWork
    clock: Clock
    jitter: Jitter
    logger: logging.Logger
    traces: Traces
    members: StickyMembers
    host: EngineHost
