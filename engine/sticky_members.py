"""StickyMembers: the receivers with keys of their own, of all queues: those of this engine, and those that its
neighbours have reported. From these follows which receiver has which part of a queue's ring (engine.model.assignment).

Invariant: an assignment is a hint, and a lease is the truth. Engines that know different members for a while may let
two receivers compete for a part, or none look after it; no message is delivered twice or lost by that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Protocol

from engine.model.assignment import Assignment, Member, assignment_of
from engine.model.queue import QueueName

Members = Mapping[QueueName, Sequence[Member]]
"""The members of some queues."""


class MembersNeighbours(Protocol):
    """The neighbours, as they are notified."""

    def members_changed(self, queue: QueueName, members: Sequence[Member]) -> None:
        """These are the members of this engine on that queue now."""
        ...


class StickyMembers:
    """See the module. `name`: of this engine, which no other has."""

    def __init__(self, name: str, neighbours: MembersNeighbours) -> None:
        self._name, self._neighbours = name, neighbours
        self._on_change: Callable[[QueueName], None] = lambda queue: None
        self._joined = 0
        self._here: dict[QueueName, tuple[Member, ...]] = {}
        self._reported: dict[Hashable, dict[QueueName, tuple[Member, ...]]] = {}
        self._assignments: dict[QueueName, Assignment] = {}

    def on_change(self, callback: Callable[[QueueName], None]) -> None:
        """Call it whenever the members of a queue are others."""
        self._on_change = callback

    @property
    def here(self) -> Members:
        """Those of this engine."""
        return self._here

    def assignment(self, queue: QueueName) -> Assignment:
        """Who has which part of that queue's ring. The same object until a member joins or leaves."""
        assignment = self._assignments.get(queue)
        if assignment is None:
            assignment = self._assignments[queue] = assignment_of(tuple(self._of(queue)))
        return assignment

    def _of(self, queue: QueueName) -> Iterator[Member]:
        yield from self._here.get(queue, ())
        for reported in self._reported.values():
            yield from reported.get(queue, ())

    # --- this engine's own

    def join(self, queue: QueueName, *, exclusive: bool) -> Member:
        """A new member."""
        self._joined += 1
        member = Member(f"{self._name}.{self._joined}", exclusive)
        self._here[queue] = (*self._here.get(queue, ()), member)
        self._changed(queue, here=True)
        return member

    def leave(self, queue: QueueName, member: Member) -> None:
        """It has ended."""
        left = tuple(one for one in self._here[queue] if one != member)
        if left:
            self._here[queue] = left
        else:
            del self._here[queue]
        self._changed(queue, here=True)

    # --- those of neighbours

    def reported(self, neighbour: Hashable, members: Members, *, all_queues: bool) -> None:
        """The members that a neighbour has now, of these queues; `all_queues`: and none of any other queue."""
        known = self._reported.setdefault(neighbour, {})
        news = {queue: tuple(of_queue) for queue, of_queue in members.items()}
        if all_queues:
            news |= {queue: () for queue in known if queue not in news}
        for queue, of_queue in news.items():
            if known.get(queue, ()) == of_queue:
                continue
            if of_queue:
                known[queue] = of_queue
            else:
                del known[queue]
            self._changed(queue, here=False)

    def gone(self, neighbour: Hashable) -> None:
        """There is no link to that neighbour any more: it may have ended."""
        for queue in self._reported.pop(neighbour, {}):
            self._changed(queue, here=False)

    def _changed(self, queue: QueueName, *, here: bool) -> None:
        self._assignments.pop(queue, None)
        self._on_change(queue)
        if here:
            self._neighbours.members_changed(queue, self._here.get(queue, ()))
