"""Which partitions of a topic are made, and what a group loses with one: the pure part."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from engine.model.errors import InvalidOption
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import QueueName
from engine.model.topic_options import parse_topic_options
from engine.model.topic_partitions import (
    WIDTH_MIN,
    CountedPage,
    Partition,
    by_hand,
    by_range,
    current,
    division,
    division_of_last,
    first_partitions,
    grace_of,
    moved_past,
    read_partitions,
    unread,
    wanted_width,
)
from engine.model.topics import GroupPosition, Hole


def bounds(partitions) -> list[int]:
    return [one.bound for one in partitions if one.bound is not None]


class Layout:
    """The partitions of a table, divided as the planning says."""

    def __init__(self, partitions=None) -> None:
        self.partitions = list(first_partitions() if partitions is None else partitions)
        self.copied = 0

    def look(self, next_id: int, width: int) -> None:
        made = division(self.partitions, next_id, width)
        if made is None:
            return
        places = [n for n, one in enumerate(self.partitions) if one.name in made.old]
        assert places == list(range(len(self.partitions)))[len(self.partitions) - len(places) :], (
            "the last ones, in order"
        )
        before = self.partitions[: len(self.partitions) - len(places)]
        assert all(next_id < (before[-1].bound or next_id) for _ in made.old), "what is divided is empty"
        self.partitions = [*before, *made.new]
        self.check()

    def check(self) -> None:
        names = [one.name.lower() for one in self.partitions]
        assert len(set(names)) == len(names)
        assert bounds(self.partitions) == sorted(set(bounds(self.partitions)))
        assert [one.bound for one in self.partitions].index(None) == len(self.partitions) - 1

    def width_at(self, id_: int) -> int:
        place = current(self.partitions, id_)
        edges = [0, *bounds(self.partitions)]
        return edges[place + 1] - edges[place]


def test_a_new_topic_has_four_partitions_and_a_reserve():
    made = first_partitions()
    assert bounds(made)[:5] == [10_000, 20_000, 30_000, 40_000, 80_000]
    assert bounds(made)[-1] > 10_000_000 and made[-1] == Partition("pmax", None)
    assert by_range(made[:1]) == "PARTITION BY RANGE (id) (PARTITION `p10000` VALUES LESS THAN (10000))"


def test_partitions_are_made_ahead_when_fewer_than_two_are_left():
    layout = Layout()
    before = list(layout.partitions)
    layout.look(29_999, WIDTH_MIN)
    assert layout.partitions == before
    layout.look(50_000, WIDTH_MIN)  # in the reserve, which is in use
    assert bounds(layout.partitions)[:9] == [10_000, 20_000, 30_000, 40_000, 80_000, 90_000, 100_000, 110_000, 120_000]


def test_a_rate_that_falls_makes_narrower_partitions_of_those_ahead():
    layout = Layout()
    layout.look(13_000_000, 1_000_000)
    assert bounds(layout.partitions)[8:11] == [13_680_000, 14_680_000, 15_680_000]
    layout.look(13_000_000, 500_000)
    assert bounds(layout.partitions)[9] == 14_680_000, "not for every change"
    layout.look(13_000_000, WIDTH_MIN)
    assert bounds(layout.partitions)[8:11] == [13_680_000, 13_690_000, 13_700_000]


def test_whatever_the_rate_does_no_message_reaches_the_last_partition_and_partitions_stay_few():
    """Every look may find a thousand times as many ids as the one before. A partition is in proportion to what came."""
    random = Random(7)
    for _ in range(50):
        layout, next_id, history = Layout(), 1, [0]
        for _ in range(120):
            taken = random.choice([0, 10, 3_000, 9_000, 50_000, 400_000, 3_000_000])
            next_id += taken
            history.append(taken)
            assert layout.width_at(next_id) <= 3 * sum(history) + 2 * WIDTH_MIN
            layout.look(next_id, wanted_width(sum(history[-10:]), next_id))
            assert current(layout.partitions, next_id) < len(layout.partitions) - 2
        assert len(layout.partitions) < 1_500


def test_a_table_of_a_user_goes_on_where_it_ended():
    mine = (Partition("P200", 100), Partition("b", 190))
    made = division(mine, 150, 10)
    assert (made.old, bounds(made.new)[:2], made.new[-1].name) == ((), [200, 210], "pmax")
    assert made.new[0].name == "p200_", "names are compared without case"
    assert bounds(division(mine, 400, 10).new)[0] == 410, "ids that no partition has are refused until then"
    only = (Partition("all", None),)
    assert division(only, 1, 10) is None
    made = division_of_last(only, 51, 10)
    assert (made.old, bounds(made.new)[:2], made.new[-1]) == (("all",), [61, 71], Partition("all", None))


def test_partitions_as_the_server_tells_of_them():
    assert read_partitions([("a", "10"), ("b", b"20".decode()), ("c", "MAXVALUE")]) == (
        Partition("a", 10),
        Partition("b", 20),
        Partition("c", None),
    )
    assert by_hand(QueueName("main", "t"), 51).startswith(
        "ALTER TABLE `main`.`t` PARTITION BY RANGE (id) (PARTITION `p0`"
    )


def test_the_width_and_the_grace():
    assert wanted_width(5, 5) == WIDTH_MIN
    assert wanted_width(70_000, 5) == 70_000
    assert wanted_width(5, 50_000_000) == 50_000, "not more than a thousand partitions, about"
    grace = grace_of(3, 10_000)
    assert (grace.nanoseconds, grace.ids) == (6, 20_000)


def test_what_a_group_loses_is_counted_message_by_message():
    """Against a count by hand."""
    random = Random(3)
    for _ in range(3_000):
        bound = random.randint(2, 40)
        ids = [id_ for id_ in range(1, bound) if random.random() < 0.6]
        cut = random.randint(1, 7)
        parts = [ids[start : start + cut] for start in range(0, len(ids), cut)]
        pages = [CountedPage(part[0], part[-1], len(part)) for part in parts]
        position = some_position(random, bound)
        found = unread(pages, position, bound)
        within = sum(id_ in ids for one in found.ranges for id_ in range(one.first, one.last + 1))
        assert found.counted + within == position.unread(ids)


def some_position(random: Random, bound: int) -> GroupPosition:
    offset = random.randint(0, bound + 5)
    edges = sorted(random.sample(range(1, offset + 1), 2 * random.randint(0, min(3, offset // 2))))
    holes = tuple(Hole(first, last, 0) for first, last in zip(edges[::2], edges[1::2], strict=True))
    return GroupPosition(offset, offset, holes)


def test_a_group_is_moved_past_a_partition_and_keeps_its_other_holes():
    position = GroupPosition(25, 30, (Hole(3, 5, 0), Hole(8, 12, 0), Hole(15, 16, 0)))
    assert moved_past(position, 10) == replace(position, holes=(Hole(10, 12, 0), Hole(15, 16, 0)))
    assert moved_past(GroupPosition(4, 4, (Hole(2, 2, 0),)), 10) == GroupPosition(9, 9)


@pytest.mark.parametrize(
    "given",
    [
        {"partition": "1d"},
        {"partition": "59s", "retain": "1d"},
        {"partition": "1m", "retain": "2d"},
        {"partition": "1d", "retain": "7d", "compact": "k"},
    ],
)
def test_options_that_do_not_go_together(given):
    with pytest.raises(InvalidOption, match="partition"):
        parse_topic_options(given)


def test_the_option_is_kept():
    options = parse_topic_options({"partition": "1d", "retain_rows": 5})
    assert options.partition_ns == 86_400 * NS_PER_SECOND
    assert options.items == {"retain_rows": "5", "partition": "86400s"}
    with pytest.raises(InvalidOption):
        parse_topic_options({"retain_rows": None}, options)
