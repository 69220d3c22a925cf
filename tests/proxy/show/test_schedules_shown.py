"""Schedules as queuegate.schedules has them (proxy.show.schedule_status)."""

from __future__ import annotations

from collections import Counter

import pytest

from proxy.show.schedule_status import fair_share
from proxy.show.status_tables import SCHEDULES, Values


def rows(database: str, count: int) -> list[Values]:
    return [(f"s{number}", database, *(None,) * (len(SCHEDULES) - 2)) for number in range(count)]


def test_what_has_room_is_shown_as_it_is():
    found = rows("a", 6) + rows("b", 4)
    assert fair_share(found, 10) == found


@pytest.mark.parametrize("flood", [8, 100, 5000])
def test_a_flood_in_one_database_hides_no_other(flood):
    shown = fair_share(rows("flooded", flood) + rows("a", 2) + rows("b", 1), 10)
    assert len(shown) == 10 and Counter(row[1] for row in shown) == {"flooded": 7, "a": 2, "b": 1}
    (told,) = [row for row in shown if row[SCHEDULES.index(next(f for f in SCHEDULES if f.name == "problem"))]]
    assert told[0] == "" and f"{flood - 6} more are not shown here: SHOW SCHEDULES FROM flooded" in told


def test_of_many_databases_each_has_its_share():
    shown = fair_share([row for n in range(5) for row in rows(f"d{n}", 50)], 20)
    assert len(shown) <= 20 and Counter(row[1] for row in shown) == {f"d{n}": 4 for n in range(5)}
