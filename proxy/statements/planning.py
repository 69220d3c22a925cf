"""Scanner and planner for the catalog of the moment, built again when the catalog changes; shared by all sessions."""

from __future__ import annotations

from collections.abc import Callable

from engine.engine import Engine
from engine.model.options import QueueOptions
from engine.model.queue import QueueCatalog, QueueName, QueueSpec, TopicSpec
from proxy.rights.account_rights import QueueRights, SessionRights
from proxy.upstream.redaction import redacted_problem
from rewriter.planner import Planner
from rewriter.plans.leased_insert import LeasedInserts
from rewriter.scan.scanner import StatementScanner


class Planning:
    """Hands out a scanner and a planner that agree with the engine's current catalog."""

    def __init__(self, engine: Engine, defaults: QueueOptions) -> None:
        self._engine = engine
        self.defaults = defaults
        self._build()

    def _build(self) -> None:
        self._catalog = self._engine.catalog
        self._scanner = StatementScanner(self._catalog)
        self._planner = Planner(self._catalog, self.defaults)
        self._limited: dict[QueueRights, Planner] = {}
        self._plain_names: bool | None = None
        self.leased_inserts = LeasedInserts()

    @property
    def scanner(self) -> StatementScanner:
        """Runs on every statement, so the check for a new catalog is one comparison."""
        if self._catalog is not self._engine.catalog:
            self._build()
        return self._scanner

    @property
    def planner(self) -> Planner:
        """See `scanner`."""
        if self._catalog is not self._engine.catalog:
            self._build()
        return self._planner

    @property
    def plain_names(self) -> bool:
        """Whether the names of all queues, topics and columns are in ASCII."""
        if self._catalog is not self._engine.catalog:
            self._build()
        if self._plain_names is None:
            catalog = self._catalog
            specs: tuple[QueueSpec | TopicSpec, ...] = (
                *catalog.queues.values(),
                *catalog.topics.values(),
                *catalog.unfit.values(),
            )
            self._plain_names = all(
                name.isascii() for spec in specs for name in (spec.name.sql, *(column.name for column in spec.columns))
            )
        return self._plain_names

    def planner_for(self, rights: SessionRights | None) -> Planner:
        """A planner that knows no queue but those which an account of these rights may know of."""
        planner = self.planner
        if rights is None:
            return planner
        if rights.granted not in self._limited:
            self._limited[rights.granted] = self.planner_of(rights.can_see)
        return self._limited[rights.granted]

    def planner_of(self, can_see: Callable[[QueueName], bool]) -> Planner:
        """A new planner with these queues only, for an account that may not know the others."""
        catalog = self._engine.catalog
        visible = QueueCatalog(
            catalog.version,
            {name: queue for name, queue in catalog.queues.items() if can_see(name)},
            {name: redacted_problem(reason) for name, reason in catalog.rejected.items() if can_see(name)},
            {name: topic for name, topic in catalog.topics.items() if can_see(name)},
            keyspaces=catalog.keyspaces,
            unfit={name: queue for name, queue in catalog.unfit.items() if can_see(name)},
        )
        return Planner(visible, self.defaults)
