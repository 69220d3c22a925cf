"""How far a tail may read: pure decisions, and their properties over random schedules of commits."""

from __future__ import annotations

import random

from spark_connector.streaming.tail import GRACE_NS, Gap, Readable, Row, bounds, gaps, readable

NOW = 10_000_000_000_000
OLD = NOW - 10 * GRACE_NS


def rows(*ids: int, created: int | None = OLD) -> list[Row]:
    return [Row(id_, created) for id_ in ids]


def test_all_is_read_where_nothing_is_on_its_way():
    assert readable(0, rows(1, 2, 3), [1, 2, 3], NOW) == Readable(3)
    assert readable(0, [], [], NOW) == Readable(0)


def test_it_stops_before_an_id_that_is_not_committed():
    assert readable(0, rows(1, 2, 5, 6), [1, 2, 4, 5, 6], NOW) == Readable(2, 4)
    assert readable(3, rows(5, 6), [4, 5, 6], NOW) == Readable(0, 4)


def test_what_was_committed_between_the_looks_waits_for_the_next():
    assert readable(0, rows(1, 3), [1, 2, 3], NOW) == Readable(1, 2)
    assert readable(0, rows(1, 2), [1, 2, 3], NOW) == Readable(2)


def test_behind_a_gap_nothing_young_is_read():
    young = [Row(1, OLD), Row(2, NOW), Row(4, NOW)]
    assert readable(0, young, [1, 2, 4], NOW) == Readable(2)
    assert readable(0, young, [1, 2, 4], NOW + GRACE_NS) == Readable(3)
    assert readable(2, [Row(4, NOW)], [4], NOW) == Readable(0)
    assert readable(2, [Row(4, NOW + 1)], [4], NOW) == Readable(1)  # a time that somebody made up holds nothing up
    assert readable(2, [Row(4, None)], [4], NOW) == Readable(1)


def test_ids_that_are_missing_may_be_purged_only_if_they_are_old_enough():
    found = [Row(11, OLD), Row(14, OLD + 5), Row(20, OLD + 20)]
    assert list(gaps(9, OLD - 1, found, purged_ns=OLD)) == [Gap(10, 10)]
    assert list(gaps(9, OLD, found, purged_ns=OLD + 1)) == [Gap(10, 10), Gap(12, 13)]
    assert list(gaps(9, OLD, found, purged_ns=OLD + 6)) == [Gap(10, 10), Gap(12, 13), Gap(15, 19)]
    assert list(gaps(9, OLD, found, purged_ns=OLD)) == []


def test_parts_are_even_and_cover_everything_once():
    ids = [3, 5, 6, 10, 11, 12, 20]
    parts = bounds(2, ids, 3, 2)
    assert parts == [(2, 5), (5, 10), (10, 12, 20)]
    assert bounds(2, [], 3, 2) == []
    assert bounds(2, [7], 4, 10) == [(2, 7)]


def test_no_schedule_of_commits_makes_a_tail_pass_over_an_id():
    """Ids are given in order, rows appear and are committed or rolled back in any order; looks come at any moment."""
    for seed in range(300):
        chance = random.Random(seed)
        given = list(range(1, 40))
        written: set[int] = set()
        committed: set[int] = set()
        gone: set[int] = set()
        read: list[int] = []
        since, first = 0, 0
        while len(committed) + len(gone) < len(given):
            step = chance.random()
            if step < 0.4 and first < len(given):
                written.add(given[first])
                first += 1
            elif step < 0.7 and (open_ := sorted(written - committed - gone)):
                (committed if chance.random() < 0.8 else gone).add(chance.choice(open_))
            else:
                look = sorted(id_ for id_ in committed if id_ > since)[: chance.randint(1, 9)]
                if look and chance.random() < 0.5 and (open_ := sorted(written - committed - gone)):
                    committed.add(chance.choice(open_))  # between the looks
                there = [id_ for id_ in written - gone if look and since < id_ <= look[-1]]
                count = readable(since, rows(*look), there, NOW).count
                read += look[:count]
                since = read[-1] if read else 0
        read += sorted(id_ for id_ in committed if id_ > since)
        assert read == sorted(committed), f"seed {seed}"
