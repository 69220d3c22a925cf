"""Key ranges: their text, and that each slot is in exactly one stretch of a partition."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.errors import InvalidOption
from engine.model.key_range import (
    PARTS,
    SLOTS,
    SPANS_MAX,
    WHOLE,
    KeyRange,
    Span,
    of_parts,
    partition,
    read_key_range,
    shown_key_range,
    union,
)

SPANS = st.tuples(st.integers(0, SLOTS - 1), st.integers(0, SLOTS - 1)).map(lambda ends: Span(min(ends), max(ends)))
RANGES = st.lists(SPANS, min_size=1, max_size=8).map(union)
SLOT = st.integers(0, SLOTS - 1)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("-", [(0, 0xFFFF)]),
        ("-80", [(0, 0x7FFF)]),
        ("80-", [(0x8000, 0xFFFF)]),
        ("40-80", [(0x4000, 0x7FFF)]),
        ("4000-8000", [(0x4000, 0x7FFF)]),
        ("ff00-ff01", [(0xFF00, 0xFF00)]),
        ("C0-,-20", [(0, 0x1FFF), (0xC000, 0xFFFF)]),
        (" 40-80 , 80-c0 ", [(0x4000, 0xBFFF)]),
        ("00-", [(0, 0xFFFF)]),
    ],
)
def test_what_a_text_means(text, spans):
    assert read_key_range("key_range", text) == KeyRange(tuple(Span(*span) for span in spans))


@pytest.mark.parametrize(
    "text",
    ["", "80", "8-", "-8", "-800", "zz-", "80-40", "80-80", "-00", "0x80-", "-80,", "--", "-800000", "٨٠-", "80 -90"],
)
def test_what_is_no_key_range(text):
    with pytest.raises(InvalidOption, match="key_range: "):
        read_key_range("key_range", text)


def test_a_text_has_a_bounded_number_of_ranges():
    spans = ",".join(["-80"] * (SPANS_MAX + 1))
    with pytest.raises(InvalidOption, match=f"at most {SPANS_MAX}"):
        read_key_range("key_range", spans)


@given(RANGES)
def test_a_text_reads_as_the_range_it_was_made_of(key_range):
    assert read_key_range("key_range", str(key_range)) == key_range


@given(st.lists(RANGES, max_size=6), SLOT)
def test_a_slot_is_in_exactly_one_stretch_and_that_in_all_of_a_range_or_none(ranges, slot):
    spans = partition(ranges)
    assert spans[0].first == 0 and spans[-1].last == SLOTS - 1
    assert all(one.last + 1 == following.first for one, following in pairwise(spans))
    (own,) = [span for span in spans if span.first <= slot <= span.last]
    for key_range in ranges:
        assert key_range.covers(own.first) == key_range.covers(slot) == key_range.covers(own.last)


def test_the_whole_ring_is_no_condition():
    assert read_key_range("key_range", "-40,40-").is_whole and WHOLE.is_whole and str(WHOLE) == "-"


def test_the_condition_of_many_stretches_is_one_list():
    scattered = of_parts(range(0, PARTS, 2))
    assert scattered.sql == f"((queuegate_slot >> 8) IN ({', '.join(map(str, range(0, PARTS, 2)))}))"
    pieces = union([*scattered.spans, Span(0x0180, 0x01A0)])
    assert pieces.sql.count("BETWEEN") == PARTS // 2 + 1
    assert KeyRange(()).sql == "(1 = 0)"


@given(RANGES)
def test_a_shown_key_range_is_read_as_it_was(key_range):
    assert shown_key_range(str(key_range)) == key_range


def test_a_shown_key_range_may_be_everything_or_nothing():
    assert shown_key_range("") == WHOLE
    assert shown_key_range(str(KeyRange(()))) == KeyRange(())
