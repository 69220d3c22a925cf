"""A model of a Galera cluster, as far as a topic's numbers depend on it: nodes that apply one order of write sets.

A transaction reads and locks at its node, at READ COMMITTED. Its COMMIT is certified against the write sets that its
node has not applied: if one of them has a row in common, or a value of a unique key, it ends with 1213. A write set
that a node applies ends the local transactions that have locked one of its rows. `between` is called between the
statements of a transaction, and between the rows of one that locks as it reads: what else happens then happens there.

NodeConnection answers the very texts of the step and of feeding, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.backend.base import Answer, Statement
from engine.model.errors import BackendError, LockWaitTimeout
from engine.store.gate import COMMENT
from engine.store.operations.sequence import SequenceStatements
from engine.store.statements.topics import FeedStatements

Key = tuple[str, object]
"""A row: ("message", id), ("position", name), ("queued", id); or a value of the unique key, ("number", n)."""

GONE = object()
MESSAGE, POSITION, QUEUED, NUMBER = "message", "position", "queued", "number"


@dataclass(eq=False)
class Node:
    """`rows`: what is committed as it sees it: a message's number or None, a position, or nothing of interest."""

    number: int
    applied: int = 0
    rows: dict[Key, Any] = field(default_factory=dict)
    locks: dict[Key, Transaction] = field(default_factory=dict)
    last_id: int = 0


class Nodes:
    """The cluster. `log`: the write sets in their order."""

    def __init__(self, count: int) -> None:
        self.nodes = [Node(number) for number in range(count)]
        self.log: list[Mapping[Key, Any]] = []

    def apply(self, node: Node) -> bool:
        """Let a node apply the next write set, if there is one."""
        if node.applied == len(self.log):
            return False
        changes = self.log[node.applied]
        for key, value in changes.items():
            if (holder := node.locks.get(key)) is not None:
                holder.ended = BackendError("Deadlock found when trying to get lock", 1213, "40001")
                holder.release()
            if value is GONE:
                node.rows.pop(key, None)
            else:
                node.rows[key] = value
            if key[0] == MESSAGE:
                node.last_id = max(node.last_id, int(str(key[1])))
        node.applied += 1
        return True

    def next_id(self, node: Node) -> int:
        """As AUTO_INCREMENT gives it there: beyond all that the node has seen, and no other node's."""
        node.last_id += 1
        while node.last_id % len(self.nodes) != node.number:
            node.last_id += 1
        return node.last_id

    def catch_up(self) -> None:
        """Let all nodes apply all."""
        for node in self.nodes:
            while self.apply(node):
                pass


class Transaction:
    """One at a node."""

    def __init__(self, nodes: Nodes, node: Node) -> None:
        self._nodes, self.node = nodes, node
        self.changes: dict[Key, Any] = {}
        self.ended: BackendError | None = None

    def rows(self, kind: str) -> dict[Any, Any]:
        """What it sees of a table now."""
        seen = {key: value for key, value in {**self.node.rows, **self.changes}.items() if value is not GONE}
        return {key[1]: value for key, value in seen.items() if key[0] == kind}

    def lock(self, key: Key) -> bool:
        """Whether it has the row locked now."""
        return self.node.locks.setdefault(key, self) is self

    def write(self, key: Key, value: Any) -> None:
        if not self.lock(key):
            raise LockWaitTimeout
        self.changes[key] = value

    def check(self) -> None:
        """Raises BackendError, 1213 where another node's write set has ended it."""
        if self.ended is not None:
            raise self.ended

    def commit(self) -> None:
        self.check()
        try:
            if not self.changes:
                return
            numbers = {(NUMBER, v) for (kind, _), v in self.changes.items() if kind == MESSAGE and type(v) is int}
            keys = self.changes.keys() | numbers
            for other in self._nodes.log[self.node.applied :]:
                theirs = {(NUMBER, v) for (kind, _), v in other.items() if kind == MESSAGE and type(v) is int}
                if keys & (other.keys() | theirs):
                    raise BackendError("Deadlock found when trying to get lock", 1213, "40001")
            self._nodes.log.append(dict(self.changes))
        finally:
            self.release()
        while self.node.applied < len(self._nodes.log):
            self._nodes.apply(self.node)

    def release(self) -> None:
        for key in [key for key, holder in self.node.locks.items() if holder is self]:
            del self.node.locks[key]


class NodeConnection:
    """A StoreConnection of one transaction, for the texts of the step or of feeding."""

    replicates = True

    def __init__(
        self,
        transaction: Transaction,
        between: Callable[[], None],
        texts: SequenceStatements,
        feeding: FeedStatements | None = None,
    ) -> None:
        self.transaction, self.between, self.texts, self.feeding = transaction, between, texts, feeding

    def query(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if sql == COMMENT:  # no row of a message
            return [(self.texts.table.comment,)]
        self.between()
        self.transaction.check()
        return self._answer(sql, list(params))

    def run(self, statements: Sequence[Statement], *, last: bool = False) -> list[Answer]:
        answers = []
        for statement in statements:
            rows = self.query(statement.sql, statement.params)
            answers.append(Answer([tuple(str(value).encode() for value in row) for row in rows], 0))
        return answers

    def _answer(self, sql: str, params: list[Any]) -> list[tuple[Any, ...]]:
        texts, feeding, count = self.texts, self.feeding, len(params)
        if sql == texts.position.lock:
            return self.position(params[0])
        if sql == texts.position.write or sql == texts.position.insert:
            self.transaction.write((POSITION, params[3]), params[0])
        elif sql == texts.unnumbered:
            return [(id_,) for id_ in self.unnumbered()[: params[0]]]
        elif sql == texts.last:
            return [(max(self._offsets(), default=0),)]
        elif count and sql == texts.free(count):
            return [(id_,) for id_ in params if self.free(id_)]
        elif count > 2 and sql == texts.number(count // 2):
            self.number(params)
        elif feeding is not None and sql == feeding.beyond:
            position = self.transaction.rows(POSITION).get(params[0], 0)
            return [(offset, 0) for offset in self._offsets() if offset > position][: params[1]]
        elif feeding is not None and sql == feeding.topic.now_and_last:
            return [(0, max(self._offsets(), default=0))]
        elif feeding is not None and count > 1 and sql == feeding.copy(count - 1):
            self._copy(params[1:])
        else:
            raise NotImplementedError(f"no text that is known: {sql}")
        return []

    def position(self, name: str) -> list[tuple[Any, ...]]:
        """The row, locked."""
        if not self.transaction.lock((POSITION, name)):
            raise LockWaitTimeout
        found = self.transaction.rows(POSITION).get(name)
        return [] if found is None else [(found, found, "[]")]

    def unnumbered(self) -> list[int]:
        """As of one moment."""
        return sorted(id_ for id_, number in self.transaction.rows(MESSAGE).items() if number is None)

    def free(self, id_: int) -> bool:
        """A row of a statement that locks what it reads: as it is by then."""
        self.between()
        self.transaction.check()
        there = self.transaction.rows(MESSAGE).get(id_, GONE) is None
        return there and self.transaction.lock((MESSAGE, id_))

    def number(self, params: list[int]) -> None:
        """UPDATE ... SET number = last + place."""
        last, ids = params[0], params[1 : len(params) // 2 + 1]
        for place, id_ in enumerate(ids, 1):
            if last + place in self._offsets():
                raise BackendError(f"Duplicate entry '{last + place}' for key 'queuegate_seq'", 1062, "23000")
            self.transaction.write((MESSAGE, id_), last + place)

    def _offsets(self) -> list[int]:
        return sorted(number for number in self.transaction.rows(MESSAGE).values() if number is not None)

    def _copy(self, offsets: list[int]) -> None:
        for id_, number in self.transaction.rows(MESSAGE).items():
            if number in offsets and id_ not in self.transaction.rows(QUEUED):
                self.transaction.write((QUEUED, id_), number)
