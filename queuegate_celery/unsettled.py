"""Deliveries that are not settled yet, and acks that are not sent yet. Any thread may settle.

Acks are sent many at a time: a worker's event loop sends those of one turn together. Each ack names its delivery, so an
ack whose connection has ended is still valid: the process's next connection to the same database sends it. It changes
nothing if the message was given back or delivered again meanwhile.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from queuegate_celery.messages import Delivery
from queuegate_celery.settings import Address

IDS_MAX = 1000
"""Ids in one statement: about 20 KB of text."""

Deliveries = dict[str, list[Delivery]]
"""By the queue's table."""


@dataclass(frozen=True)
class UnsettledDelivery:
    """One delivery. `owner`: the channel. `consumer`: the one whose prefetch it counts for; None: it was fetched."""

    table: str
    delivery: Delivery
    owner: Any
    consumer: Any


class Unsettled:
    """The deliveries of one connection, by tag."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tags = count(1)
        self._entries: dict[int, UnsettledDelivery] = {}
        self._acked: Deliveries = {}
        self._counts: dict[int, int] = defaultdict(int)  # by the id of a consumer's object

    def add(self, entry: UnsettledDelivery) -> int:
        """A new delivery; its tag."""
        with self._lock:
            tag = next(self._tags)
            self._entries[tag] = entry
            self._counts[id(entry.consumer)] += 1
            return tag

    def next_tag(self) -> int:
        """A tag for a delivery that needs no ack."""
        with self._lock:
            return next(self._tags)

    def count(self, consumer: Any) -> int:
        """How many deliveries of this consumer are unsettled."""
        with self._lock:
            return self._counts.get(id(consumer), 0)

    def settle(self, tags: Iterable[int]) -> Deliveries:
        """Removes these deliveries and returns them. Unknown tags are ignored: settled already, or from `next_tag`."""
        with self._lock:
            return _by_table(entry for tag in tags if (entry := self._pop(tag)) is not None)

    def ack(self, tags: Iterable[int]) -> None:
        """The same, and their acks are to be sent."""
        with self._lock:
            for tag in tags:
                if (entry := self._pop(tag)) is not None:
                    self._acked.setdefault(entry.table, []).append(entry.delivery)

    def take_acks(self) -> Deliveries:
        """The acks to be sent; the caller sends them."""
        with self._lock:
            acked, self._acked = self._acked, {}
            return acked

    @property
    def has_acks(self) -> bool:
        return bool(self._acked)

    def tags_of(self, owner: Any, up_to: int | None = None) -> list[int]:
        """The tags of a channel; with `up_to` those up to that one."""
        with self._lock:
            return [tag for tag, e in self._entries.items() if e.owner is owner and (up_to is None or tag <= up_to)]

    def all(self) -> Deliveries:
        """All unsettled deliveries."""
        with self._lock:
            return _by_table(self._entries.values())

    def _pop(self, tag: int) -> UnsettledDelivery | None:
        entry = self._entries.pop(tag, None)
        if entry is not None:
            left = self._counts[id(entry.consumer)] = self._counts[id(entry.consumer)] - 1
            if not left:
                del self._counts[id(entry.consumer)]
        return entry


class UnsentAcks:
    """Acks of connections that have ended, by the database and the account they are of. One for the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._acks: dict[Hashable, Deliveries] = {}

    def add(self, address: Address, acks: Mapping[str, list[Delivery]]) -> None:
        with self._lock:
            unsent = self._acks.setdefault(_key(address), {})
            for table, deliveries in acks.items():
                unsent.setdefault(table, []).extend(deliveries)

    def take(self, address: Address) -> Deliveries:
        if not self._acks:
            return {}
        with self._lock:
            return self._acks.pop(_key(address), {})


UNSENT_ACKS = UnsentAcks()


def conditions(deliveries: Sequence[Delivery]) -> Iterator[str]:
    """WHERE conditions that select exactly these deliveries. Mostly one: messages of one claim have the same token."""
    by_name: dict[tuple[str, int], list[int]] = {}
    for each in deliveries:
        by_name.setdefault(each.name, []).append(each.id)
    for (column, value), ids in by_name.items():
        for at in range(0, len(ids), IDS_MAX):
            listed = ", ".join(str(int(each)) for each in ids[at : at + IDS_MAX])
            yield f"id IN ({listed}) AND {column} = {value:d}"


def _by_table(entries: Iterable[UnsettledDelivery]) -> Deliveries:
    deliveries: Deliveries = {}
    for entry in entries:
        deliveries.setdefault(entry.table, []).append(entry.delivery)
    return deliveries


def _key(address: Address) -> Hashable:
    """All proxies of one URL are those of one database: after a failover the acks go to another one. Another account
    may have no right to ack."""
    return address.proxies or frozenset({(address.host, address.port)}), address.database, address.user
