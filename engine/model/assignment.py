"""Assignment: which receiver has which part of a queue's ring. Pure.

Every process that knows the same members computes the same assignment, so no process leads and nothing is stored. It is
a stable matching. A part prefers members, and a member prefers parts, by the hash of both (rendezvous hashing); and
each member takes its quota, which is that of any other, or one more. So the parts are spread evenly, and few of them
move when a member comes or goes. Without quotas, of a hundred members seven would have no part.

Sources: D. Thaler and C. V. Ravishankar, "Using Name-Based Mappings to Increase Hit Rates" (1998); D. Gale and
L. S. Shapley, "College Admissions and the Stability of Marriage" (1962). The result is the same in whatever order the
parts propose.
"""

from __future__ import annotations

import hashlib
import heapq
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from engine.model.key_range import PARTS, WHOLE, KeyRange, of_parts, union

_WEIGHTS = struct.Struct(f"<{PARTS}I")
_WEIGHED_MAX = 4096  # members whose weights are cached, of 10 KB each


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """A receiver with keys of its own, at whichever process. `id`: no other has it. `exclusive`: whether nobody else
    gets messages of its parts, however long they wait."""

    id: str
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class Assignment:
    """The slots of each member, by its id; and `lendable`, those of members that are not exclusive."""

    slots: Mapping[str, KeyRange]
    lendable: KeyRange = WHOLE


def assignment_of(members: Collection[Member]) -> Assignment:
    """Which member has which slots."""
    slots = assigned([member.id for member in members])
    lent = [slots[member.id] for member in members if not member.exclusive]
    return Assignment(slots, union(span for key_range in lent for span in key_range.spans))


@lru_cache(_WEIGHED_MAX)
def _weights(member: str) -> tuple[int, ...]:
    """How much each part prefers that member."""
    return _WEIGHTS.unpack(hashlib.shake_128(member.encode()).digest(_WEIGHTS.size))


def assigned(members: Collection[str]) -> Mapping[str, KeyRange]:
    """The slots of each member: together the whole ring, where there is a member. Beyond as many members as parts, some
    have none."""
    ranked = sorted(members, key=lambda member: (_weights(member), member))
    if not ranked:
        return {}
    least, more = divmod(PARTS, len(ranked))
    quotas = [least + (place < more) for place in range(len(ranked))]
    return {member: of_parts(parts) for member, parts in zip(ranked, _matched(ranked, quotas), strict=True)}


def _matched(members: list[str], quotas: list[int]) -> list[list[int]]:
    """The parts of each member. A part proposes to the members in the order in which it prefers them; a member keeps
    the best of those that have proposed so far."""
    weights = [_weights(member) for member in members]
    preferences = [_preference(weights, part) for part in range(PARTS)]
    matches: list[list[tuple[int, int]]] = [[] for _ in members]  # heaps of weight and part: the worst is the first
    free = list(range(PARTS))
    while free:
        part = free.pop()
        _, member = heapq.heappop(preferences[part])
        offer = (weights[member][part], part)
        if len(matches[member]) < quotas[member]:
            heapq.heappush(matches[member], offer)
        elif matches[member] and matches[member][0] < offer:
            free.append(heapq.heapreplace(matches[member], offer)[1])
        else:
            free.append(part)
    return [sorted(part for _, part in each) for each in matches]


def _preference(weights: list[tuple[int, ...]], part: int) -> list[tuple[int, int]]:
    """A heap of the members, the one that the part prefers first."""
    preference = [(-of_member[part], member) for member, of_member in enumerate(weights)]
    heapq.heapify(preference)
    return preference
