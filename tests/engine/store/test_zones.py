"""Zones: what a clock shows, asked for once for each zone and day."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from engine.store.zones import Zone, Zones

_DAY = 86_400


class Asked:
    """Answers as a database would in that zone, and counts."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.statements: list[list[int]] = []

    def right(self, moment: int) -> int:
        offset = datetime.fromtimestamp(moment, ZoneInfo(self.name)).utcoffset()
        assert offset is not None
        return int(offset.total_seconds())

    async def __call__(self, moments):
        self.statements.append(list(moments))
        return [self.right(moment) for moment in moments]


def _at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    "name", ["Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Africa/Casablanca", "Pacific/Apia"]
)
async def test_every_moment_of_a_year_is_right(name):
    asked = Asked(name)
    zone = Zone(asked)
    for start in range(_at("2011-01-01"), _at("2012-01-02"), 400 * 1811):
        moments = range(start, start + 400 * 1811, 1811)
        await zone.load(moments)
        assert [zone.offset(moment) for moment in moments] == [asked.right(moment) for moment in moments]


async def test_a_day_is_asked_for_once():
    asked = Asked("Europe/Berlin")
    zone = Zone(asked)
    noon = _at("2026-05-01 12:00:00")
    for moment in range(noon, noon + 3600, 60):
        await zone.load([moment])
        assert zone.offset(moment) == 7200
    assert len(asked.statements) == 1


async def test_what_is_kept_is_bounded():
    asked = Asked("Europe/Berlin")
    zone = Zone(asked)
    for day in range(0, 24_000, 50):
        moments = [(day + one) * _DAY + 7 for one in range(50)]
        await zone.load(moments)
        assert [zone.offset(moment) for moment in moments] == [asked.right(moment) for moment in moments]
    assert len(zone._days) + len(zone._moments) < 11_000


async def test_nothing_beyond_what_a_timestamp_holds_is_asked_for():
    asked = Asked("UTC")
    zone = Zone(asked)
    await zone.load([(1 << 31) - 1])
    await zone.load([(1 << 32) - 1, 1])
    assert min(asked.statements[1]) == 1
    assert max(asked.statements[0]) == (1 << 31) - 1 and max(asked.statements[1]) == (1 << 32) - 1


async def test_an_offset_needs_nobody():
    zones = Zones(pool=None, dialect=None)
    for name, seconds in {
        "+05:45": 20700,
        "-03:30": -12600,
        "+00:00": 0,
        "UTC": 0,
        "-00:30": -1800,
        "+14:00": 50400,
    }.items():
        zone = zones.zone(name)
        await zone.load([5])
        assert zone.offset(5) == seconds
    assert zones.zone("SYSTEM") is zones.zone("SYSTEM")
