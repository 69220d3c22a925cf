"""When schedules tick, through both changes of the clocks, and what becomes of missed ticks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.errors import EngineError, InvalidOption
from engine.model.schedules import Cron, Every, Missed
from engine.schedules import ticks
from engine.schedules.ticks import LATE_NS, MADE_UP_MAX, check_rule, due, next_tick

NS = 1_000_000_000
MINUTE, HOUR, DAY = 60 * NS, 3600 * NS, 86400 * NS

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
CHANGES = [
    (BERLIN, "2026-03-29 01:00"),
    (BERLIN, "2026-10-25 01:00"),
    (NEW_YORK, "2026-03-08 07:00"),
    (NEW_YORK, "2026-11-01 06:00"),
    (LORD_HOWE, "2026-10-03 15:30"),
    (LORD_HOWE, "2026-04-04 15:00"),
]
"""The moments, in UTC, at which clocks are changed in 2026: forward and back."""


def ns(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * NS


def texts(moments):
    return [datetime.fromtimestamp(tick // NS, UTC).strftime("%m-%d %H:%M") for tick in moments]


def ticks_after(rule, after_ns, count):
    found = [after_ns]
    while len(found) <= count:
        found.append(next_tick(rule, found[-1]))
    return found[1:]


@pytest.mark.parametrize(
    ("zone", "after", "rule", "wanted"),
    [
        # forward: a time that is skipped is made up for at the moment of the change, once
        (BERLIN, "2026-03-28 12:00", "30 2 * * *", ["03-29 01:00", "03-30 00:30"]),
        (BERLIN, "2026-03-28 12:00", "0,20,40 2 * * *", ["03-29 01:00", "03-30 00:00", "03-30 00:20"]),
        (BERLIN, "2026-03-28 12:00", "0 2,3 * * *", ["03-29 01:00", "03-30 00:00", "03-30 01:00"]),
        (BERLIN, "2026-03-28 12:00", "59 1 * * *", ["03-29 00:59", "03-29 23:59"]),
        (NEW_YORK, "2026-03-07 12:00", "30 2 * * *", ["03-08 07:00", "03-09 06:30"]),
        (LORD_HOWE, "2026-10-02 16:00", "15 2 * * *", ["10-03 15:30", "10-04 15:15"]),
        (LORD_HOWE, "2026-10-02 17:00", "45 2 * * *", ["10-03 15:45", "10-04 15:45"]),
        # forward: a rule of every hour follows the clock on the wall
        (BERLIN, "2026-03-29 00:30", "0 * * * *", ["03-29 01:00", "03-29 02:00"]),
        (BERLIN, "2026-03-28 22:30", "0 */2 * * *", ["03-28 23:00", "03-29 02:00", "03-29 04:00"]),
        (BERLIN, "2026-03-29 00:30", "*/30 2 * * *", ["03-30 00:00", "03-30 00:30"]),
        (LORD_HOWE, "2026-10-03 14:00", "0 * * * *", ["10-03 14:30", "10-03 16:00"]),
        # back: of a time that comes twice the first counts
        (BERLIN, "2026-10-24 12:00", "30 2 * * *", ["10-25 00:30", "10-26 01:30"]),
        (BERLIN, "2026-10-25 00:45", "30 2 * * *", ["10-26 01:30"]),
        (BERLIN, "2026-10-25 01:10", "30 2 * * *", ["10-26 01:30"]),
        (BERLIN, "2026-10-24 12:00", "0 3 * * *", ["10-25 02:00", "10-26 02:00"]),
        (NEW_YORK, "2026-10-31 12:00", "30 1 * * *", ["11-01 05:30", "11-02 06:30"]),
        (LORD_HOWE, "2026-04-04 00:00", "45 1 * * *", ["04-04 14:45", "04-05 15:15"]),
        # back: a rule of every hour ticks in both
        (BERLIN, "2026-10-24 23:30", "0 * * * *", ["10-25 00:00", "10-25 01:00", "10-25 02:00"]),
        (BERLIN, "2026-10-25 00:20", "*/30 * * * *", ["10-25 00:30", "10-25 01:00", "10-25 01:30", "10-25 02:00"]),
        (LORD_HOWE, "2026-04-04 14:30", "*/20 * * * *", ["04-04 14:40", "04-04 15:10", "04-04 15:30", "04-04 15:50"]),
        (LORD_HOWE, "2026-04-04 13:30", "0 */2 * * *", ["04-04 15:30", "04-04 17:30"]),
        # words, the end of a month, days of the week
        ("UTC", "2026-01-30 00:00", "0 6 L * *", ["01-31 06:00", "02-28 06:00"]),
        ("UTC", "2026-01-01 00:00", "@daily", ["01-02 00:00", "01-03 00:00"]),
        ("UTC", "2026-01-02 00:00", "0 9 * * MON-FRI", ["01-02 09:00", "01-05 09:00"]),
    ],
)
def test_ticks_of_cron(zone, after, rule, wanted):
    assert texts(ticks_after(Cron(rule, zone), ns(after), len(wanted))) == wanted


def walls(rule, first, last):
    """The times of a rule between two, on a clock that is never changed."""
    found = set()
    for time in CronSim(rule, first - timedelta(minutes=1)):
        if time > last:
            return found
        found.add(time)
    return found


FIELDS = st.sampled_from(["*", "*/20", "0", "15", "30", "45", "0,30", "5-50/15"])
HOURS = st.sampled_from(["*", "*/2", "*/3", "0", "1", "2", "3", "1-3", "2,3"])


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(CHANGES), FIELDS, HOURS)
def test_around_a_change_as_counted_minute_by_minute(change, minute, hour):
    """By another way: each minute of two days is looked at."""
    zone, moment = ZoneInfo(change[0]), datetime.fromisoformat(change[1]).replace(tzinfo=UTC)
    begin, rule = moment - timedelta(hours=24), f"{minute} {hour} * * *"
    minutes = [begin + timedelta(minutes=n) for n in range(48 * 60)]
    local = {at: at.astimezone(zone).replace(tzinfo=None) for at in minutes}
    wanted_walls = walls(rule, local[minutes[0]] - timedelta(hours=3), local[minutes[-1]])
    matching = [at for at in minutes if local[at] in wanted_walls]
    if minute[0] != "*" and hour[0] != "*":
        seen, expected = set(), set()
        for at in matching:  # of a time that comes twice the first
            if local[at] not in seen:
                expected.add(at)
            seen.add(local[at])
        skipped = {w for w in wanted_walls if w not in set(local.values()) and w > local[minutes[0]]}
        if skipped:
            expected.add(moment)
    else:
        expected = set(matching)
    found, tick = [], int(begin.timestamp()) * NS - 1
    while (tick := next_tick(Cron(rule, change[0]), tick)) <= int(minutes[-1].timestamp()) * NS:
        found.append(datetime.fromtimestamp(tick // NS, UTC))
    assert found == sorted(expected)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(CHANGES), FIELDS, HOURS, st.integers(-8 * 3600, 8 * 3600), st.integers(0, NS - 1))
def test_from_wherever_one_asks_the_ticks_are_the_same(change, minute, hour, offset, part):
    rule, at = Cron(f"{minute} {hour} * * *", change[0]), ns(change[1]) + offset * NS + part
    first = next_tick(rule, ns(change[1]) - 2 * DAY)
    while first <= at:
        first = next_tick(rule, first)
    assert next_tick(rule, at) == first


@settings(max_examples=300)
@given(st.text("0123456789*,-/#LW MONJAN@?", max_size=30))
def test_whatever_is_no_rule_is_refused_as_that(text):
    try:
        check_rule(Cron(text, "UTC"))
    except InvalidOption as error:
        assert error.errno == 1231


@pytest.mark.parametrize(
    "zone", ["", "Mars/Olympus", "../etc/passwd", "Europe", "/etc/localtime", "Europe/Berlin\0", "é"]
)
def test_what_is_no_time_zone_is_refused_as_that(zone):
    with pytest.raises(EngineError) as caught:
        check_rule(Cron("0 2 * * *", zone))
    assert caught.value.errno == 1298


@given(st.integers(1, 10**7), st.integers(0, 10**19 // 2))
def test_every_is_aligned_to_the_epoch(seconds, after):
    tick = next_tick(Every(seconds * NS), after)
    assert tick % (seconds * NS) == 0 and after < tick <= after + seconds * NS


# --- missed ticks

NOW = ns("2026-06-01 12:00")


@pytest.mark.parametrize("missed", list(Missed))
def test_a_tick_that_is_a_little_late_is_sent_whatever_the_policy(missed):
    found = due(Every(10 * NS), missed, NOW - 30 * NS, NOW + 1)
    assert found.ticks == tuple(NOW - n * 10 * NS for n in (3, 2, 1, 0))
    assert (found.next_ns, found.missed) == (NOW + 10 * NS, 0)


@pytest.mark.parametrize("rule", [Every(HOUR), Cron("0 * * * *", "Europe/Berlin")])
def test_missed_ticks_by_the_policy(rule):
    now, first = NOW + 30 * MINUTE, NOW - 5 * HOUR
    skipped, once, all_ = (due(rule, missed, first, now) for missed in (Missed.SKIP, Missed.ONCE, Missed.ALL))
    assert skipped.ticks == ()
    assert once.ticks == (NOW,)
    assert all_.ticks == tuple(first + n * HOUR for n in range(6))
    assert {found.next_ns for found in (skipped, once, all_)} == {NOW + HOUR}
    assert {found.missed for found in (skipped, once, all_)} == {6}


@pytest.mark.parametrize("rule", [Every(MINUTE), Cron("* * * * *", "Europe/Berlin")])
def test_of_very_many_missed_ticks_the_last_thousand_are_made_up_for(rule):
    found = due(rule, Missed.ALL, NOW - 3650 * DAY, NOW + 30 * NS)
    assert len(found.ticks) == MADE_UP_MAX + 1
    assert found.ticks[-1] == NOW and found.ticks == tuple(sorted(found.ticks))
    assert found.ticks[0] == NOW - MADE_UP_MAX * MINUTE


@pytest.mark.parametrize("missed", list(Missed))
@pytest.mark.parametrize("rule", [Every(HOUR), Cron("0 * * * *", "UTC")])
def test_before_its_tick_nothing_is_due(rule, missed):
    assert due(rule, missed, NOW, NOW - 1) == due(rule, missed, NOW, NOW - DAY)
    found = due(rule, missed, NOW, NOW - 1)
    assert (found.ticks, found.next_ns) == ((), NOW)
    assert due(rule, missed, NOW, NOW).ticks == (NOW,)


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from([Every(NS), Every(7 * NS), Every(HOUR), Cron("*/5 * * * *", BERLIN), Cron("30 2 * * *", BERLIN)]),
    st.lists(st.integers(1, 90_000), min_size=1, max_size=12),
)
def test_however_often_it_is_looked_at_each_tick_is_sent_once(rule, pauses):
    """In time, late or missed with `all`: as long as no more are missed than are made up for."""
    begin = now = ns("2026-03-28 20:00")
    next_ns, sent = next_tick(rule, begin), []
    for pause in pauses:
        now += pause * NS if not isinstance(rule, Every) or rule.ns >= HOUR else pause % 900 * NS
        found = due(rule, Missed.ALL, next_ns, now)
        sent += found.ticks
        next_ns = found.next_ns
    wanted, tick = [], begin
    while (tick := next_tick(rule, tick)) <= now:
        wanted.append(tick)
    assert sent == wanted


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(CHANGES), st.sampled_from(["*/20", "30", "0,30"]), HOURS, st.integers(0, 30), st.integers(0, 30))
def test_what_was_missed_around_a_change_is_what_would_have_been_sent(change, minute, hour, before, after):
    rule, now = Cron(f"{minute} {hour} * * *", change[0]), ns(change[1]) + after * HOUR + 17 * MINUTE
    wanted = [next_tick(rule, ns(change[1]) - before * HOUR - 7 * MINUTE)]
    while wanted[-1] <= now:
        wanted.append(next_tick(rule, wanted[-1]))
    found = due(rule, Missed.ALL, wanted[0], now)
    assert [*found.ticks, found.next_ns] == wanted


@pytest.mark.parametrize("text", ["* * * * *", "0 2 * * *"])
def test_a_rule_is_read_once_for_all_that_was_missed(text, monkeypatch):
    """And not once for each tick: the event loop does this."""
    made = []
    monkeypatch.setattr(ticks, "CronSim", lambda *rest: made.append(rest) or CronSim(*rest))
    assert len(due(Cron(text, BERLIN), Missed.ALL, NOW - 3650 * DAY, NOW).ticks) >= MADE_UP_MAX
    assert len(made) == 2


def test_a_time_that_somebody_wrote_is_a_tick_of_its_own():
    found = due(Every(HOUR), Missed.ALL, NOW - 90 * MINUTE, NOW)
    assert found.ticks == (NOW - 90 * MINUTE, NOW - HOUR, NOW)
    assert due(Every(HOUR), Missed.ONCE, 0, NOW + LATE_NS).ticks == (NOW,)
