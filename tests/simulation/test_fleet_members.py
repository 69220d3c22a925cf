"""Fifty engines share the ring of a queue: members join and leave, engines are killed, links break and are slow.

Virtual time, and a network that is drawn from a seed. Engines may disagree meanwhile. Once every report has arrived all
have computed the same assignment, whatever came in between. It depends on no clock.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Sequence

import pytest

from engine.model.assignment import Member
from engine.model.key_range import PARTS, WHOLE, union
from engine.model.queue import QueueName
from engine.sticky_members import StickyMembers

QUEUE = QueueName("main", "orders")
ENGINES = 50
SLOWEST_LINK = 2.0
LOSS_IS_NOTICED = 5.0  # seconds until an engine knows that a link is cut


class Network:
    """The links between engines. A new link carries the whole list, as in proxy.cluster.peer_links; reports that are
    under way when it breaks are lost."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.now = chance, 0.0
        self.engines: dict[str, Engine] = {}
        self.links: dict[frozenset[str], int] = {}  # the number of the link between two
        self._numbers, self._order = itertools.count(1), itertools.count()
        self._events: list[tuple[float, int, str, str, int, Sequence[Member] | None]] = []

    def link(self, one: str, other: str) -> None:
        number = self.links[frozenset((one, other))] = next(self._numbers)
        for source, target in ((one, other), (other, one)):
            self.send(source, target, number, self.engines[source].members.here.get(QUEUE, ()))

    def cut(self, one: str, other: str) -> None:
        number = self.links.pop(frozenset((one, other)), None)
        for source, target in ((one, other), (other, one)) if number is not None else ():
            self._at(LOSS_IS_NOTICED * self.chance.random(), source, target, number, None)

    def send(self, source: str, target: str, number: int, members: Sequence[Member]) -> None:
        # In the order in which they were sent: a link is one connection.
        engine = self.engines[target]
        arrives = max(self.now + SLOWEST_LINK * self.chance.random(), engine.last_arrival.get(number, 0.0))
        engine.last_arrival[number] = arrives
        self._at(arrives - self.now, source, target, number, members)

    def _at(self, delay: float, source: str, target: str, number: int, members: Sequence[Member] | None) -> None:
        heapq.heappush(self._events, (self.now + delay, next(self._order), source, target, number, members))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, source, target, number, members = heapq.heappop(self._events)
            engine, up = self.engines.get(target), self.links.get(frozenset((source, target)))
            if engine is None or (members is not None and up != number):
                continue
            if members is not None:
                engine.members.reported((source, number), {QUEUE: members}, all_queues=True)
            else:
                engine.members.gone((source, number))
        self.now = until

    def kill(self, name: str) -> None:
        for other in [other for other in self.engines if other != name]:
            self.cut(name, other)
        del self.engines[name]

    def start(self, name: str) -> None:
        self.engines[name] = Engine(name, self)
        for other in self.engines:
            if other != name:
                self.link(name, other)

    def heal(self) -> None:
        for pair in itertools.combinations(self.engines, 2):
            if frozenset(pair) not in self.links:
                self.link(*pair)


class Engine:
    """One engine, as far as its members go."""

    def __init__(self, name: str, network: Network) -> None:
        self.name, self.network = name, network
        self.members = StickyMembers(name, self)
        self.own: list[Member] = []
        self.last_arrival: dict[int, float] = {}

    def members_changed(self, queue: QueueName, members: Sequence[Member]) -> None:
        for pair, number in self.network.links.items():
            if self.name in pair:
                (other,) = pair - {self.name}
                self.network.send(self.name, other, number, members)

    def join(self) -> None:
        self.own.append(self.members.join(QUEUE, exclusive=self.network.chance.random() < 0.2))

    def leave(self) -> None:
        if self.own:
            self.members.leave(QUEUE, self.own.pop(self.network.chance.randrange(len(self.own))))


def agreed(network: Network) -> dict[str, set[int]]:
    """The parts of each member, which all engines have computed alike."""
    (first, *others) = [engine.members.assignment(QUEUE) for engine in network.engines.values()]
    assert all(other == first for other in others)
    everybody = {member.id for engine in network.engines.values() for member in engine.own}
    assert first.slots.keys() == everybody
    assert union(span for slots in first.slots.values() for span in slots.spans) == WHOLE
    parts = {member: {part for span in slots.spans for part in span.parts} for member, slots in first.slots.items()}
    assert sum(map(len, parts.values())) == PARTS, "a part has one member"
    least = PARTS // len(everybody)
    assert all(least <= len(of_member) <= least + 1 for of_member in parts.values())
    return parts


def happens(network: Network, number: int) -> None:
    """Something that happens to a fleet."""
    chance, names = network.chance, list(network.engines)
    match chance.choice(("join", "join", "leave", "cut", "part", "heal", "kill", "start")):
        case "join":
            network.engines[chance.choice(names)].join()
        case "leave":
            network.engines[chance.choice(names)].leave()
        case "cut":
            network.cut(*chance.sample(names, 2))
        case "part":
            side = set(chance.sample(names, len(names) // 2))
            for one, other in itertools.product(side, set(names) - side):
                network.cut(one, other)
        case "heal":
            network.heal()
        case "kill" if len(names) > ENGINES // 2:
            network.kill(chance.choice(names))
        case "start":
            network.start(f"late{number}")


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))])
def test_a_fleet_agrees_once_the_reports_have_arrived(seed):
    network = Network(random.Random(seed))
    for number in range(ENGINES):
        network.start(f"engine{number}")
        network.engines[f"engine{number}"].join()
    for number in range(120):
        network.run(network.now + network.chance.expovariate(2.0))
        happens(network, number)
    network.heal()
    network.run(network.now + LOSS_IS_NOTICED + SLOWEST_LINK)
    agreed(network)


def test_one_more_member_moves_few_parts():
    network = Network(random.Random(1))
    for number in range(ENGINES):
        network.start(f"engine{number}")
        for _ in range(2):
            network.engines[f"engine{number}"].join()
    network.run(network.now + LOSS_IS_NOTICED)
    before = agreed(network)
    for moved in ("join", "leave"):
        getattr(network.engines["engine7"], moved)()
        network.run(network.now + LOSS_IS_NOTICED)
        after = agreed(network)
        stayed = sum(len(parts & after.get(member, set())) for member, parts in before.items())
        assert PARTS - stayed <= PARTS // 8, moved
        before = after
