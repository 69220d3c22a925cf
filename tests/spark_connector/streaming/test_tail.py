"""How far a tail may read: pure decisions, and their properties over random schedules of commits."""

from __future__ import annotations

import random

from spark_connector.streaming.tail import (
    GRACE_NS,
    SETTLED_IDS,
    ClosedGaps,
    Gap,
    Horizon,
    Readable,
    Row,
    bounds,
    gaps,
    readable,
)

NOW = 10_000_000_000_000
OLD = NOW - 10 * GRACE_NS
ALL = ClosedGaps(settled=1_000_000, largest=1_000_000, now=NOW)
NONE = ClosedGaps(settled=0, largest=0, now=NOW)


def rows(*ids: int, created: int | None = OLD) -> list[Row]:
    return [Row(id_, created) for id_ in ids]


def test_all_is_read_where_nothing_is_on_its_way():
    assert readable(0, rows(1, 2, 3), [1, 2, 3], NONE) == Readable(3)
    assert readable(0, [], [], NONE) == Readable(0)


def test_it_stops_before_an_id_that_is_not_committed():
    assert readable(0, rows(1, 2, 5, 6), [1, 2, 4, 5, 6], ALL) == Readable(2, 4)
    assert readable(3, rows(5, 6), [4, 5, 6], ALL) == Readable(0, 4)


def test_what_was_committed_between_the_looks_waits_for_the_next():
    assert readable(0, rows(1, 3), [1, 2, 3], ALL) == Readable(1, 2)
    assert readable(0, rows(1, 2), [1, 2, 3], ALL) == Readable(2)


def test_a_gap_is_passed_when_a_larger_id_was_seen_a_while_ago():
    found = rows(1, 2, 4, 7)  # whatever the messages say of their time
    assert readable(0, found, [1, 2, 4, 7], ClosedGaps(3, 7, NOW)) == Readable(2)
    assert readable(0, found, [1, 2, 4, 7], ClosedGaps(4, 7, NOW)) == Readable(3)
    assert readable(0, found, [1, 2, 4, 7], ClosedGaps(7, 7, NOW)) == Readable(4)
    assert readable(2, [Row(4, None)], [4], ClosedGaps(0, 4, NOW)) == Readable(0)


def test_a_gap_far_below_the_end_is_passed_where_the_message_after_it_is_old():
    far = ClosedGaps(settled=0, largest=5 + SETTLED_IDS, now=NOW)
    assert readable(2, [Row(4, OLD)], [4], far) == Readable(1)
    assert readable(2, [Row(4, NOW)], [4], far) == Readable(0)
    assert readable(2, [Row(4, NOW + 1)], [4], far) == Readable(1)  # a time that somebody made up holds nothing up
    assert readable(2, [Row(4, None)], [4], far) == Readable(1)
    assert readable(2, [Row(5, OLD)], [5], far) == Readable(0)  # not far enough


def test_a_horizon_knows_what_was_there_a_while_ago():
    horizon = Horizon()
    assert (horizon.largest, horizon.settled(NOW)) == (0, 0)
    for step, largest in enumerate((5, 5, 8, 8, 9)):
        horizon.observe(largest, NOW + step * GRACE_NS // 2)
    assert horizon.largest == 9
    end = NOW + 2 * GRACE_NS
    assert horizon.settled(end) == 8
    assert horizon.settled(end + GRACE_NS // 2) == 8
    assert horizon.settled(end + GRACE_NS) == 9


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
    """Ids are given in order; rows appear soon after, and are committed or rolled back in any order, at any time.

    Looks come at any moment, and messages say what they like of their times.
    """
    for seed in range(300):
        chance = random.Random(seed)
        ids, now, since = 40, NOW, 0
        given: dict[int, int] = {}  # ids that are not written yet, and when they were given
        written: set[int] = set()
        committed: set[int] = set()
        gone: set[int] = set()
        read: list[int] = []
        horizon, first = Horizon(), 1
        while len(committed) + len(gone) < ids:
            now += chance.randrange(GRACE_NS // 4)
            for id_ in [id_ for id_, at in given.items() if now - at > GRACE_NS // 2 or chance.random() < 0.5]:
                del given[id_]
                written.add(id_)
            open_ = sorted(written - committed - gone)
            step = chance.random()
            if step < 0.4 and first <= ids:
                given[first] = now
                first += 1
            elif step < 0.7 and open_:
                (committed if chance.random() < 0.8 else gone).add(chance.choice(open_))
            else:
                settled = horizon.settled(now)
                horizon.observe(max(committed, default=0), now)
                look = sorted(id_ for id_ in committed if id_ > since)[: chance.randint(1, 9)]
                if look and chance.random() < 0.5 and open_:
                    committed.add(chance.choice(open_))  # between the looks
                there = [id_ for id_ in written - gone if look and since < id_ <= look[-1]]
                made = [Row(id_, chance.choice((None, OLD, now, now + GRACE_NS))) for id_ in look]
                read += look[: readable(since, made, there, ClosedGaps(settled, horizon.largest, now)).count]
                since = read[-1] if read else 0
        read += sorted(id_ for id_ in committed if id_ > since)
        assert read == sorted(committed), f"seed {seed}"
