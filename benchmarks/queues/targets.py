"""What the queue has to reach beside its rivals, and whether this run did. Ratios are taken within each repeat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.harness import Outcome
from benchmarks.queues.base import BATCH
from benchmarks.targets import Target

MARIADB, EMBEDDED = "queuegate, MariaDB", "queuegate, embedded"
BY_HAND, POSTGRESQL = "MariaDB, SKIP LOCKED by hand", "PostgreSQL, as pgmq does it"
RABBITMQ, REDIS = "RabbitMQ, pika", "Redis Streams, redis-py"
MYSQL, MYSQL_BY_HAND = "queuegate, MySQL", "MySQL, SKIP LOCKED by hand"
ON_VITESS, VITESS_OWN = "queuegate", "Vitess's own"
BATCHES, SHARDS = (BATCH, 10, 1), (1, 2)
"""Of benchmarks.queues.vitess: the messages of an ack, and the shards of a keyspace."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One ratio. `least` is a lower bound, else it is an upper one."""

    outcome: str
    ours: str
    theirs: str
    bound: float
    column: str = "messages/s"
    least: bool = True

    def judged(self, outcome: Outcome) -> Target | None:
        ratio = outcome.ratio(self.ours, self.theirs, self.column)
        if ratio is None:
            return None
        met = ratio >= self.bound if self.least else ratio <= self.bound
        wanted = f"{'>=' if self.least else '<='} {self.bound:.1f} x {self.theirs}"
        return Target(f"{outcome.title}: {self.ours}, {self.column}", wanted, f"{ratio:.2f}", met)


def vitess_drain(batch: int, shards: int) -> str:
    """The name of this case."""
    return f"vitess-{shards}-drain-{batch}"


def vitess_lone(shards: int) -> str:
    """The name of this case."""
    return f"vitess-{shards}-lone"


_ONE, _MANY = "rivals-enqueue-1", f"rivals-enqueue-{BATCH}"
_DRAIN, _EACH, _LONE = f"rivals-drain-{BATCH}", "rivals-drain-1", "rivals-lone"
_FLEET = "rivals-fleet"
_LINES = (
    _Line(_ONE, MARIADB, BY_HAND, 0.9),
    _Line(_DRAIN, MARIADB, BY_HAND, 1.3),
    _Line(_DRAIN, MARIADB, POSTGRESQL, 1.0),
    _Line(_EACH, MARIADB, BY_HAND, 1.2),
    _Line(_FLEET, MARIADB, BY_HAND, 2.0),
    _Line(_LONE, MARIADB, RABBITMQ, 1.5, "median ms", least=False),
    _Line(_LONE, MARIADB, RABBITMQ, 2.0, "p99 ms", least=False),
    _Line(_ONE, EMBEDDED, REDIS, 1.0),
    _Line(_MANY, EMBEDDED, REDIS, 1.0),
    _Line(_DRAIN, EMBEDDED, POSTGRESQL, 1.0),
    _Line(_EACH, EMBEDDED, REDIS, 1.0),
    _Line(_LONE, EMBEDDED, RABBITMQ, 1.0, "median ms", least=False),
    *(_Line(vitess_drain(batch, shards), ON_VITESS, VITESS_OWN, 1.0) for shards in SHARDS for batch in BATCHES),
    *(_Line(vitess_lone(shards), ON_VITESS, VITESS_OWN, 1.0, "p99 ms", least=False) for shards in SHARDS),
)


def queue_targets(outcomes: Mapping[str, Outcome]) -> Iterator[Target]:
    """Those that this run has measured."""
    for line in _LINES:
        outcome = outcomes.get(line.outcome)
        if outcome is not None and (target := line.judged(outcome)) is not None:
            yield target
