"""A search in a queue's messages, and what is done to all that fit: by page and by API, on both backends."""

from __future__ import annotations

import html
import re
import time

import pytest
from servers import wait_until

PIECE = 500


def now():
    """As a question has it."""
    return str(time.time_ns())


@pytest.fixture
def gate(console):
    return console()


@pytest.fixture
def found(gate, person):
    """The ids that a search finds."""

    def search(q, column, test, value="", state="unacked"):
        given = {"db": gate.database, "name": q, "state": state, "column": column, "test": test, "value": value}
        answer = person.api("/messages", **given)
        assert answer.status == 200, answer.text
        assert answer.json["refused"] == "", answer.json["refused"]
        return [row["id"] for row in answer.json["rows"]]

    return search


@pytest.fixture
def orders(queue, sql):
    q = queue(
        "customer VARCHAR(50), amount INT, price DECIMAL(8,2), raw VARBINARY(20), doc JSON, at DATETIME, `o'%s` INT"
    )
    sql(
        f"INSERT INTO {q} (customer, amount, price, raw, doc, at, `o'%s`) VALUES"
        " ('ann', 1, 1.50, X'00ff', '{\"k\": 1}', '2026-11-01 10:00:00', 7),"
        " ('50%_off', 20, 20.25, X'6162', NULL, '2026-12-01 10:00:00', NULL),"
        " ('O''Neil', -3, NULL, NULL, NULL, NULL, NULL),"
        " (NULL, NULL, 99, NULL, NULL, NULL, 1)"
    )
    return q


def test_each_test_of_a_search(orders, found):
    assert found(orders, "customer", "is", "ann") == ["1"]
    assert found(orders, "customer", "is", "O'Neil") == ["3"]
    assert found(orders, "customer", "is_not", "ann") == ["2", "3", "4"], "NULL is not ann"
    assert found(orders, "customer", "contains", "%_") == ["2"], "no character means another"
    assert found(orders, "customer", "begins", "5") == ["2"]
    assert found(orders, "customer", "null") == ["4"]
    assert found(orders, "customer", "not_null") == ["1", "2", "3"]
    assert found(orders, "amount", "at_least", "1") == ["1", "2"]
    assert found(orders, "amount", "at_most", "1") == ["1", "3"]
    assert found(orders, "amount", "is", "-3") == ["3"]
    assert found(orders, "amount", "contains", "2") == ["2"]
    assert found(orders, "price", "is", "1.5") == ["1"]
    assert found(orders, "price", "at_least", "20.25") == ["2", "4"]
    assert found(orders, "raw", "is", "0x00ff") == ["1"]
    assert found(orders, "raw", "contains", "b") == ["2"]
    assert found(orders, "doc", "contains", '"k"') == ["1"]
    assert found(orders, "at", "at_least", "2026-11-15") == ["2"]
    assert found(orders, "at", "begins", "2026-11") == ["1"]
    assert found(orders, "o'%s", "is", "7") == ["1"], "a name that could be SQL"
    assert found(orders, "id", "is", "4") == ["4"]
    assert found(orders, "customer", "is", "ann", state="acked") == []


@pytest.mark.parametrize(
    ("column", "test", "value", "word"),
    [
        ("amount", "is", "many", "numbers"),
        ("amount", "is", "1 OR 1=1", "numbers"),
        ("nothing", "is", "1", "no column"),
        ("time_next", "is", "1", "no column"),
        ("amount", "like", "1", "test"),
        ("customer", "contains", "", "part"),
        ("id", "is", "x", "whole numbers"),
    ],
)
def test_a_search_that_is_none(orders, gate, person, column, test, value, word):
    given = {"db": gate.database, "name": orders, "column": column, "test": test, "value": value}
    answer = person.api("/messages", **given)
    assert answer.status == 400 and word in answer.json["error"]["message"]
    if test == "like":
        assert person.get("/queue", **given).status == 400, "no form has it"
        return
    page = person.get("/queue", **given)
    assert page.status == 200 and word in page.text and f'value="{value}"' in page.text, "what was typed is still there"


def test_the_page_shows_the_search_and_its_select(orders, gate, person):
    where = {"db": gate.database, "name": orders}
    page = person.get("/queue", **where, column="customer", test="contains", value="<b>'").text
    assert "<b>" not in page and 'value="&lt;b&gt;&#39;"' in page and "that match the search" in page
    page = person.get("/queue", **where, column="customer", test="is", value="ann").text
    assert "customer` = &#39;ann&#39;" in page and "Show all" in page
    assert "With all that match" in page


def test_a_search_goes_on_over_pages(queue, sql, gate, person):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES {', '.join(f'({n % 2})' for n in range(220))}")
    given = {"db": gate.database, "name": q, "column": "n", "test": "is", "value": "1"}
    seen, after = [], ""
    while True:
        page = person.api("/messages", **given, after=after).json
        seen += [int(row["id"]) for row in page["rows"]]
        after = page["after"]
        if not after:
            break
    assert seen == list(range(2, 221, 2))


def test_all_that_fit_are_acked_in_pieces(queue, sql, gate, person):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES {', '.join(f'({n % 3})' for n in range(1800))}")
    where = {"db": gate.database, "name": q, "state": "unacked", "column": "n", "test": "is_not", "value": "0"}
    page = person.get("/messages/ask", **where, verb="ack").text
    assert "Ack 1\N{THIN SPACE}200" in page and "n` &lt;&gt; 0" in page
    until, at = (re.search(rf'name="{name}" value="(\d+)"', page)[1] for name in ("until", "at"))
    assert until == "1800"
    sql(f"INSERT INTO {q} (n) VALUES (1)")  # comes afterwards, and stays
    answer = person.post("/messages/ack", **where, until=until, at=at)
    assert answer.status == 303 and "going=1" in answer.location
    page = person.get(answer.location).text
    assert "500 of 500 are changed" in page and "data-go-on" in page and "<strong>700</strong>" in page
    assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_acked IS NOT NULL") == 500
    told = {"more": True, "after": re.search(r'name="after" value="(\d+)"', page)[1], "done_so_far": 500}
    while told["more"]:
        told = person.api(
            "/messages/ack",
            given={**where, "until": until, "at": at, "after": told["after"], "done": told["done_so_far"]},
        ).json
    assert told["done_so_far"] == 1200
    assert sql.rows(f"SELECT n, COUNT(*) FROM {q} WHERE time_acked IS NULL GROUP BY n ORDER BY n") == [(0, 600), (1, 1)]


def test_what_somebody_else_holds_by_then_is_left_alone(queue, sql, gate, person):
    """Ready ones are acked; one that is delivered between the page and the button is in flight."""
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    where = {"db": gate.database, "name": q, "state": "ready"}
    assert "Ack 3" in person.get("/messages/ask", **where, verb="ack").text
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 10") == [1]
    told = person.api("/messages/ack", given={**where, "until": "3", "at": now()}).json
    assert told["changed"] == 2
    assert sql.column(f"SELECT id FROM {q} WHERE time_acked IS NULL") == [1]


@pytest.mark.parametrize(
    ("verb", "state", "fields", "left"),
    [
        ("release", "in_flight", {}, ("ready", None)),
        ("nack", "in_flight", {"delay": "1h", "reason": "it's"}, ("retrying", "it's")),
        ("reject", "in_flight", {"reason": "bad"}, ("gone", None)),
    ],
)
def test_other_verbs_of_what_is_in_flight(queue, sql, gate, person, verb, state, fields, left):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    assert len(sql.rows(f"SELECT id FROM STREAM {q} LIMIT 3 WAIT 10")) == 3
    where = {"db": gate.database, "name": q, "state": state, "column": "n", "test": "at_least", "value": "2"}
    told = person.api(f"/messages/{verb}", given={**where, **fields, "until": "3", "at": now()}).json
    assert told["changed"] == 2 and not told["more"]
    of_state = {"db": gate.database, "name": q}
    if left[0] == "gone":
        dead = f"{q}_dead"
        wait_until(lambda: dead in sql.column("SHOW QUEUES"), 20, "the dead-letter queue")
        wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {dead}") == 2, 20, "the dead letters")
        told = person.api(
            "/messages/redrive", given={"db": gate.database, "name": dead, "until": "9", "at": now()}
        ).json
        assert told["changed"] == 2, told
        wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_acked IS NULL") == 3, 20, "them back")
        return
    rows = person.api("/messages", **of_state, state=left[0]).json["rows"]
    assert [(row["id"], row["last_error"]) for row in rows] == [("2", left[1]), ("3", left[1])]
    if verb == "nack":
        told = person.api("/messages/retry", given={**of_state, "state": "retrying", "until": "3", "at": now()}).json
        assert told["changed"] == 2
        assert len(person.api("/messages", **of_state, state="ready").json["rows"]) == 2


def test_a_verb_that_changes_nothing_of_a_state(queue, sql, gate, person):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('x')")
    where = {"db": gate.database, "name": q}
    answer = person.api("/messages/release", given={**where, "state": "acked", "until": "1", "at": now()})
    assert answer.status == 400 and "RELEASE" in answer.json["error"]["message"]
    for missing in ({}, {"until": "1"}, {"at": now()}):
        answer = person.api("/messages/ack", given={**where, **missing})
        assert answer.status == 400 and "until and at" in answer.json["error"]["message"]
    assert person.get("/messages/ask", **where, verb="drop").status == 400
    answer = person.api("/messages/redrive", given={**where, "until": "1", "at": now()})
    assert answer.status == 400 and "dead" in answer.json["error"]["message"], "it is no dead-letter queue"


def test_a_piece_that_changes_nothing_goes_on(queue, sql, gate, person):
    """Of those that are not acked, RELEASE changes what a receiver holds: here none."""
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES {', '.join(['(1)'] * 600)}")
    where = {"db": gate.database, "name": q, "state": "unacked"}
    answer = person.post("/messages/release", **where, until="600", at=now())
    page = person.get(answer.location)
    assert page.status == 200 and "0 of 500 are changed" in page.text and "data-go-on" in page.text
    stop = html.unescape(re.search(r'id="stop" href="([^"]*)"', page.text)[1])
    stopped = person.get(stop)
    assert stopped.status == 200 and "data-go-on" not in stopped.text and "<strong>100</strong>" in stopped.text


def test_nothing_fits(queue, gate, person):
    q = queue()
    page = person.get("/messages/ask", db=gate.database, name=q, verb="ack").text
    assert "There are none" in page and "<button" in page
    told = person.api("/messages/ack", given={"db": gate.database, "name": q, "until": "1", "at": now()}).json
    assert (told["changed"], told["more"]) == (0, False)


def test_the_log_has_the_statement_without_the_values(queue, sql, gate, person):
    q = queue("secret VARCHAR(50)")
    sql(f"INSERT INTO {q} (secret) VALUES ('hush')")
    where = {
        "db": gate.database,
        "name": q,
        "column": "secret",
        "test": "is",
        "value": "hush",
        "until": "1",
        "at": now(),
    }
    answer = person.post("/messages/ack", **where)
    notice = html.unescape(person.get(answer.location.partition("#")[0]).text)
    assert "is acked" in notice and "= 'hush'" in notice
    wait_until(lambda: "id IN (1 ids)" in gate.log, what="the log")
    assert "hush" not in gate.log


def test_messages_that_come_after_the_count_are_left_alone(queue, sql, gate, person):
    """Also where clients make the ids: then a new message may have a smaller one."""
    q = queue("id VARCHAR(36), n INT")
    sql(f"INSERT INTO {q} (id, n) VALUES ('m', 1)")
    where = {"db": gate.database, "name": q, "state": "ready"}
    page = person.get("/messages/ask", **where, verb="ack").text
    until, at = (re.search(rf'name="{name}" value="(\w+)"', page)[1] for name in ("until", "at"))
    assert until == "m" and "made after the count are not changed" in page
    sql(f"INSERT INTO {q} (id, n) VALUES ('b', 1), ('c', 1)")
    told = person.api("/messages/ack", given={**where, "until": until, "at": at}).json
    assert (told["changed"], str(told["at"])) == (1, at)
    assert sql.column(f"SELECT id FROM {q} WHERE time_acked IS NULL ORDER BY id") == ["b", "c"]


def test_messages_that_were_in_another_state_at_the_count_are_left_alone(queue, sql, gate, person):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1) DELAY '1h'")
    sql(f"INSERT INTO {q} (n) VALUES (2)")
    where = {"db": gate.database, "name": q, "state": "ready"}
    chosen = person.api("/messages/ask", **where, verb="ack").json["chosen"]
    sql(f"RETRY {q} NOW WHERE id = 1")  # its time has come by then
    told = person.api("/messages/ack", given={**where, "until": chosen["until"], "at": chosen["at_ns"]}).json
    assert told["changed"] == 1
    assert sql.column(f"SELECT id FROM {q} WHERE time_acked IS NULL") == [1]


def test_a_delivery_that_began_after_the_count_is_not_released(queue, sql, gate, person):
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 10") == [1]
    where = {"db": gate.database, "name": q, "state": "in_flight"}
    chosen = person.api("/messages/ask", **where, verb="release").json["chosen"]
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 10") == [2]
    told = person.api("/messages/release", given={**where, "until": "2", "at": chosen["at_ns"]}).json
    assert told["changed"] == 1
    assert [row["id"] for row in person.api("/messages", **where).json["rows"]] == ["2"]
