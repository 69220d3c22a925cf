"""What the first screen says of four troubles: each as one sentence, before all tables, and where it leads.

With two proxies: tests/browser/test_two_proxies_on_a_screen.py.
"""

from __future__ import annotations

import re

import pytest

# The pages are the same on all backends.
pytestmark = [pytest.mark.parametrize("place", ["embedded"], indirect=True), pytest.mark.long]


def sentence(page, name, words):
    """The link with these words, in the line of that queue or group among what needs attention."""
    page.goto("/")
    attention = page.get_by_role("list", name="What needs attention")
    line = attention.get_by_role("listitem").filter(has_text=name)
    link = line.get_by_role("link", name=re.compile(words))
    link.wait_for()
    box = link.bounding_box()
    assert box is not None and box["height"] < 40, "one line"
    assert box["y"] < 800, "on the first screen"
    return link


def test_a_worker_that_is_saturated(person, queue, sql, stream):
    q, page = queue(), person()
    sql(f"INSERT INTO {q} (payload) VALUES ('1'), ('2'), ('3'), ('4'), ('5')")
    stream(f"SELECT id FROM STREAM {q} WITH (consumer = 'mailer-3', prefetch = 2, ack_wait = '1h')").wait(2)
    sentence(page, q, r"^all receivers are full: 3 ready for \d+ s, 2 in flight$").click()
    page.get_by_role("row").filter(has_text="mailer-3").get_by_text("prefetch limit reached: waits for acks").wait_for()


def test_a_poller_that_is_saturated(person, queue, sql):
    q, page = queue(), person()
    sql(f"INSERT INTO {q} (payload) VALUES ('1'), ('2'), ('3')")
    held = sql.column(f"SELECT id FROM STREAM {q} LIMIT 2 WAIT 10 WITH (consumer = 'worker-1', ack_wait = '1h')")
    assert len(held) == 2
    sentence(page, q, r"^all receivers are busy: 1 ready for \d+ s, 2 in flight$")


def test_a_group_that_lags(person, topic, sql, stream):
    t, page = topic(billing="START AT EARLIEST"), person()
    sql(f"INSERT INTO {t} (payload) VALUES {', '.join(['(1)'] * 20)}")
    member = stream(f"SELECT id FROM STREAM {t} WITH (group = 'billing', prefetch = 1, ack_wait = '1h')")
    member.wait(1)
    sentence(page, f"{t} group billing", r"^behind its topic: \d+ unread for \d+ s$")
    row = page.get_by_role("region", name="Topics").get_by_role("row").filter(has=page.get_by_text("billing"))
    assert row.count() == 1, "a group is a line of its topic"
    assert page.get_by_role("region", name="Queues").get_by_text(f"{t}_group_billing").count() == 0


def test_a_receiver_that_is_dead(person, queue, sql, stream):
    q, page = queue(ack_wait="'2s'", min_backoff="'100ms'", max_backoff="'200ms'"), person()
    sql(f"INSERT INTO {q} (payload) VALUES ('1'), ('2')")
    stream(f"SELECT id FROM STREAM {q} WITH (consumer = 'mailer-3', prefetch = 2)").wait(4)  # and acks none
    sentence(page, q, r"^\d+ leases ran out: mailer-3 holds [12] and acked none$").click()
    page.get_by_role("row").filter(has_text="mailer-3").first.wait_for()


def test_a_queue_that_nobody_serves(person, queue, sql):
    q, page = queue(), person()
    sql(f"INSERT INTO {q} (payload) VALUES ('1'), ('2'), ('3')")
    sentence(page, q, r"^nobody receives: 3 ready").click()
    page.get_by_text("This account can see no open stream.").wait_for()


def test_a_queue_without_a_trouble_is_no_line(person, queue, sql, stream):
    q, page = queue(), person()
    stream(f"SELECT id FROM STREAM {q}")
    sql(f"INSERT INTO {q} (payload) VALUES ('1')")
    page.goto(f"/?filter={q}")
    row = page.get_by_role("region", name="Queues").get_by_role("row").filter(has_text=q)
    row.get_by_text("ok", exact=True).wait_for()
    assert page.get_by_role("list", name="What needs attention").count() == 0
    page.get_by_text("Nothing that matches the filter needs attention.").wait_for()


def test_times_are_shown_in_the_zone_in_which_they_are_typed(gate, person, queue, sql):
    q, page = queue(), person(zone="America/New_York")
    sql("SET time_zone = '+00:00'")
    sql(f"INSERT INTO {q} (payload) VALUES ('1') AT '2030-12-24 18:00:00'")
    page.goto(f"/queue?db={gate.database}&name={q}&state=scheduled")
    time = page.locator("tbody time").filter(has_text="2030-12-24 18:00:00 UTC").first
    time.wait_for()
    hint = time.get_attribute("title")
    assert hint is not None and "1:00:00" in hint and "your time" in hint
