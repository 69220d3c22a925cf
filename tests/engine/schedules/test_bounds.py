"""What the schedules of one database may cost others (engine.schedules.bounds)."""

from __future__ import annotations

from engine.schedules.bounds import LogRateLimiter, TokenBucket


def test_so_many_at_once_and_then_so_many_a_second():
    room = TokenBucket(1000, 100, 0.0)
    assert room.available(0.0) == 1000
    room.take(1000)
    assert [room.available(now) for now in (0.0, 0.5, 1.0)] == [0, 50, 100]
    room.take(100)
    assert room.available(1.0) == 0
    assert room.available(1000.0) == 1000  # no more is saved up
    assert room.available(999.0) == 1000  # a clock that goes back takes nothing


def test_a_few_lines_and_then_their_number():
    lines = LogRateLimiter(2, 60.0)
    assert [lines.allow(now) for now in (0.0, 1.0, 2.0, 3.0)] == [True, True, False, False]
    assert (lines.take_suppressed(59.0), lines.wait(59.0)) == (0, 1.0)
    assert lines.take_suppressed(60.0) == 2
    assert lines.wait(60.0) is None
    assert not lines.allow(61.0)  # the number was the line of this period
    assert lines.take_suppressed(119.0) == 0
    assert lines.take_suppressed(120.0) == 1
    assert lines.allow(180.0)


def test_a_line_now_and_then_is_never_held_back():
    lines = LogRateLimiter(2, 60.0)
    assert all(lines.allow(30.0 * turn) for turn in range(20))
