"""The step that numbers a topic's messages, and feeding by the numbers, on a model of a cluster: nodes that apply one
order of write sets late. The same is run with defects planted in the SQL, each of which has to be found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from memory_store import COLUMNS
from memory_topics import make_group, make_topic
from nodes_model import GONE, MESSAGE, POSITION, QUEUED, Node, NodeConnection, Nodes, Transaction

from engine.model.errors import BackendError
from engine.model.topic_options import TopicOptions
from engine.model.topics import NOTHING_SETTLED
from engine.store.operations.feed import FeedRequest, TopicState, feed
from engine.store.operations.sequence import SequenceStatements, step
from engine.store.statements.mysql import MYSQL
from engine.store.statements.topics import FeedStatements

WORLDS = 80
ACTIONS = 80
TOPIC = replace(make_topic(), options=TopicOptions(sequence=True))
GROUP = make_group(TOPIC.name, "g", COLUMNS)
TEXTS = SequenceStatements(MYSQL, TOPIC)
FEEDING = FeedStatements(MYSQL, GROUP, TOPIC)
KNOWN = TopicState(False, NOTHING_SETTLED)


class RowNotWritten(NodeConnection):
    """The step does not write how far it has counted."""

    def run(self, statements, *, last=False):
        return super().run([one for one in statements if not one.sql.startswith("UPDATE `main`.`queuegate")], last=last)


class ReadLocking(NodeConnection):
    """It locks the messages as it looks for them, one after the other."""

    def unnumbered(self):
        look, ids, at = super().unnumbered, [], 0
        while (at := min((id_ for id_ in look() if id_ > at), default=0)) > 0:
            if self.free(at):
                ids.append(at)
        return ids


class CountedInTable(NodeConnection):
    """It counts from the largest number in the table alone."""

    def position(self, name):
        return [(0, 0, "[]")] if super().position(name) else []


class ReadByRange(NodeConnection):
    """It looks for messages beyond the last that has a number, as one would who takes ids for an order."""

    def unnumbered(self):
        numbered = [id_ for id_, number in self.transaction.rows(MESSAGE).items() if number is not None]
        return [id_ for id_ in super().unnumbered() if id_ > max(numbered, default=0)]


class FedWithoutTheRow(NodeConnection):
    """Feeding copies the messages, and writes no position."""

    def run(self, statements, *, last=False):
        mine = [one for one in statements if one.sql != self.texts.position.write or one.params[3] == self.texts.key]
        return super().run(mine, last=last)


PLANTED = {RowNotWritten: 0, ReadLocking: 200, CountedInTable: 0, ReadByRange: 0, FedWithoutTheRow: 0}
"""Each with the world from which on it is looked for: one is seldom seen, and the test is to be short."""


class Broken(AssertionError):
    """A claim does not hold."""


def claim(holds: bool, text: str) -> None:
    if not holds:
        raise Broken(text)


@dataclass(eq=False)
class Written:
    """A message. `before`: those of its node that were committed when it was inserted."""

    id: int
    node: int
    before: frozenset[int]
    committed: bool = False
    blocked: bool = False  # locked by a client before it had a number: it loses its turn


@dataclass(eq=False)
class World:
    """What happens on the nodes, by chance, and what was seen. `connection`: with its defect, if it has one."""

    random: Random
    connection: type[NodeConnection] = NodeConnection
    nodes: Nodes = field(default_factory=lambda: Nodes(3))
    messages: dict[int, Written] = field(default_factory=dict)
    given: dict[int, int] = field(default_factory=dict)  # number -> id, of all times
    readers: list[list[tuple[int, int]]] = field(default_factory=lambda: [[], [], []])
    fed: list[int] = field(default_factory=list)
    removed: set[int] = field(default_factory=set)
    open: list[tuple[Transaction, list[int]]] = field(default_factory=list)
    depth: int = 0

    def between(self) -> None:
        if self.depth < 3 and self.random.random() < 0.4:
            self.depth += 1
            self.act()
            self.depth -= 1

    def act(self) -> None:
        node = self.random.choice(self.nodes.nodes)
        chances: list[tuple[int, Callable[[Node], object]]] = [
            (5, self.nodes.apply), (4, self.insert), (4, self.end), (4, self.number), (3, self.read), (2, self.feed),
            (1, self.remove), (1, self.hold),
        ]  # fmt: skip
        (chosen,) = self.random.choices([work for _, work in chances], [weight for weight, _ in chances])
        chosen(node)

    # --- clients

    def insert(self, node: Node) -> None:
        transaction, ids = Transaction(self.nodes, node), []
        mine = frozenset(one.id for one in self.messages.values() if one.committed and one.node == node.number)
        for _ in range(self.random.randint(1, 3)):
            id_ = self.nodes.next_id(node)
            self.messages[id_] = Written(id_, node.number, mine)
            transaction.write((MESSAGE, id_), None)
            ids.append(id_)
        self.open.append((transaction, ids))
        if self.random.random() < 0.5:
            self.end(node)

    def end(self, node: Node) -> None:
        """Of one of the open transactions, mostly by COMMIT."""
        if not self.open:
            return
        transaction, ids = self.open.pop(self.random.randrange(len(self.open)))
        if self.random.random() < 0.2:
            transaction.release()
            return
        try:
            transaction.commit()
        except BackendError:
            return
        for id_ in ids:
            self.messages[id_].committed = True

    def hold(self, node: Node) -> None:
        """A client locks a message that has no number."""
        transaction = Transaction(self.nodes, node)
        for id_, number in transaction.rows(MESSAGE).items():
            if number is None and transaction.lock((MESSAGE, id_)):
                self.messages[id_].blocked = True
                self.open.append((transaction, []))
                return

    def remove(self, node: Node) -> None:
        """Somebody deletes the first message that has a number, or the last."""
        transaction = Transaction(self.nodes, node)
        numbered = sorted((n, id_) for id_, n in transaction.rows(MESSAGE).items() if n is not None)
        if not numbered:
            return
        _, id_ = self.random.choice((numbered[0], numbered[-1]))
        try:
            transaction.write((MESSAGE, id_), GONE)
            transaction.commit()
        except BackendError:
            return
        self.removed.add(id_)

    # --- the proxies

    def number(self, node: Node) -> bool:
        """A step; whether it gave numbers."""
        transaction = Transaction(self.nodes, node)
        try:
            done = step(self.connection(transaction, self.between, TEXTS), TEXTS)
            self.between()
            given = {n: key[1] for key, n in transaction.changes.items() if key[0] == MESSAGE}
            transaction.commit()
        except BackendError as error:
            assert error.errno in (1213, 1062, 1205), error
            transaction.release()
            return False
        for number, id_ in given.items():
            claim(self.given.setdefault(number, id_) == id_, f"number {number} was given twice")
        return done.count > 0

    def feed(self, node: Node) -> None:
        transaction = Transaction(self.nodes, node)
        connection: Any = self.connection(transaction, self.between, TEXTS, FEEDING)
        try:
            feed(connection, FEEDING, GROUP, FeedRequest(self.random.randint(1, 4), None, KNOWN))
            self.between()
            fed = [key[1] for key in transaction.changes if key[0] == QUEUED]
            transaction.commit()
        except LookupError:
            transaction.release()
        except BackendError:
            transaction.release()
        else:
            self.fed += fed

    def read(self, node: Node) -> None:
        """A broadcast reader at that node: all beyond its place."""
        had = self.readers[node.number]
        place = had[-1][0] if had else 0
        offsets = sorted((n, id_) for id_, n in Transaction(self.nodes, node).rows(MESSAGE).items() if n is not None)
        had += [(number, id_) for number, id_ in offsets if number > place]

    # --- the judgement

    def settle(self) -> None:
        """All that is open ends, and all is read."""
        self.depth = 3
        while self.open:
            self.end(self.nodes.nodes[0])
        self.nodes.catch_up()
        while self.number(self.nodes.nodes[1]):
            self.nodes.catch_up()
        for node in self.nodes.nodes:
            self.read(node)
        for _ in range(len(self.messages) + 1):
            self.feed(self.nodes.nodes[2])
            self.nodes.catch_up()

    def judge(self) -> None:
        there = {one.id for one in self.messages.values() if one.committed} - self.removed
        claim(sorted(self.given) == list(range(1, len(self.given) + 1)), "numbers are missing")
        for had in self.readers:
            ids = [id_ for _, id_ in had]
            claim(len(set(ids)) == len(ids), "read twice")
            claim(there <= set(ids), "never read")
        claim(len(set(self.fed)) == len(self.fed), "fed twice")
        claim(there <= set(self.fed), "never fed")
        number = {id_: number for number, id_ in self.given.items()}
        for one in self.messages.values():
            for before in one.before if one.id in number else ():
                first = self.messages[before]
                claim(first.blocked or before not in number or number[before] < number[one.id], "out of order")


def lived(seed: int, connection: type[NodeConnection]) -> None:
    world = World(Random(seed), connection)
    world.nodes.log.append({(POSITION, GROUP.name.table): 0})
    world.nodes.catch_up()
    for _ in range(ACTIONS):
        world.act()
    world.settle()
    world.judge()


def test_every_reader_has_every_message_in_one_order():
    for seed in range(WORLDS):
        try:
            lived(seed, NodeConnection)
        except Broken as error:
            pytest.fail(f"world {seed}: {error}")


@pytest.mark.parametrize("defect", PLANTED, ids=lambda defect: defect.__name__)
def test_a_planted_defect_is_found(defect):
    for seed in range(PLANTED[defect], PLANTED[defect] + 1000):
        try:
            lived(seed, defect)
        except Broken as error:
            print(f"world {seed}: {error}")
            return
    pytest.fail("it was not found")
