"""Scenarios with a topic: what one seed stands for. One topic, consumer groups with members, and broadcast readers.

A few bounds of the product are made small in some seeds, so that a few messages reach them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from random import Random

from sim_scenario import EVENTS, RATES_MOST, Scenario, named, some_options, standstills
from sim_template import table_definition
from sim_topic_database import TOPIC

from engine.model.option_values import NS_PER_SECOND
from engine.model.options import UNTIL_CONSUMED, QueueOptions
from engine.model.queue import QueueName
from engine.model.topics import group_table
from engine.store.statements.topics import create_positions
from rewriter.plan import PlanContext
from rewriter.plans.topics import group_queue

TOPIC_EVENTS = (*EVENTS, "seek", "seek", "monitor", "failover", "delete", "replay")
_BESIDE = (
    "CREATE TABLE other (id BIGINT PRIMARY KEY AUTO_INCREMENT, v INT)",
    create_positions("main"),
)
COMPACT_AGAIN_SECONDS = 20.0  # between two walks from the beginning
GAP_WAIT_SECONDS = 90.0  # longer than any transaction of a client


@dataclass(frozen=True)
class Group:
    """A consumer group. `begun`: it is there, and begins with the first message, before everything else."""

    options: QueueOptions
    begun: bool

    @property
    def table(self) -> str:
        """Its queue."""
        return group_table(QueueName("main", TOPIC), self.options.consumer_group or "").table


@dataclass(frozen=True)
class TopicScenario(Scenario):
    """See the module. `producers` publish; `receivers` are members, `lockers` lock rows, each named after its group.

    `shown`: the engine's account may see the open transactions. `slow_inserts`: whether the steps of an INSERT take
    time. `longest`: seconds for which a transaction stays open at most. `bounds`: of the product, made small.
    `compact_after`: seconds after which messages are compacted by their key; None: they all stay.
    """

    groups: Mapping[str, Group]
    listeners: tuple[str, ...]
    shown: bool
    slow_inserts: bool
    longest: float
    bounds: Mapping[str, int]
    compact_after: int | None

    @property
    def plans(self) -> str:
        failing = " ".join(group.options.on_failure for group in self.groups.values())
        return f"{self.shape} {failing}"

    @property
    def parts(self) -> list[str]:
        return [*super().parts, *self.listeners]

    def without(self, names: frozenset[str]) -> TopicScenario:
        rest = super().without(names)
        assert isinstance(rest, TopicScenario)
        return replace(rest, listeners=tuple(name for name in self.listeners if name not in names))

    def describe(self) -> str:
        groups = "\n".join(
            f"group {name}{'' if group.begun else ', begun later'}: {named(group.options)}"
            for name, group in self.groups.items()
        )
        transactions = "shown" if self.shown else "not shown"
        return "\n".join(
            (
                super().describe(),
                groups,
                f"listeners {', '.join(self.listeners) or 'none'}",
                f"transactions {transactions} and open for {self.longest:.0f} s at most",
                f"slow inserts {self.slow_inserts}, bounds {dict(self.bounds)}",
                f"compact_after {self.compact_after}",
            )
        )


def topic_scenario(seed: int) -> TopicScenario:
    """The scenario of a seed."""
    random, compacting = Random(f"topic {seed}"), Random(f"compact {seed}")
    compact_after = compacting.choice((0, 1, 5, 20)) if compacting.random() < 0.4 else None
    row_locks = random.random() < 0.8
    names = [f"g{number}" for number in range(random.choice((1, 2, 2, 3)))]
    groups = {name: _group(random, name) for name in names}
    if compact_after is not None:
        groups = {name: _kept(group) if compacting.random() < 0.3 else group for name, group in groups.items()}
    orders = tuple(group.options.order_key or "" for group in groups.values())
    return TopicScenario(
        seed=seed,
        shape=_shape(orders, compact_after),
        options=QueueOptions(),
        row_locks=row_locks,
        tick_ns=1000 if row_locks else 1_000_000,
        proxies=random.choice((1, 2, 2, 3)) if row_locks else 1,
        latency=random.choice((0.0005, 0.002, 0.002, 0.02)),
        chaos_seconds=random.choice((20.0, 30.0, 50.0)),
        rates={name: random.random() * most for name, most in RATES_MOST.items() if random.random() < 0.2},
        events={name: random.randint(1, 3) for name in TOPIC_EVENTS if random.random() < 0.25} | standstills(seed),
        producers={f"publisher{n}": random.randint(4, 10) for n in range(random.randint(1, 3))},
        receivers=tuple(f"{name}.member{n}" for name in names for n in range(random.randint(0, 2))),
        lockers=tuple(f"{name}.locker" for name in names if random.random() < 0.1),
        filters=random.random() < 0.15,
        ranges=False,
        groups=groups,
        listeners=tuple(f"listener{n}" for n in range(random.choice((0, 1, 1, 2)))),
        shown=random.random() < 0.85,
        slow_inserts=random.random() < 0.4,
        longest=random.choice((2.0, 10.0, 40.0)),
        bounds=_bounds(random),
        compact_after=compact_after,
    )


def _bounds(random: Random) -> dict[str, int]:
    chosen = {
        "HOLES_MAX": random.randint(1, 4),
        "SETTLED_IDS": random.randint(2, 8),
        "LATE_MAX": random.randint(1, 3),
    }
    return {name: value for name, value in chosen.items() if random.random() < 0.25}


def _group(random: Random, name: str) -> Group:
    options = some_options(random, ordered=0.15)
    options = replace(options, topic=TOPIC, consumer_group=name, purge_after_ns=86400 * NS_PER_SECOND)
    return Group(options, begun=random.random() < 0.7)


def _kept(group: Group) -> Group:
    """The group, with what it has not done kept in the topic."""
    return replace(group, options=replace(group.options, retain=UNTIL_CONSUMED))


@cache
def _shape(orders: tuple[str, ...], compact_after: int | None) -> str:
    """The statements that make the topic and its groups' queues."""
    options = "" if compact_after is None else f" WITH (compact = 'k', compact_after = {compact_after})"
    base = "\n".join((f"CREATE TOPIC {TOPIC} (k VARCHAR(20), n INT){options}", *_BESIDE))
    definition = table_definition(base, TOPIC)
    made = [base]
    for number, order in enumerate(orders):
        of_group = QueueOptions(topic=TOPIC, consumer_group=f"g{number}", order_key=order or None)
        name = group_table(QueueName("main", TOPIC), f"g{number}")
        made.append(" ".join(group_queue(definition, name, of_group, PlanContext().now_sql).split()))
    return "\n".join(made)
