"""What was delivered and is not settled, and the acks that wait to be sent. Any thread may settle.

Acks go out many at a time: a worker's event loop sends those of one turn together. Each names its delivery, so
an ack whose connection has ended is still of use: it is owed, and sent by the process's next connection to the same
database. It ends nothing if the message was given back or delivered again meanwhile.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from queuegate_celery.messages import Delivery
from queuegate_celery.settings import Address
from queuegate_celery.sql import numbers

IDS_MAX = 1000
"""In one statement: a text of some 20 KB."""

Deliveries = dict[str, list[Delivery]]
"""By the queue's table."""


@dataclass(frozen=True)
class Held:
    """One delivery. `owner` is the channel, `consumer` whose room it takes; a message that was fetched takes none."""

    table: str
    delivery: Delivery
    owner: Any
    consumer: Any


class Holding:
    """The deliveries of one connection, by tag."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tags = count(1)
        self._held: dict[int, Held] = {}
        self._acked: Deliveries = {}
        self._counts: dict[int, int] = defaultdict(int)  # by the id of a consumer's object

    def add(self, held: Held) -> int:
        """A new delivery; its tag."""
        with self._lock:
            tag = next(self._tags)
            self._held[tag] = held
            self._counts[id(held.consumer)] += 1
            return tag

    def tag(self) -> int:
        """For a delivery that nobody has to settle."""
        with self._lock:
            return next(self._tags)

    def of(self, consumer: Any) -> int:
        """How many it holds."""
        with self._lock:
            return self._counts[id(consumer)]

    def settle(self, tags: Iterable[int]) -> Deliveries:
        """Takes these out, and tells them. What is settled already, or was nobody's to settle, is passed over."""
        with self._lock:
            return _by_table(each for tag in tags if (each := self._taken(tag)) is not None)

    def ack(self, tags: Iterable[int]) -> None:
        """The same, with their acks left to be sent."""
        with self._lock:
            for tag in tags:
                if (held := self._taken(tag)) is not None:
                    self._acked.setdefault(held.table, []).append(held.delivery)

    def acks(self) -> Deliveries:
        """The acks to be sent; from now on they are the caller's."""
        with self._lock:
            acked, self._acked = self._acked, {}
            return acked

    @property
    def has_acks(self) -> bool:
        return bool(self._acked)

    def tags_of(self, owner: Any, up_to: int | None = None) -> list[int]:
        """Those of a channel, or of them the ones that were delivered no later than `up_to`."""
        with self._lock:
            return [t for t, held in self._held.items() if held.owner is owner and (up_to is None or t <= up_to)]

    def leased(self) -> Deliveries:
        """All that is held."""
        with self._lock:
            return _by_table(self._held.values())

    def _taken(self, tag: int) -> Held | None:
        held = self._held.pop(tag, None)
        if held is not None:
            left = self._counts[id(held.consumer)] = self._counts[id(held.consumer)] - 1
            if not left:
                del self._counts[id(held.consumer)]
        return held


class Owed:
    """Acks of connections that have ended, by the database they are for. One for the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._acks: dict[tuple[str, int, str], Deliveries] = {}

    def add(self, address: Address, acks: Mapping[str, list[Delivery]]) -> None:
        with self._lock:
            owed = self._acks.setdefault(_place(address), {})
            for table, each in acks.items():
                owed.setdefault(table, []).extend(each)

    def take(self, address: Address) -> Deliveries:
        if not self._acks:
            return {}
        with self._lock:
            return self._acks.pop(_place(address), {})


OWED = Owed()


def conditions(deliveries: Sequence[Delivery]) -> Iterator[str]:
    """What statements concern that name these, and no other deliveries of these messages. Mostly one: messages of one
    claim have a token in common."""
    by_name: dict[tuple[str, int], list[int]] = {}
    for each in deliveries:
        by_name.setdefault(each.name, []).append(each.id)
    for (column, value), ids in by_name.items():
        for at in range(0, len(ids), IDS_MAX):
            yield f"id IN ({numbers(ids[at : at + IDS_MAX])}) AND {column} = {value:d}"


def _by_table(held: Iterable[Held]) -> Deliveries:
    found: Deliveries = {}
    for each in held:
        found.setdefault(each.table, []).append(each.delivery)
    return found


def _place(address: Address) -> tuple[str, int, str]:
    return address.host, address.port, address.database
