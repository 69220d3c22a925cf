"""Which member has which part of the ring: every process computes the same, evenly, and few parts move."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.assignment import Member, assigned, assignment_of
from engine.model.key_range import PARTS, SLOTS, WHOLE, union

NAMES = st.sets(st.text(min_size=1, max_size=20), min_size=1, max_size=40)


def owners(names):
    """The member of each part."""
    return {part: name for name, slots in assigned(names).items() for span in slots.spans for part in span.parts}


def members(count):
    return [f"proxy{number % 3}.{number}" for number in range(count)]


@given(NAMES)
def test_each_part_has_one_owner_and_no_owner_has_two_parts_more_than_another(names):
    slots = assigned(names)
    assert slots.keys() == names
    assert sum(span.last - span.first + 1 for one in slots.values() for span in one.spans) == SLOTS
    assert union(span for one in slots.values() for span in one.spans) == WHOLE
    parts = Counter(owners(names).values())
    assert len(parts) == len(names) and max(parts.values()) - min(parts.values()) <= 1


@given(NAMES, st.randoms())
def test_the_order_in_which_members_are_known_does_not_matter(names, random):
    shuffled = list(names)
    random.shuffle(shuffled)
    assert owners(shuffled) == owners(sorted(names))


@pytest.mark.parametrize("count", [1, 2, 5, 10, 32, 100])
def test_few_parts_move_when_a_member_comes_or_goes(count):
    before, after = owners(members(count)), owners(members(count + 1))
    moved = sum(before[part] != after[part] for part in range(PARTS))
    assert PARTS // (count + 1) <= moved <= 3 * PARTS // (count + 1) + 8


def test_beyond_as_many_members_as_parts_some_have_none():
    slots = assigned(members(PARTS + 44))
    assert sum(not one.spans for one in slots.values()) == 44


def test_without_members_nothing_is_assigned():
    assert assigned(()) == {}


def test_what_exclusive_members_have_is_not_lent():
    shared, exclusive = Member("a.1"), Member("b.1", exclusive=True)
    assignment = assignment_of((shared, exclusive))
    assert assignment.lendable == assignment.slots["a.1"]
    assert not any(assignment.lendable.covers(span.first) for span in assignment.slots["b.1"].spans)
    assert assignment_of((shared,)).lendable == WHOLE
    assert assignment_of((exclusive,)).lendable.spans == ()
