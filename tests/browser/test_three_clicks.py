"""Ten tasks, each begun on the overview: none takes more than three clicks, and the browser counts them."""

from __future__ import annotations

import re

import pytest
from servers import wait_until

CLICKS_MAX = 3
COUNT = """
sessionStorage.setItem("clicks", sessionStorage.getItem("clicks") || "0");
document.addEventListener("click", event => {
  if (event.isTrusted) sessionStorage.setItem("clicks", String(Number(sessionStorage.getItem("clicks")) + 1));
}, true);
"""

# The pages are the same on all backends.
pytestmark = [pytest.mark.parametrize("place", ["embedded"], indirect=True), pytest.mark.long]


@pytest.fixture
def begin(person):
    """The overview, and how often was clicked since: by the browser's own count."""
    page = person()
    page.context.add_init_script(COUNT)

    def make(name):
        page.goto(f"/?filter={name}")
        page.evaluate("sessionStorage.setItem('clicks', '0')")
        return page

    yield make
    clicks = int(page.evaluate("sessionStorage.getItem('clicks')"))
    assert clicks <= CLICKS_MAX, f"{clicks} clicks"


@pytest.fixture
def failed(queue, sql):
    """A queue with two dead letters."""
    q = queue("payload VARCHAR(50)")
    sql(f"INSERT INTO {q} (payload) VALUES ('a'), ('b')")
    sql(f"REJECT {q} WHERE id > 0 REASON 'JSON: no field subject'")
    wait_until(lambda: not sql.value(f"SELECT COUNT(*) FROM {q}"), 20, "the dead letters to be moved")
    yield q
    sql(f"DROP QUEUE IF EXISTS {q}_dead")


@pytest.fixture
def grouped(topic, sql):
    """A topic with a group that has read nothing of five messages."""
    t = topic(billing="START AT EARLIEST")
    sql(f"INSERT INTO {t} (payload) VALUES (1), (2), (3), (4), (5)")
    return t


@pytest.fixture
def ticking(queue, sql):
    """A queue with a schedule."""
    q = queue("payload VARCHAR(50)")
    sql(f"CREATE SCHEDULE {q[:50]}_tick ON {q} CRON '0 0 29 2 *' (payload) VALUES ('now')")
    yield q
    sql(f"DROP SCHEDULE IF EXISTS {q[:50]}_tick")


def row(page, region, text):
    return page.get_by_role("region", name=region).get_by_role("row").filter(has_text=text).first


def test_find_what_failed_and_why(begin, failed):
    page = begin(failed)
    page.get_by_role("link", name="2 dead letters").first.click()
    line = row(page, "Errors", "JSON: no field subject")
    line.get_by_role("link", name=re.compile("^message ")).click()
    page.get_by_text("Its last error: JSON: no field subject").wait_for()


def test_find_what_failed_in_any_queue(begin, failed):
    page = begin(failed)
    page.get_by_role("link", name="Failed", exact=True).click()
    row(page, "Errors", "JSON: no field subject").get_by_role("link", name=f"2 in {failed}_dead").wait_for()


def test_redrive(begin, failed, sql):
    page = begin(failed)
    page.get_by_role("link", name="2 dead letters").first.click()
    page.get_by_role("link", name="Redrive all…").click()
    page.get_by_role("button", name="Redrive 2").click()
    page.get_by_text("2 dead letters are put back into the queue.").wait_for()
    assert sql.value(f"SELECT COUNT(*) FROM {failed}") == 2


def test_pause_a_queue(begin, queue):
    q = queue()
    page = begin(q)
    row(page, "Queues", q).get_by_role("link", name=q).click()
    page.get_by_role("button", name="Pause").click()
    page.get_by_text("is paused: it accepts messages and delivers none").wait_for()
    page.get_by_role("status").get_by_role("button", name="Resume").wait_for()


def test_publish_a_message(begin, queue, sql):
    q = queue("payload VARCHAR(50), amount INT")
    page = begin(q)
    row(page, "Queues", q).get_by_role("link", name=q).click()
    page.get_by_role("link", name="Publish…").click()
    page.get_by_label("Value of payload").fill('it\'s <b>"new"</b> %s\nand more')
    page.get_by_text("INSERT INTO").wait_for()
    page.get_by_role("button", name="Publish").click()
    page.get_by_text(f"is published in main.{q}").wait_for()
    assert sql.row(f"SELECT payload, amount FROM {q}") == ('it\'s <b>"new"</b> %s\nand more', None)


def test_who_holds_a_message(begin, queue, sql, stream):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('1'), ('2')")
    stream(f"SELECT id FROM STREAM {q} WITH (consumer = 'mailer-3')").wait(2)
    page = begin(q)
    page.get_by_role("link", name="Receivers", exact=True).click()
    row(page, "Receivers", q).get_by_text("mailer-3").wait_for()
    row(page, "Receivers", q).get_by_role("link", name="2", exact=True).click()
    page.get_by_text(re.compile(r"connection \d+, mailer-3")).wait_for()


def test_the_lag_of_a_group(begin, grouped):
    page = begin(grouped)
    row(page, "Topics", "billing").get_by_role("link", name="5", exact=True).wait_for()
    row(page, "Topics", "billing").get_by_role("link", name=re.compile("nobody receives: 5 unread")).wait_for()


def test_seek_a_group_and_back(begin, grouped, sql, stream):
    t = grouped
    stream(f"SELECT id FROM STREAM {t} WITH (group = 'billing', prefetch = 2)").wait(2)
    sql(f"ACK {t} 1 GROUP billing")
    page = begin(t)
    row(page, "Topics", "billing").get_by_role("link", name="Seek group billing").click()
    assert page.get_by_role("button", name="Move the group").count() == 0, "nothing is chosen yet"
    page.get_by_role("link", name="the end: only new messages").click()
    page.get_by_role("button", name="Move the group").click()
    page.get_by_text("the first message that was not acked was at offset 2").wait_for()
    page.evaluate("sessionStorage.setItem('clicks', '0')")
    page.get_by_role("button", name="Seek back to offset 2").click()
    page.get_by_text("continues from offset 2").wait_for()


def test_the_next_run_of_a_schedule(begin, ticking):
    page = begin(ticking)
    page.get_by_role("link", name="Schedules", exact=True).click()
    time = row(page, "Schedules", ticking).locator("time").first
    assert time.get_attribute("datetime").startswith("20")


def test_run_a_schedule_now(begin, ticking, sql):
    page = begin(ticking)
    page.get_by_role("link", name="Schedules", exact=True).click()
    row(page, "Schedules", ticking).get_by_role("button", name="Run now").click()
    page.get_by_text("has sent its message now").wait_for()
    assert sql.column(f"SELECT payload FROM {ticking}") == ["now"]


def test_purge_a_queue(begin, queue, sql):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('1'), ('2'), ('3')")
    sql(f"ACK {q} 1")
    page = begin(q)
    row(page, "Queues", q).get_by_role("link", name=q).click()
    page.get_by_role("link", name="Purge…").click()
    page.get_by_role("button", name="Delete all messages").click()
    page.get_by_text("Before: 2 ready, 1 acked").wait_for()
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 0
