"""A report's arithmetic, its shapes (text, JSON, rows), and its page, which asks nobody for anything."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from spark_connector.jobs.report.page import page
from spark_connector.jobs.report.text import duration, text
from spark_connector.jobs.report.values import (
    NS,
    Counted,
    Coverage,
    GroupSummary,
    Latency,
    QueueReport,
    QueueSummary,
    Rate,
    Report,
    TopicReport,
    as_data,
    bucket_for,
    histogram,
    measures,
    rates,
    top,
)

MINUTE = 60 * NS
EVER = Coverage(0, 2**62)
DETAIL = QueueReport(
    "orders",
    ("its table", "its archive"),
    {"ready": 5, "in_flight": 1, "retrying": 0, "scheduled": 2, "parked": 0, "acked": 8400, "archived": 1234567},
    37,
    262.5,
    (Latency("due", 1234567, 0.012, 0.34, 4.2, 733.0),),
    ((0, 7), (1, 1234560)),
    (Counted("HTTP 429 <script>alert(1)</script>", 812),),
    "minute",
    tuple(Rate(minute * MINUTE, minute, minute // 2) for minute in range(100)),
    Coverage(0, 100 * MINUTE),
)
QUEUES = (QueueSummary("orders", 5, 1, 0, 2, 9, 37, 262.5), QueueSummary("mails", 0, 0, 0, 0, 0, 0, None))
REPORT = Report(1767225600 * NS, "shop", QUEUES, DETAIL)


@pytest.mark.parametrize(
    ("seconds", "bucket"), [(0, "minute"), (7200, "minute"), (7261, "hour"), (5 * 86400, "hour"), (6 * 86400, "day")]
)
def test_a_rate_is_over_the_smallest_time_that_can_be_plotted(seconds, bucket):
    assert bucket_for(10, 10 + seconds * NS) == bucket
    assert bucket_for(10, 10 + seconds * NS, "hour") == "hour"


def test_rates_have_no_gaps_and_an_end():
    assert rates({}, {}, "minute", EVER) == ()
    assert rates({3: 5}, {5: 2}, "minute", EVER) == (
        Rate(3 * MINUTE, 5, 0),
        Rate(4 * MINUTE, 0, 0),
        Rate(5 * MINUTE, 0, 2),
    )
    assert len(rates({0: 1}, {10**7: 1}, "minute", EVER)) == 1201


def test_a_rate_over_time_that_is_not_wholly_known_is_incomplete():
    known = Coverage(4 * MINUTE - 20 * NS, 6 * MINUTE + 1)
    found = rates({3: 5, 4: 1, 5: 1, 6: 1}, {}, "minute", known)
    assert [rate.complete for rate in found] == [False, True, True, False]
    assert [rate.complete for rate in rates({3: 5, 5: 1}, {}, "minute", Coverage(3 * MINUTE, 6 * MINUTE))] == [True] * 3


def test_a_histogram_has_no_gaps_and_an_end():
    assert histogram({}) == ()
    assert histogram({0: 1, 3: 2}) == ((0, 1), (1, 0), (2, 0), (3, 2))
    assert histogram({9: 1, 10: 2, 500: 4})[-2:] == ((9, 1), (10, 6))


def test_the_most_frequent_come_first():
    assert top({"b": 2, "a": 2, "c": 9}, 2) == (Counted("c", 9), Counted("a", 2))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "-"), (0.0123, "12 ms"), (3.44, "3.4 s"), (320, "5 m 20 s"), (7380, "2 h 3 m"), (349_200, "4 d 1 h")],
)
def test_durations_as_people_say_them(seconds, said):
    assert duration(seconds) == said


def test_the_text_has_every_part():
    said = text(REPORT)
    for part in (
        "1,234,567",
        "4 m 22 s",
        "12 ms",
        "HTTP 429",
        "its table, its archive",
        "1970-01-01 01:39",
        "dead letters: 37",
    ):
        assert part in said, part
    assert all(line == line.rstrip() for line in said.splitlines())


def cut(counts, first_complete=True, last_complete=False):
    """The report with as many enqueued per minute; the ends of the row may be incomplete."""
    complete = [True] * len(counts)
    complete[0], complete[-1] = first_complete, last_complete
    made = tuple(Rate(n * MINUTE, count, 0, complete[n]) for n, count in enumerate(counts))
    return replace(REPORT, queue=replace(DETAIL, rates=made, known=Coverage(30 * NS, len(counts) * MINUTE - 30 * NS)))


def test_incomplete_ends_are_marked_in_the_text():
    said = text(cut([7, 50, 51, 8], first_complete=False)).splitlines()
    marked = [line.split()[:3] for line in said if line.startswith("1970") and "*" in line]
    assert marked == [["1970-01-01", "00:00", "*"], ["1970-01-01", "00:03", "*"]]
    assert said[-1] == ("* incomplete: all messages are known from 1970-01-01 00:00:30 to 1970-01-01 00:03:30 UTC only")
    assert "*" not in text(REPORT)


def test_incomplete_ends_are_not_plotted_where_enough_is_left():
    made = page(cut([71111, 50, 51, 82222], first_complete=False))
    assert "71,111" not in made and "82,222" not in made
    assert "2 incomplete minutes are left out (153,333 enqueued, 0 acked): all messages are known from" in made
    few = page(cut([71111, 50, 82222], first_complete=False))
    assert "71,111" in few and "82,222" in few
    assert "Not all of these are complete: all messages are known from" in few
    assert "incomplete" not in page(REPORT) and "Not all of these" not in page(REPORT)


def test_incomplete_ends_are_rows_of_their_own_name():
    rows = [(r.name, r.value) for r in measures(cut([7, 50, 8], first_complete=False)) if r.section == "enqueued"]
    assert rows == [("minute_incomplete", 7.0), ("minute", 50.0), ("minute_incomplete", 8.0)]


def test_queues_that_are_not_counted_to_the_end_are_marked():
    queues = (replace(QUEUES[0], ready=1_000_000, exact=False), QUEUES[1])
    for said in (text(replace(REPORT, queues=queues)), page(replace(REPORT, queues=queues))):
        assert "orders *" in said
        assert "at least: of each state a million messages are counted" in said


def test_the_page_has_a_tile_for_dead_letters_and_one_for_the_archive():
    made = page(REPORT)
    assert "<b>37</b><span>dead letters</span>" in made
    assert "<b>8,400</b><span>acked</span>" in made
    assert "<b>1,234,567</b><span>archived</span>" in made


def test_json_is_the_report():
    data = json.loads(json.dumps(as_data(REPORT)))
    assert data["queue"]["states"]["archived"] == 1234567
    assert data["queues"][1]["oldest_ready"] is None


def test_rows_have_every_number_once():
    rows = list(measures(REPORT))
    assert len({(r.section, r.queue, r.name, r.at) for r in rows}) == len(rows)
    assert sum(r.value for r in rows if r.section == "acked") == sum(r.acked for r in DETAIL.rates)


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.addresses, self.seen = [], [], set()

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        self.addresses += [v for k, v in attributes if k in ("src", "href", "xlink:href", "data") and v]
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_asks_nobody_for_anything():
    made = page(REPORT)
    tags = Tags()
    tags.feed(made)
    assert tags.open == []
    assert tags.addresses == []
    assert made.count("<svg") == 4
    assert "script" not in tags.seen
    assert "&lt;script&gt;alert(1)" in made
    assert "@import" not in made
    assert "1,234,567" in made


@pytest.mark.parametrize("count", [1, 2, 30, 31, 1201])
def test_few_rates_are_bars_and_many_a_line(count):
    few = replace(DETAIL, rates=tuple(Rate(minute * MINUTE, 5, 3) for minute in range(count)))
    made = page(replace(REPORT, queue=few))
    assert ("graph line-graph" in made) == (count > 30)


def test_the_page_of_a_database_without_messages():
    assert "mails" in page(Report(0, "shop", (QueueSummary("mails", 0, 0, 0, 0, 0, 0, None),), None))


# --- topics and groups

GROUPS = (
    GroupSummary("orders", "billing", "orders_group_billing", 900, 12345, 0, 3, 2, 1, 4),
    GroupSummary("orders", "<b>", "orders_group_b", 0, 1_000_000, 7, 0, 0, 0, 0, exact=False),
)
LOG = TopicReport(
    "orders", 1000, 901, 1900, 3600.0, "minute",
    tuple(Rate(minute * MINUTE, minute + 1, 0, complete=minute > 0) for minute in range(5)),
    Coverage(30 * NS, 5 * MINUTE),
)  # fmt: skip
TOPICS = Report(1767225600 * NS, "shop", QUEUES, None, GROUPS, LOG)


def test_a_topic_and_its_groups_as_text():
    said = text(TOPICS)
    assert "Topic orders" in said and "messages: 1,000" in said and "ids: 901 to 1,900" in said
    assert "oldest: 1 h 0 m" in said
    assert [line.split() for line in said.splitlines() if line.startswith("orders ") and "billing" in line] == [
        ["orders", "billing", "900", "12,345", "0", "3", "2", "1", "4"]
    ]
    assert "<b> *" in said and "* at least" in said
    assert "written" in said and "1970-01-01 00:00 *" in said and "acked" not in said.split("Topic orders")[1]


def test_a_topic_without_messages_as_text():
    empty = TopicReport("orders", 0, None, None, None, "minute", (), Coverage(0, 0))
    assert "ids: -" in text(replace(TOPICS, topic=empty))


def test_a_topic_and_its_groups_as_rows_and_data():
    rows = {(row.section, row.queue, row.name): row.value for row in measures(TOPICS) if row.section != "enqueued"}
    assert rows["groups", "orders_group_billing", "unread"] == 12345.0
    assert rows["groups", "orders_group_b", "lost"] == 7.0
    assert rows["topic", "orders", "messages"] == 1000.0
    assert rows["topic", "orders", "last_id"] == 1900.0
    written = [row for row in measures(TOPICS) if row.section == "enqueued"]
    assert [(row.name, row.value) for row in written][:2] == [("minute_incomplete", 1.0), ("minute", 2.0)]
    data = json.loads(json.dumps(as_data(TOPICS)))
    assert data["topic"]["messages"] == 1000 and data["groups"][0]["group"] == "billing"


def test_a_topic_and_its_groups_on_a_page():
    made = page(TOPICS)
    assert "<title>Topic orders</title>" in made and "Consumer groups" in made and "12,345" in made
    assert "&lt;b&gt; *" in made and "<b> *" not in made
    assert "an incomplete minute is left out" in made.lower() and "1 written" in made
