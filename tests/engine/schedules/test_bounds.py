"""What the schedules of one database may cost others (engine.schedules.bounds)."""

from __future__ import annotations

from engine.schedules.bounds import FewLines, Room


def test_so_many_at_once_and_then_so_many_a_second():
    room = Room(1000, 100, 0.0)
    assert room.left(0.0) == 1000
    room.take(1000)
    assert [room.left(now) for now in (0.0, 0.5, 1.0)] == [0, 50, 100]
    room.take(100)
    assert room.left(1.0) == 0
    assert room.left(1000.0) == 1000  # no more is saved up
    assert room.left(999.0) == 1000  # a clock that goes back takes nothing


def test_a_few_lines_and_then_their_number():
    lines = FewLines(2, 60.0)
    assert [lines.add(now) for now in (0.0, 1.0, 2.0, 3.0)] == [True, True, False, False]
    assert (lines.rest(59.0), lines.wait(59.0)) == (0, 1.0)
    assert lines.rest(60.0) == 2
    assert lines.wait(60.0) is None
    assert not lines.add(61.0)  # the number was the line of this period
    assert lines.rest(119.0) == 0
    assert lines.rest(120.0) == 1
    assert lines.add(180.0)


def test_a_line_now_and_then_is_never_held_back():
    lines = FewLines(2, 60.0)
    assert all(lines.add(30.0 * turn) for turn in range(20))
