"""Frames of `queuegate top`: they fit, whatever is in them; rates come from counters."""

from __future__ import annotations

from typing import Any

import pytest

from queuegate.cli.names import QueueRef
from queuegate.cli.queue_figures import Figures, chosen, status_object, status_table
from queuegate.cli.tables import table, width
from queuegate.cli.top_frame import Style, View, ViewOptions, frame, in_order


def queue(name: str, *, database: str = "main", **given: Any) -> Figures:
    """A row of SHOW QUEUE STATUS, read."""
    row = {
        "Queue": name, "Database": database, "Paused": 0, "Subscribers": 1, "Ready": 0, "Scheduled": 0, "Retrying": 0,
        "In_flight": 0, "Parked": 0, "Unmatched": 0, "Acked": 0, "Dead": 0, "Oldest_ready_age": None,
        "Counted": "exact", "Alarms": 0, "Enqueued_total": 0, "Acked_total": 0, "Problem": None, **given,
    }  # fmt: skip
    return Figures.of_row(row)


BROKEN = Figures.of_row(
    dict.fromkeys(
        ("Paused", "Subscribers", "Ready", "Scheduled", "Retrying", "In_flight", "Parked", "Unmatched", "Acked", "Dead",
         "Oldest_ready_age", "Counted", "Alarms", "Enqueued_total", "Acked_total")
    ) | {"Queue": "broken", "Database": "main", "Problem": "no column \x1b[2J id"}
)  # fmt: skip


def view(*queues: Figures) -> View:
    return View("127.0.0.1:3307", 2.0).polled(queues, 100.0)


def lines(polled: View, view_options: ViewOptions | None = None, size: tuple[int, int] = (80, 24)) -> list[str]:
    return [line.text for line in frame(polled, view_options or ViewOptions(), *size, now=103.0, clock="12:00:00")]


HOSTILE = [queue(name, Ready=10**17, Dead=10**9, In_flight=7, Oldest_ready_age=1e8) for name in (
    "q", "x" * 64, "日本" * 32, "\x1b[31m\n", "`; DROP")]  # fmt: skip


@pytest.mark.parametrize("size", [(80, 24), (40, 6), (61, 10), (72, 8), (200, 60), (10, 3), (1, 1)])
@pytest.mark.parametrize("queues", [[], HOSTILE, [*HOSTILE, BROKEN] * 10], ids=["none", "few", "many"])
def test_a_frame_fits(size, queues):
    for polled in (view(*queues), view(*queues).failed("gone \x1b[2J " * 30), View("h" * 300, 2.0)):
        made = lines(polled, ViewOptions(first=1000), size)
        assert len(made) <= size[1]
        assert all(width(line) <= size[0] and line.isprintable() for line in made)


def test_a_frame_of_80_columns():
    polled = view(queue("jobs", Ready=3, Enqueued_total=10), queue("mails", Dead=2, Paused=1))
    polled = polled.polled(
        [queue("jobs", Ready=1234567, Oldest_ready_age=75.0, Enqueued_total=30, Acked_total=5, Counted="at least"),
         queue("mails", Dead=2, Paused=1)],
        102.0,
    )  # fmt: skip
    made = lines(polled)
    assert made[:6] == [
        "queuegate 127.0.0.1:3307  2 queues by ready, every 2 s                  12:00:00",
        "ready 1234567  in flight 0  later 0  dead 2  receivers 2  enq/s 10.0  ack/s 2.5",
        "",
        "QUEUE                 READY FLIGHT  LATER  DEAD RECV OLDEST  ENQ/S  ACK/S STATE",
        "jobs                  1.2M+      0      0     0    1  1m15s   10.0    2.5",
        "mails                     0      0      0     2    1      -      0      0 paused",
    ]
    assert len(made) == 24
    assert made[-1].startswith("q quit")


def test_the_lag_of_groups_is_a_column_where_there_are_groups():
    queues = [queue("jobs"), queue("audit_group", Unread=1234567, Receivers=3)]
    made = lines(view(*queues), ViewOptions("lag"))
    assert made[3] == "QUEUE          READY    LAG FLIGHT  LATER  DEAD RECV OLDEST  ENQ/S  ACK/S STATE"
    assert made[4].split()[:4] == ["audit_group", "0", "1.2M", "0"] and made[5].split()[:4] == ["jobs", "0", "-", "0"]
    titles, rows, _ = status_table(queues)
    assert [row[titles.index("LAG")] for row in rows] == ["-", "1234567"]
    assert [row[titles.index("RECEIVERS")] for row in rows] == ["1", "3"]


def test_a_counter_that_begins_anew_has_no_rate():
    polled = view(queue("q", Enqueued_total=10)).polled([queue("q", Enqueued_total=3, Acked_total=4)], 102.0)
    assert polled.rates[QueueRef("q", "main")].enqueued is None
    assert polled.rates[QueueRef("q", "main")].acked == 2.0
    assert polled.polled([queue("new")], 104.0).rates[QueueRef("new", "main")].acked is None


def test_a_proxy_that_is_lost_is_said_to_be():
    polled = view(queue("q", Ready=3)).failed("ERROR 2013 (HY000): Lost connection")
    made = frame(polled, ViewOptions(), 80, 24, now=103.0, clock="")
    assert made[1].text == "LOST, numbers are 3s old; trying again: ERROR 2013 (HY000): Lost connection"
    assert made[1].style is Style.BAD
    assert "q " in made[4].text
    assert lines(polled.polled([queue("q")], 104.0))[1].startswith("ready 0")


def test_orders():
    polled = view(queue("a", Ready=1), queue("b", Ready=2, Dead=1), BROKEN, queue("c", Ready=2))
    names = lambda view_options: [q.name.table for q in in_order(polled, view_options)]  # noqa: E731
    assert names(ViewOptions("ready")) == ["b", "c", "a", "broken"]
    assert names(ViewOptions("ready", reverse=True)) == ["broken", "a", "c", "b"]
    assert names(ViewOptions("dead")) == ["b", "a", "c", "broken"]
    assert names(ViewOptions("name")) == ["a", "b", "broken", "c"]


def test_what_does_not_fit_is_scrolled_to():
    polled = view(*(queue(f"q{n:02}") for n in range(30)))
    assert lines(polled)[4].startswith("q00") and lines(polled)[-1].startswith("1-19 of 30")
    assert lines(polled, ViewOptions(first=11))[4].startswith("q11") and lines(polled, ViewOptions(first=99))[
        -1
    ].startswith("12-30")


def test_status_says_what_there_is_to_say():
    queues = [queue("a", Ready=5, Counted="at least", Paused=1, Alarms=2, Parked=1), BROKEN, queue("a", database="b")]
    titles, rows, right = status_table(queues)
    made = table(titles, rows, right=right).splitlines()
    assert made[1].split()[:2] == ["main.a", "5+"]
    assert made[1].endswith("paused, alarms: 2, parked: 1")
    assert made[2].split()[:6] == ["main.broken", "-", "-", "-", "-", "-"]
    assert made[2].endswith("problem: no column \\x1b[2J id")
    assert status_object(BROKEN)["ready"] is None and status_object(BROKEN)["totals"] == {}


def test_names_choose_queues():
    known = [queue("a"), queue("B"), queue("a", database="other")]
    assert [str(q.name) for q in chosen(known, [QueueRef("b"), QueueRef("a")])] == ["main.B", "main.a", "other.a"]
    assert chosen(known, [QueueRef("a", "none")], strict=False) == []
