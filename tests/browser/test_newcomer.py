"""What somebody does who sees the console for the first time, in a real browser, without typing SQL."""

from __future__ import annotations

import pytest
from real_browser import log_in

pytestmark = pytest.mark.parametrize(
    "place", ["embedded", pytest.param("mariadb", marks=pytest.mark.long)], indirect=True
)


def receive(sql, q, wait=20):
    """One message, as an application receives it."""
    (row,) = sql.rows(f"SELECT id, payload FROM STREAM {q} LIMIT 1 WAIT {wait} WITH (consumer = 'mailer-3')")
    return row


@pytest.fixture
def poisoned(queue, sql):
    """A queue with one message that fails each time, until it is a dead letter; and one that does not."""
    q = queue("payload TEXT", max_attempts=2)
    sql(f'INSERT INTO {q} (payload) VALUES (\'{{"to": "ann@example"}}\')')
    for _ in range(2):
        id_, _ = receive(sql, q)
        sql(f"NACK {q} {id_} DELAY 0 REASON 'JSON: no field subject'")
    yield q
    sql(f"DROP QUEUE IF EXISTS {q}_dead")


def test_a_newcomer_logs_in_creates_a_queue_and_sees_the_first_message(gate, visitor, sql, name):
    page = visitor()
    page.goto("/")
    assert "/login" in page.url
    log_in(page)
    page.get_by_role("link", name="New queue").click()
    page.get_by_label("Database").fill(gate.database)
    page.get_by_label("Queue", exact=True).fill(name)
    page.get_by_text(f"CREATE QUEUE `{gate.database}`.`{name}`").wait_for()
    page.get_by_role("button", name="Create the queue").click()
    page.get_by_role("status").get_by_text("is created").wait_for()
    try:
        page.get_by_text("There are no messages in this state.").wait_for()
        sql(f"INSERT INTO {name} (payload) VALUES ('Hello, <b>Ann</b>')")
        page.get_by_role("link", name="queuegate").click()
        page.get_by_label("Filter by name").fill(name)  # other tests have queues here, too
        page.get_by_role("button", name="Show", exact=True).click()
        row = page.get_by_role("row").filter(has_text=name)
        row.get_by_text("nobody receives: 1 ready").wait_for()
        row.get_by_role("link", name=name).click()
        page.get_by_role("cell", name="Hello, <b>Ann</b>").wait_for()
        page.get_by_role("region", name="Messages").get_by_role("link", name="1", exact=True).click()
        page.get_by_role("heading", name="Message 1").wait_for()
        page.get_by_text("Hello, <b>Ann</b>").wait_for()
    finally:
        sql(f"DROP QUEUE {name}")


def test_a_poison_message_is_found_by_its_error_mended_redriven_and_delivered(person, poisoned, sql):
    page = person()
    page.get_by_label("Filter by name").fill(poisoned)
    page.get_by_role("button", name="Show", exact=True).click()
    # It becomes a dead letter when it would be delivered a third time: a receiver asks.
    assert sql.rows(f"SELECT id FROM STREAM {poisoned} LIMIT 1 NOWAIT") == []
    row = page.get_by_role("region", name="Queues").get_by_role("row").filter(has_text=poisoned)
    row.get_by_role("link", name="1 dead letter").first.click()  # the page refreshes itself

    error = page.get_by_role("row").filter(has_text="JSON: no field subject")
    error.get_by_role("link", name="message 1").click()
    attempts = page.get_by_role("region", name="Failed attempts")
    assert attempts.get_by_role("row").filter(has_text="JSON: no field subject").count() == 2
    assert attempts.get_by_role("row").filter(has_text="mailer-3").count() == 2

    page.get_by_role("link", name="Edit…").click()
    page.get_by_label("Value of payload").fill('{"to": "ann@example",\n "subject": "Hi"}')
    page.get_by_role("button", name="Save and redrive").click()
    notice = page.get_by_role("status")
    notice.get_by_text("is put back into").wait_for()
    notice.get_by_text("The SQL that was run").click()
    notice.get_by_text(f"REDRIVE `{poisoned}_dead`").or_(notice.get_by_text("REDRIVE")).first.wait_for()
    assert receive(sql, poisoned) == (1, '{"to": "ann@example",\n "subject": "Hi"}')


@pytest.mark.long
def test_a_message_is_nacked_and_retried_by_buttons(person, gate, queue, sql):
    q = queue("payload TEXT")
    sql(f"INSERT INTO {q} (payload) VALUES ('x')")
    receive(sql, q)
    page = person()
    page.goto(f"/message?db={gate.database}&name={q}&id=1")
    page.get_by_text("It failed").click()
    page.get_by_label("Reason").fill("HTTP 503")
    page.get_by_label("Delay of a nack").fill("1h")
    page.get_by_label("Delay of a nack").press("Enter")
    page.get_by_text("is marked as failed").wait_for()
    page.get_by_role("button", name="Retry now", exact=True).click()
    page.get_by_text("is due now").wait_for()
    assert receive(sql, q) == (1, "x")


@pytest.mark.long
def test_chosen_messages_of_a_list(person, gate, queue, sql):
    q = queue("payload TEXT")
    sql(f"INSERT INTO {q} (payload) VALUES ('a'), ('b'), ('c')")
    page = person()
    page.goto(f"/queue?db={gate.database}&name={q}")
    page.get_by_label("Select all messages of this page").check()
    page.get_by_label("Select message 2").uncheck()
    page.get_by_role("button", name="Ack…", exact=True).click()
    page.get_by_text("2 are ready.").wait_for()
    page.get_by_role("button", name="Ack 2").click()
    page.get_by_text("2 messages of").wait_for()
    assert sql.column(f"SELECT id FROM {q} WHERE state <> 'acked'") == [2]


@pytest.mark.long
def test_many_dead_letters_go_by_themselves_in_pieces(person, gate, queue, sql):
    q = queue("payload INT")
    try:
        sql(f"INSERT INTO {q} (payload) VALUES {', '.join(['(1)'] * 1200)}")
        sql(f"REJECT {q} WHERE payload = 1 REASON 'HTTP 503'")
        page = person()
        page.goto(f"/queue?db={gate.database}&name={q}")
        page.get_by_role("link", name="1 200 dead letters").click()
        page.get_by_role("row").filter(has_text="HTTP 503").get_by_role("link", name="Redrive…").click()
        page.get_by_role("button", name="Redrive 1").click()
        page.get_by_text("1200 dead letters are put back into the queue.").wait_for()
        assert sql.value(f"SELECT COUNT(*) FROM {q}") == 1200
    finally:
        sql(f"DROP QUEUE IF EXISTS {q}_dead")
