"""Intervals and slices of an archive: names, what a run that was killed left, and that slices cover everything once."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies

from spark_connector.jobs.archive.intervals import BUCKET_NS, DAY_NS, Interval, Slice, grouped, named, slices, uncounted
from spark_connector.jobs.failures import JobError


def test_names_are_read_as_they_are_written():
    intervals = [Interval(0, 5), Interval(5, 1767225600000000000)]
    assert named(["_staging", intervals[1].name, "_queue.json", "day=2026-01-01", intervals[0].name]) == intervals
    assert intervals[1].name == "interval=5-1767225600000000000"


def test_what_was_published_and_not_said_follows_on_what_was():
    published = [Interval(0, 10), Interval(10, 20), Interval(20, 30)]
    assert uncounted(published, 30, "x") == []
    assert uncounted(published, 10, "x") == published[1:]
    assert uncounted([], 10, "x") == []


@pytest.mark.parametrize("until", [5, 15, 25])
def test_an_archive_that_does_not_follow_is_refused(until):
    with pytest.raises(JobError, match="archived_until was changed"):
        uncounted([Interval(0, 10), Interval(10, 20), Interval(20, 30)], until, "/archive")


def test_nothing_counted_is_one_slice_of_everything():
    assert slices([], Interval(3, 9), 100) == [Slice(Interval(3, 9), 0)]


def test_slices_end_at_midnight_and_where_they_are_full():
    day = DAY_NS // BUCKET_NS  # minutes of a day
    buckets = [(day - 2, 60), (day - 1, 50), (day, 10), (day + 1, 10)]
    found = slices(buckets, Interval(0, 2 * DAY_NS), 100)
    assert [part.count for part in found] == [60, 50, 20]
    assert [part.interval.until for part in found] == [(day - 1) * BUCKET_NS - 1, DAY_NS - 1, 2 * DAY_NS]


def test_a_minute_of_many_messages_is_cut():
    found = slices([(7, 1000)], Interval(0, 9 * BUCKET_NS), 100)
    assert [part.count for part in found] == [100] * 10


@given(
    strategies.dictionaries(strategies.integers(0, 5000), strategies.integers(1, 400), max_size=60),
    strategies.integers(0, 300),
    strategies.integers(1, 500),
    strategies.integers(0, BUCKET_NS - 1),
)
def test_slices_cover_the_interval_once_and_lose_no_count(counts, first, size, offset):
    buckets = sorted(counts.items())
    after = first * BUCKET_NS - 1
    interval = Interval(after, max(after + 1, (max(counts, default=first) + 1) * BUCKET_NS - 1 - offset))
    found = slices([b for b in buckets if b[0] >= first], interval, size)
    assert found[0].interval.after == interval.after
    assert found[-1].interval.until == interval.until
    for one, other in itertools.pairwise(found):
        assert one.interval.until == other.interval.after
    assert all(part.interval.after < part.interval.until for part in found)
    assert sum(part.count for part in found) == sum(n for m, n in buckets if m >= first)


@given(strategies.lists(strategies.integers(0, 50), min_size=1), strategies.integers(1, 100))
def test_groups_keep_order_and_bound(counts, most):
    parts = [Slice(Interval(n, n + 1), count) for n, count in enumerate(counts)]
    groups = grouped(parts, most)
    assert [part for group in groups for part in group] == parts
    assert all(sum(part.count for part in group) <= most or len(group) == 1 for group in groups)
