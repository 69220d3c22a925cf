"""What the console does to messages: each verb, by page and by API, of one and of several; and the form."""

from __future__ import annotations

import re
import time

import pytest
from servers import wait_until

pytestmark = pytest.mark.long


@pytest.fixture
def gate(console):
    return console()


@pytest.fixture
def post(gate, person):
    """Sends a form, and has the page to which it leads: its notice and its text."""

    def send(path, q, **fields):
        answer = person.post(path, db=gate.database, name=q, **fields)
        assert answer.status == 303, answer.text
        page = person.get(answer.location.partition("#")[0])
        notice = re.search(r'<div class="notice" role="status"><p>(.*?)</p>', page.text, re.DOTALL)
        assert notice, page.text
        return notice[1], page, answer.location

    return send


def hold(sql, q, count=1, consumer="mailer"):
    """Receive messages, which are leased from then on."""
    return sql.rows(f"SELECT id FROM STREAM {q} LIMIT {count} WAIT 10 WITH (consumer = '{consumer}')")


def test_ack(gate, post, queue, sql):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('x')")
    said, page, _ = post("/message/ack", q, id=1)
    assert said == f"Message 1 of {gate.database}.{q} is acked: it is not sent again. It was ready."
    assert f"ACK `{gate.database}`.`{q}` 1" in page.text, "the SQL that was run is shown"
    assert sql.value(f"SELECT state FROM {q}") == "acked"
    said, _, _ = post("/message/ack", q, id=1)
    assert said.startswith("Nothing was changed.") and "acked" in said
    said, _, _ = post("/message/ack", q, id=1)
    assert said.startswith("Nothing was changed.")


def test_a_verb_says_that_the_message_is_gone(gate, post, queue, person):
    q = queue()
    answer = person.post("/message/ack", db=gate.database, name=q, id=77)
    assert answer.status == 303 and person.get(answer.location).status == 404
    done = person.api("/message/ack", given={"db": gate.database, "name": q, "id": 77}).json
    assert done["changed"] == 0 and done["done"].startswith("Nothing was changed.")


def test_nack_with_a_delay_and_a_reason(post, queue, sql):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('x')")
    said, _, _ = post("/message/nack", q, id=1, delay="1h", reason="HTTP 503")
    assert said.startswith("Nothing was changed."), "it was never delivered"
    hold(sql, q)
    said, page, _ = post("/message/nack", q, id=1, epoch=1, delay="1h", reason='it\'s \\ "so" <b>%s')
    assert "is marked as failed" in said and "<b>" not in page.text
    assert sql.value(f"SELECT last_error FROM {q}") == 'it\'s \\ "so" <b>%s'
    due = sql.value(f"SELECT time_next FROM {q}") / 1e9 - time.time()
    assert 3000 < due < 3700
    said, _, _ = post("/message/nack", q, id=1, epoch=2)
    assert said.startswith("Nothing was changed."), "another delivery than the one that is meant"


def test_a_delay_that_is_none(gate, person, queue, sql):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('x')")
    hold(sql, q)
    answer = person.post("/message/nack", db=gate.database, name=q, id=1, delay="soon", reason="it's <b>")
    assert answer.status == 400 and "1231" in answer.text and "nothing was changed" in answer.text
    assert 'value="soon"' in answer.text and 'value="it&#39;s &lt;b&gt;"' in answer.text, "what was typed stays"


def test_release_gives_back_what_a_receiver_holds(post, queue, sql, stream):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('x')")
    hold(sql, q)
    said, _, _ = post("/message/release", q, id=1, epoch=1)
    assert "is given back" in said
    assert sql.value(f"SELECT epoch FROM {q}") == 0
    assert hold(sql, q), "it is due at once"


def test_reject_leads_to_the_dead_letter_and_redrive_back(gate, post, queue, sql, person):
    q = queue("payload VARCHAR(50)")
    sql(f"INSERT INTO {q} (payload) VALUES ('poison')")
    try:
        said, _, _ = post("/message/reject", q, id=1, reason="bad JSON")
        assert "goes to the dead letters" in said

        def is_there():
            found = person.api("/message", db=gate.database, name=q, id=1).json
            return found["dead_letters"] == {"database": gate.database, "name": f"{q}_dead"}

        wait_until(is_there, 20, "the dead letter")
        assert f"{q}_dead" in person.get("/message", db=gate.database, name=q, id=1).text
        dead = person.api("/message", db=gate.database, name=f"{q}_dead", id=1).json
        assert dead["message"]["state"] == "dead" and dead["offered"] == ["redrive", "ack"]
        said, _, location = post("/message/redrive", f"{q}_dead", id=1)
        assert "is put back into its queue" in said
        assert f"name={q}&" in location, "the page is that of the message where it is now"
        assert sql.row(f"SELECT state, last_error FROM {q}") == ("to_be_fired", "bad JSON")
        said, _, _ = post("/message/redrive", f"{q}_dead", id1=1, id2=2)
        assert said.startswith("Nothing was changed.")
    finally:
        sql(f"DROP QUEUE IF EXISTS {q}_dead")


def test_retry_now(post, queue, sql):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('later') DELAY '1h'")
    assert sql.rows(f"SELECT id FROM STREAM {q} NOWAIT") == []
    said, _, _ = post("/message/retry", q, id=1)
    assert said.endswith("is due now. It was scheduled.")
    assert hold(sql, q)


def test_several_messages_of_a_list(gate, post, queue, sql, person):
    q = queue("payload INT")
    sql(f"INSERT INTO {q} (payload) VALUES (1), (2), (3), (4)")
    sql(f"ACK {q} 2")
    page = person.get("/queue", db=gate.database, name=q, state="all").text
    assert page.count('type="checkbox" name="id') == 4
    said, page, location = post("/message/ack", q, list="all", id1=1, id2=2, id3=3)
    assert said.startswith(f"2 of 3 messages of {gate.database}.{q} are acked")
    assert "state=all" in location and "may have been first" in said
    assert sql.column(f"SELECT id FROM {q} WHERE state <> 'acked'") == [4]
    said, _, _ = post("/message/ack", q, list="unacked", id4=4)
    assert "Message 4" in said


def test_what_was_chosen_is_asked_first_and_can_be_undone(gate, post, queue, sql, person):
    q = queue("payload INT")
    sql(f"INSERT INTO {q} (payload) VALUES (1), (2), (3)")
    hold(sql, q)
    where = {"db": gate.database, "name": q}
    asked = person.post("/message/ask/reject", **where, list="unacked", id1=1, id2=2, id3=99)
    assert asked.status == 200 and "1 is in flight, 1 is ready." in asked.text and "1 is not in the table" in asked.text
    assert f"REJECT `{gate.database}`.`{q}` 1, 2, 99" in asked.text
    assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_next < 9223372036854775806") == 3, "asking changes nothing"
    try:
        said, page, _ = post("/message/reject", q, list="unacked", id1=1, id2=2, reason="HTTP 503")
        assert said.endswith("Before: 1 in flight, 1 ready.")
        assert f'href="/dead?db={gate.database}&amp;name={q}"' in page.text, "the way back"
        hold(sql, q)
        said, page, _ = post("/message/nack", q, id=3, delay="1h")
        assert said.endswith("It was in flight.") and 'action="/message/retry"' in page.text
        said, _, _ = post("/message/retry", q, id1=3)
        assert said.endswith("is due now. It was retrying.")
        assert person.post("/message/ask/ack", **where).status == 400
    finally:
        sql(f"DROP QUEUE IF EXISTS {q}_dead")


def test_what_is_chosen_wrongly(gate, person, queue):
    q = queue()
    where = {"db": gate.database, "name": q}
    assert "choose a message" in person.post("/message/ack", **where).text
    assert person.post("/message/ack", **where, id="1 OR 1=1").status == 400
    assert person.post("/message/ack", **where, id="1); DROP TABLE x").status == 400
    assert person.post("/message/nack", **where, id1=1, id2=2, epoch=1).status == 400
    many = {f"id{n}": n for n in range(1, 51)}
    assert person.post("/message/ack", **where, **many, id=51).status == 400
    assert person.post("/message/ack", **where, **many).status == 303
    assert person.api("/message/ack", given={**where, "id": [1]}).status == 400
    assert person.post("/message/redrive", **where, id=1).status == 400, "it is no dead-letter queue"


def test_the_log_has_who_and_what_without_values(gate, post, queue, sql):
    q = queue("id VARCHAR(40), payload VARCHAR(50)")
    sql(f"INSERT INTO {q} (id, payload) VALUES ('ann', 'x'), ('bob', 'y')")
    hold(sql, q, 2)
    post("/message/nack", q, id1="ann", id2="bob", reason="the secret reason")
    assert f'statement="NACK `{gate.database}`.`{q}` ?, ? REASON ?"' in gate.log
    assert "the secret reason" not in gate.log


def test_ids_that_could_be_markup_or_sql(gate, post, queue, sql, person):
    texts = queue("id VARCHAR(60), payload INT")
    for given in ("a'b\"<i>", "100%s \\", "0x41"):
        sql(f"INSERT INTO {texts} (id, payload) VALUES (%s, 1)", given)
        said, page, _ = post("/message/ack", texts, id=given)
        assert "is acked" in said and "<i>" not in page.text
        assert sql.value(f"SELECT state FROM {texts} WHERE id = %s", given) == "acked"
    binary = queue("id VARBINARY(16), payload INT")
    sql(f"INSERT INTO {binary} (id, payload) VALUES (X'00ff10', 1)")
    said, _, _ = post("/message/ack", binary, id="0x00ff10")
    assert "is acked" in said


# --- the form that changes a message


def field(page, name):
    """What a field of a form has."""
    found = re.search(rf'name="{name}"[^>]*? value="([^"]*)"', page)
    assert found, (name, page)
    return found[1]


def test_priority_and_time(gate, post, queue, sql, person):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('x') DELAY '1h'")
    page = person.get("/message/edit", db=gate.database, name=q, id=1).text
    same = {name: field(page, name) for name in ("priority", "was_priority", "due", "was_due", "epoch")}
    said, _, _ = post("/message/edit", q, id=1, **same)
    assert said == "Nothing was changed: the form has the same values as the message."
    said, page, _ = post("/message/edit", q, id=1, **{**same, "priority": "3", "due": "2030-01-02T03:04:05"})
    assert "has a new priority, time." in said and "UPDATE" in page.text
    assert sql.row(f"SELECT priority, time_scheduled, time_next FROM {q}") == (3, *[1893553445 * 10**9] * 2)
    said, _, _ = post("/message/edit", q, id=1, due="2001-01-01T00:00")
    assert "has a new time." in said
    assert hold(sql, q), "it is due, and the receiver was told at once"
    said, _, _ = post("/message/edit", q, id=1, epoch="", priority="9")
    assert said.startswith("Nothing was changed."), "it was delivered since the form was shown"
    said, _, _ = post("/message/edit", q, id=1, due="2030-01-01T00:00")
    assert "or is in flight" in said
    said, _, _ = post("/message/edit", q, id=1, priority="9")
    assert "has a new priority." in said


@pytest.mark.parametrize(
    "fields",
    [{"priority": "x"}, {"priority": "1e3"}, {"priority": "999999999"}, {"due": "soon"}, {"due": "1999-01-01T00:00"},
     {"due": "2030-01-01T00:00+02:00"}, {"then": "drop"}, {"column1": "payload", "value1": "y"},
     {"column1": "time_acked", "value1": "1"}, {"column1": "state`", "value1": "1"}],
)  # fmt: skip
def test_what_cannot_be_changed(gate, person, queue, sql, fields):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('x')")
    answer = person.post("/message/edit", db=gate.database, name=q, id=1, **fields)
    assert answer.status == 400, answer.text
    assert sql.row(f"SELECT payload, priority, time_acked FROM {q}") == ("x", 50, None)


def test_a_blob_that_is_longer_than_a_form_is_not_cut(gate, dead, person, sql):
    body = b"a" + "é".encode() * 40_000 + b"END"
    q = dead("payload LONGBLOB, n INT", (body, 1))
    where = {"db": gate.database, "name": f"{q}_dead", "id": 1}
    page = person.get("/message/edit", **where).text
    assert "more than 65536 bytes" in page and 'value="payload"' not in page
    assert person.post("/message/edit", **where, column1="payload", value1="b").status == 400
    assert sql.value(f"SELECT payload FROM {q}_dead") == body


def test_a_program_sets_line_breaks_as_they_are(gate, dead, person, sql):
    q = dead("payload TEXT", ("one",))
    given = {"db": gate.database, "name": f"{q}_dead", "id": "1", "column1": "payload", "value1": "a\r\nb\rc\n"}
    assert person.api("/message/edit", given=given).json["changed"] == 1
    assert sql.value(f"SELECT payload FROM {q}_dead") == "a\r\nb\rc\n"


@pytest.fixture
def dead(gate, queue, sql):
    """A queue, and its dead letters: each row that is given, rejected with a reason."""
    made = []

    def make(columns, *rows, reason="bad"):
        q = queue(columns)
        made.append(q)
        names = [each.split()[0] for each in columns.split(", ")]
        for row in rows:
            marks = ", ".join(["%s"] * len(row))
            sql(f"INSERT INTO {q} ({', '.join(names)}) VALUES ({marks})", *row)
        sql(f"REJECT {q} WHERE id > 0 REASON %s", reason)
        wait_until(lambda: not sql.value(f"SELECT COUNT(*) FROM {q}"), 20, "the dead letters to be moved")
        return q

    yield make
    for q in made:
        sql(f"DROP QUEUE IF EXISTS {q}_dead")


def test_a_dead_letter_is_mended_and_redriven(gate, dead, post, sql, person):
    q = dead("payload TEXT, amount INT, note VARCHAR(20)", ("one\ntwo", 5, None))
    page = person.get("/message/edit", db=gate.database, name=f"{q}_dead", id=1).text
    assert "one\ntwo</textarea>" in page and page.count("<textarea") == 3
    was = {f"was{n}": field(page, f"was{n}") for n in (1, 2, 3)}
    names = {"column1": "payload", "column2": "amount", "column3": "note"}
    # As a browser sends it: line breaks of its own, and every field.
    as_it_was = {**names, **was, "value1": "one\r\ntwo", "value2": "5", "value3": "", "null3": "null"}
    said, _, _ = post("/message/edit", f"{q}_dead", id=1, **as_it_was)
    assert said.startswith("Nothing was changed")
    mended = {**as_it_was, "value1": "one\r\n<b>'two'</b> %s \\", "then": "redrive"}
    said, page, location = post("/message/edit", f"{q}_dead", id=1, **mended)
    assert "has a new payload." in said and f"is put back into {gate.database}.{q}" in said
    assert f"name={q}&" in location and "<b>" not in page.text and "REDRIVE" in page.text
    assert sql.row(f"SELECT payload, amount, note FROM {q}") == ("one\n<b>'two'</b> %s \\", 5, None)
    assert "two" not in "".join(line for line in gate.log.splitlines() if "msg=change " in line)
    answer = person.post("/message/edit", db=gate.database, name=f"{q}_dead", id=1, **mended)
    assert answer.status == 404, "somebody else has put it back"


def test_two_who_mend_the_same(gate, dead, post, sql, person):
    q = dead("payload TEXT", ("a",))
    page = person.get("/message/edit", db=gate.database, name=f"{q}_dead", id=1).text
    form = {"column1": "payload", "was1": field(page, "was1"), "id": 1}
    post("/message/edit", f"{q}_dead", **form, value1="first")
    answer = person.post("/message/edit", db=gate.database, name=f"{q}_dead", **form, value1="second")
    assert answer.status == 400 and "another client has changed it" in answer.text
    assert sql.value(f"SELECT payload FROM {q}_dead") == "first"


def test_values_of_every_kind(gate, dead, post, sql, person):
    columns = "a BIGINT, b DECIMAL(10,2), c DOUBLE, d DATETIME(6), e DATE, f BLOB, g VARBINARY(10), h JSON"
    q = dead(columns, (1, "1.50", 0.5, "2026-01-02 03:04:05.5", "2026-01-02", b"\xff\x00", b"text", '{"a": 1}'))
    mended = {
        "a": "-7", "b": "2.25", "c": "1.25", "d": "2027-01-02 03:04:05", "e": "2027-01-02", "f": "0xff01", "g": "0x",
        "h": '{"b": [1, "ü"]}',
    }  # fmt: skip
    for name, value in mended.items():
        done = person.api("/message/edit", given={
            "db": gate.database, "name": f"{q}_dead", "id": 1, "column1": name, "value1": value,
        })  # fmt: skip
        assert done.status == 200 and done.json["changed"] == 1, done.text
    row = sql.row(f"SELECT a, b, c, d, e, f, g, h FROM {q}_dead")
    assert [str(each) for each in row[:5]] == ["-7", "2.25", "1.25", "2027-01-02 03:04:05", "2027-01-02"]
    assert row[5:7] == (b"\xff\x01", b"0x") and "ü" in row[7]
    given = {"db": gate.database, "name": f"{q}_dead", "id": 1, "column1": "f", "value1": "0xf"}
    assert person.api("/message/edit", given=given).status == 400
    assert person.api("/message/edit", given={**given, "column1": "a", "value1": "many"}).status == 400


def test_a_value_that_is_too_long_for_the_form(gate, dead, person):
    q = dead("payload LONGTEXT", ("x" * 70_000,))
    page = person.get("/message/edit", db=gate.database, name=f"{q}_dead", id=1)
    assert page.status == 200 and "change it in SQL" in page.text and "<textarea" not in page.text
    given = {"db": gate.database, "name": f"{q}_dead", "id": 1, "column1": "payload", "value1": "y"}
    assert person.api("/message/edit", given=given).status == 400
