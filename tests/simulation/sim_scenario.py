"""Scenarios: what one seed stands for. Small on purpose: a few messages, receivers and proxies, for a minute or two.

Each kind of trouble is there or not (a run in which everything goes wrong finds less than many in which two things do).
A scenario without a part of it is the same in all other respects, so that a failure can be made small: `dropped`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from random import Random

from engine.model.option_values import NS_PER_SECOND
from engine.model.options import QueueOptions

SHAPE = "CREATE QUEUE q (k VARCHAR(20), n INT)"
RING_SHAPE = "CREATE QUEUE q (k VARCHAR(20) NOT NULL, n INT) SHARDING KEY (k)"
EVENTS = ("kill", "shutdown", "outage", "retune", "pause")


@dataclass(frozen=True)
class Scenario:
    """See the module. Times are in seconds."""

    seed: int
    shape: str
    options: QueueOptions
    row_locks: bool
    tick_ns: int
    proxies: int
    latency: float
    chaos_seconds: float
    rates: Mapping[str, float]
    events: Mapping[str, int]
    producers: Mapping[str, int]
    receivers: tuple[str, ...]
    lockers: tuple[str, ...]
    filters: bool
    ranges: bool

    @property
    def plans(self) -> str:
        """What statements' plans depend on."""
        return f"{self.shape} {self.options.on_failure}"

    @property
    def parts(self) -> list[str]:
        """What can be dropped."""
        return [*self.rates, *self.events, *self.producers, *self.receivers, *self.lockers]

    def without(self, names: frozenset[str]) -> Scenario:
        return replace(
            self,
            rates={name: rate for name, rate in self.rates.items() if name not in names},
            events={name: count for name, count in self.events.items() if name not in names},
            producers={name: count for name, count in self.producers.items() if name not in names},
            receivers=tuple(name for name in self.receivers if name not in names),
            lockers=tuple(name for name in self.lockers if name not in names),
        )

    def describe(self) -> str:
        words = [
            f"{self.proxies} proxies, {'row locks' if self.row_locks else 'one writer'}",
            f"chaos {self.chaos_seconds:.0f} s, latency {self.latency * 1000:.1f} ms",
            f"options {named(self.options)}",
            f"rates { {name: round(rate, 4) for name, rate in self.rates.items()} }",
            f"events {dict(self.events)}, producers {dict(self.producers)}, receivers {', '.join(self.receivers)}",
            f"lockers {', '.join(self.lockers) or 'none'}",
        ]
        return "\n".join(words)


RATES_MOST = {
    "slow": 0.15,
    "stuck": 0.01,
    "lost": 0.1,
    "broken": 0.1,
    "forgotten": 0.15,
    "locked": 0.08,
    "deadlock": 0.08,
    "read_only": 0.03,
    "word_lost": 0.3,
    "neighbour_lost": 0.4,
    "neighbour_slow": 0.4,
}


def scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    random = Random(seed)
    options = some_options(random, ordered=0.25)
    row_locks = random.random() < 0.75
    ranges = has_ranges(seed)
    table, ordered = RING_SHAPE if ranges else SHAPE, f" WITH (order_key = '{options.order_key}')"
    return Scenario(
        seed=seed,
        shape=table + (ordered if options.order_key else ""),
        options=replace(options, sharding_key="k") if ranges else options,
        row_locks=row_locks,
        tick_ns=1000 if row_locks else 1_000_000,
        proxies=random.choice((1, 2, 2, 3)) if row_locks else 1,
        latency=random.choice((0.0005, 0.002, 0.002, 0.02)),
        chaos_seconds=random.choice((20.0, 40.0, 60.0)),
        rates={name: random.random() * most for name, most in RATES_MOST.items() if random.random() < 0.25},
        events={name: random.randint(1, 3) for name in EVENTS if random.random() < 0.3} | standstills(seed),
        producers={f"producer{n}": random.randint(2, 7) for n in range(random.randint(1, 2))},
        receivers=tuple(f"receiver{n}" for n in range(random.randint(1, 4))),
        lockers=("locker",) if random.random() < 0.3 else (),
        filters=random.random() < 0.25,
        ranges=ranges,
    )


def has_ranges(seed: int) -> bool:
    """Whether receivers take parts of a ring. Drawn apart, as standstills are."""
    return Random(f"ranges {seed}").random() < 0.2


def standstills(seed: int) -> dict[str, int]:
    """How often a proxy stands still. Drawn apart, so that nothing else of a seed depends on it."""
    random = Random(f"standstill {seed}")
    return {"standstill": random.randint(1, 4)} if random.random() < 0.3 else {}


def some_options(random: Random, *, ordered: float) -> QueueOptions:
    """The options of a queue; with an order by this probability."""
    options = _plain_options(random)
    if random.random() < 0.2:
        options = replace(options, max_concurrency=random.randint(2, 4))
    if random.random() < 0.2:
        options = replace(options, max_rate=Decimal(random.choice((2, 5, 20))))
    if random.random() < 0.25:
        options = replace(options, max_attempts=random.choice((2, 3, 5)))
    if random.random() < ordered:
        failing = random.choice(("block", "skip", "dead_letter"))
        options = replace(options, order_key=random.choice(("k", "k", "*")), on_failure=failing)
    return options


def _plain_options(random: Random) -> QueueOptions:
    second = NS_PER_SECOND
    return QueueOptions(
        ack_wait_ns=int(random.choice((0.5, 2, 2, 5)) * second),
        min_backoff_ns=random.choice((None, int(0.2 * second), second)),
        max_backoff_ns=random.choice((2, 8)) * second,
        purge_after_ns=random.choice((1, 15, 86400)) * second,
        batch_size=random.choice((1, 2, 5, 100)),
        prefetch=random.choice((1, 3, 1000)),
        cache_size=random.choice((1, 2, 5, 10000)),
        poll_interval_ns=random.choice((5, 15)) * second,
    )


def named(options: QueueOptions) -> str:
    """What is not the default."""
    values = ((f.name, getattr(options, f.name)) for f in fields(options) if getattr(options, f.name) != f.default)
    return ", ".join(f"{name}={value}" for name, value in values)


def retuned(options: QueueOptions, random: Random) -> QueueOptions:
    """Other options, as ALTER QUEUE might set."""
    fresh = _plain_options(random)
    return replace(options, batch_size=fresh.batch_size, prefetch=fresh.prefetch, cache_size=fresh.cache_size)
