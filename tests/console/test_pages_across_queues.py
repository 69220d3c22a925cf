"""Pages across queues, and the forms that publish, purge, drop and make; over HTTP, on both backends, and as JSON."""

from __future__ import annotations

import html
import re

import pytest
from servers import wait_until

from console.pages.create_queue import Composed

HOSTILE = "it's 100%s <script>alert(1)</script> \\"


@pytest.fixture
def gate(console):
    return console()


@pytest.fixture
def failed(queue, sql):
    """Queues with dead letters, whose errors are given; their names."""
    made = []

    def make(*errors):
        q = queue("payload VARCHAR(100)")
        made.append(q)
        for error in errors:
            sql(f"INSERT INTO {q} (payload) VALUES ('x')")
            sql(f"REJECT {q} WHERE time_next < 9223372036854775806 REASON %s", error)
        wait_until(lambda: not sql.value(f"SELECT COUNT(*) FROM {q}"), 30, "the dead letters to be moved")
        return q

    yield make
    for q in made:
        sql(f"DROP QUEUE IF EXISTS {q}_dead")


# --- failed


def test_errors_of_one_shape_are_one_line_over_all_queues(gate, person, failed, sql):
    one = failed("order 17 of 0f8fad5b-d9cb-469f-a165-70867728950e is unknown", "order 18 of 0xff is unknown", HOSTILE)
    other = failed("order 4711 of 7 is unknown")
    found = person.api("/failed").json
    group = next(each for each in found["groups"] if each["shape"] == "order # of # is unknown")
    assert group["count"] == 3 and found["refused"] == []
    assert {each["queue"]["name"]: each["count"] for each in group["queues"]} == {f"{one}_dead": 2, f"{other}_dead": 1}
    page = person.get("/failed")
    assert page.status == 200 and "order # of # is unknown" in page.text and "<script>alert" not in page.text
    where = {"db": gate.database, "name": f"{one}_dead"}
    (shape,) = [each for each in person.api("/dead", **where).json["groups"] if each["errors"] == 2]
    assert shape["error"] == "order # of # is unknown" and len(shape["variants"]) == 2
    ask = {**where, "of": "like", "error": shape["pattern"]}
    assert person.api("/dead/ask", **ask, what="redrive").json["count"] == 2
    assert person.post("/dead/redrive", **ask).status == 303
    assert sql.value(f"SELECT COUNT(*) FROM {one}") == 2


def test_dead_letters_of_a_queue_that_names_another_place(gate, person, queue, sql, name):
    place = f"{name}_graves"
    sql(f"CREATE QUEUE {place} (payload VARCHAR(50))")
    q = queue("payload VARCHAR(50)", dead_letter=f"'{place}'")
    try:
        sql(f"INSERT INTO {q} (payload) VALUES ('a')")
        sql(f"REJECT {q} 1 REASON 'HTTP 503'")
        wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {place}") == 1, 20, "the dead letter")
        found = person.api("/dead", db=gate.database, name=q).json
        assert found["queue"]["name"] == place and found["groups"][0]["error"] == "HTTP 503"
    finally:
        sql(f"DROP QUEUE {q}")
        sql(f"DROP QUEUE {place}")
        sql(f"CREATE QUEUE {q} (payload INT)")  # which the fixture drops


# --- receivers and schedules


def test_what_each_receiver_holds(gate, person, queue, sql, stream):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('1'), ('2'), ('3')")
    busy = stream(f"SELECT id FROM STREAM {q} WITH (consumer = 'mailer <3>', prefetch = 2)")
    busy.wait(2)
    sql.rows(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 10 WITH (consumer = 'poller')")
    found = {each["consumer"]: each for each in person.api("/receivers", filter=q).json["holdings"]}
    assert sorted(found["mailer <3>"]["ids"]) == ["1", "2"] and found["mailer <3>"]["connection"] == busy.id
    assert found["mailer <3>"]["stream"]["prefetch"] == 2
    assert found["poller"]["ids"] == ["3"] and found["poller"]["stream"] is None and found["poller"]["seconds_left"] > 0
    page = person.get("/receivers", filter=q)
    assert page.status == 200 and "mailer &lt;3&gt;" in page.text and "has no stream open" in page.text
    assert "<html" not in person.get("/receivers/now").text


def test_schedules_of_all_queues_and_the_form_that_makes_one(gate, person, queue, sql):
    q = queue("payload VARCHAR(100), amount INT")
    name = f"{q[:50]}_tick"
    fields = {
        "db": gate.database, "name": q, "schedule": name, "rule": "0 2 * * *", "time_zone": "Europe/Berlin",
        "missed": "skip", "column1": "payload", "value1": HOSTILE, "column2": "amount", "how2": "null",
    }  # fmt: skip
    assert person.get("/schedule/new", db=gate.database, name=q).status == 200
    shown = person.post("/schedule/new/sql", **fields).text
    assert "CREATE SCHEDULE" in shown and "<script>" not in shown
    refused = person.post("/schedule/new", **{**fields, "rule": "never"})
    assert refused.status == 400 and "1231" in refused.text and 'value="never"' in refused.text
    assert "it&#39;s 100%s" in refused.text, "what was typed stays"
    done = person.post("/schedule/new", **fields)
    assert done.status == 303, done.text
    try:
        page = person.get(done.location).text
        assert f"the schedule {name} of {gate.database}.{q} is created" in page
        listed = [each for each in person.api("/schedules").json["schedules"] if each["name"] == name]
        assert listed[0]["queue"]["name"] == q and listed[0]["missed"] == "skip" and listed[0]["next_tick"]
        everywhere = {"db": gate.database, "name": q, "schedule": name, "list": "all"}
        assert person.post("/schedule/run", **everywhere).location == "/schedules"
        assert sql.row(f"SELECT payload, amount FROM {q}") == (HOSTILE, None)
        dropped = person.post("/schedule/drop", **everywhere)
        sql(makes_it_again(person, dropped))
        assert name in sql.column("SHOW SCHEDULES")
    finally:
        sql(f"DROP SCHEDULE IF EXISTS {name}")


# --- publish


def test_publish(gate, person, queue, sql):
    q = queue("payload VARCHAR(100), note VARCHAR(20) DEFAULT 'usual', raw VARBINARY(20)")
    where = {"db": gate.database, "name": q}
    assert person.get("/queue/publish", **where).status == 200
    fields = {**where, "column1": "payload", "value1": f"{HOSTILE}\r\n2", "column2": "note", "value2": "",
              "column3": "raw", "value3": "0xff00", "priority": "7", "delay": "1h"}  # fmt: skip
    shown = person.post("/queue/publish/sql", **fields)
    assert shown.status == 200 and "INSERT INTO" in shown.text and "DELAY &#39;1h&#39;" in shown.text
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 0
    done = person.post("/queue/publish", **fields)
    assert done.status == 303, done.text
    assert "message 1 is published" in person.get(done.location).text
    assert sql.row(f"SELECT payload, note, raw, priority, state FROM {q}") == (
        f"{HOSTILE}\n2", "usual", b"\xff\x00", 7, "to_be_fired",
    )  # fmt: skip
    assert HOSTILE not in gate.log
    copy = person.get("/queue/publish", **where, copy=1).text
    assert "it&#39;s 100%s" in copy and "0xff00" in copy
    told = person.api("/queue/publish", given={**where, "column1": "payload", "how1": "empty"}).json
    assert told["id"] == 2 and sql.value(f"SELECT payload FROM {q} WHERE id = 2") == ""
    for wrong in ({}, {"column1": "time_acked", "value1": "1"}, {"column1": "payload", "value1": "x", "delay": "soon"}):
        refused = person.post("/queue/publish", **where, **wrong)
        assert refused.status == 400 and "nothing was changed" in refused.text, wrong
    assert person.get("/queue/publish", db=gate.database, name="nobody").status == 404


def hidden_fields(page):
    fields = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', page)
    return {name: html.unescape(value) for name, value in fields if name != "token"}


@pytest.mark.parametrize("text", ["a\r\nb", "a\rb", "\n a\n", "", "a\r\nb\n", "%s\x01"])
@pytest.mark.parametrize("kind", ["TEXT", "BLOB"])
def test_a_copy_has_the_value_as_it_is(gate, person, queue, sql, text, kind):
    q = queue(f"payload {kind}, note VARCHAR(20)")
    sql(f"INSERT INTO {q} (payload) VALUES (%s)", text)
    page = person.get("/queue/publish", db=gate.database, name=q, copy=1).text
    fields = {**hidden_fields(page), "how2": "null"}
    if (shown := re.search(r'<textarea id="value1"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)) is not None:
        fields["value1"] = re.sub("\r\n?|\n", "\r\n", html.unescape(shown[1]))
    done = person.post("/queue/publish", **fields)
    assert done.status == 303, done.text
    assert sql.rows(f"SELECT HEX(payload), note FROM {q}") == [(text.encode().hex().upper(), None)] * 2


def test_a_copy_of_what_is_too_long(gate, person, queue, sql):
    q = queue("payload LONGBLOB, note VARCHAR(20)")
    sql(f"INSERT INTO {q} (payload, note) VALUES (%s, 'x')", b"a" + "é".encode() * 40_000)
    where = {"db": gate.database, "name": q}
    page = person.get("/message", **where, id=1).text
    assert "The first" in page and "read the rest with the SELECT below" in page
    page = person.get("/queue/publish", **where, copy=1).text
    assert "It is not copied: it has more than 65536 bytes" in page and "<textarea" in page, "note has a field"
    refused = person.post("/queue/publish", **where, copy=1, column1="payload", how1="copied")
    assert refused.status == 400 and "too long" in refused.text
    assert person.get("/queue/publish", **where, copy=7).status == 404


def test_publish_with_an_id_of_the_client(gate, person, queue, sql):
    q = queue("id VARCHAR(36), payload TEXT")
    where = {"db": gate.database, "name": q, "column1": "id", "value1": "a'1", "column2": "payload", "value2": "x"}
    assert 'name="column1" value="id"' in person.get("/queue/publish", db=gate.database, name=q).text
    done = person.post("/queue/publish", **where, priority="0")
    assert done.status == 303, done.text
    assert sql.row(f"SELECT id, payload, priority FROM {q}") == ("a'1", "x", 0)
    page = person.get("/queue/publish", db=gate.database, name=q, copy="a'1").text
    assert re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", page) == ["", "x"], "an id is not copied"
    numbered = queue("payload TEXT")
    assert 'value="id"' not in person.get("/queue/publish", db=gate.database, name=numbered).text


def test_values_in_the_statement_that_is_shown():
    what = Composed("INSERT INTO `a%%sb` VALUES (%s, %s)", ("%s\x01", b"\0%%"))
    assert what.text == "INSERT INTO `a%sb` VALUES ('%s\x01', X'002525')"


def test_publish_in_a_topic(gate, person, topic, sql):
    t = topic()
    fields = {"db": gate.database, "name": t, "column1": "payload", "value1": "7"}
    page = person.get("/queue/publish", db=gate.database, name=t)
    assert page.status == 200 and 'name="priority"' not in page.text
    done = person.post("/queue/publish", **fields)
    assert done.status == 303 and done.location.startswith("/topic")
    assert sql.value(f"SELECT COUNT(*) FROM {t}") == 1


# --- purge and drop


def test_purge(gate, person, queue, sql):
    q = queue()
    where = {"db": gate.database, "name": q}
    sql(f"INSERT INTO {q} (payload) VALUES ('1'), ('2'), ('3')")
    sql(f"ACK {q} 1")
    asked = person.get("/queue/end", **where, what="purge")
    assert asked.status == 200 and "TRUNCATE QUEUE" in asked.text and "DELETE FROM" in asked.text
    assert person.post("/queue/purge", **where).status == 400, "it is to say what"
    done = person.post("/queue/purge", **where, of="acked")
    assert "1 acked message is deleted" in person.get(done.location).text
    assert sql.column(f"SELECT id FROM {q} ORDER BY id") == [2, 3]
    told = person.api("/queue/purge", given={**where, "of": "all"}).json
    assert told["statement"] == f"TRUNCATE QUEUE `{gate.database}`.`{q}`"
    assert "Before: 2 ready" in told["done"] and sql.value(f"SELECT COUNT(*) FROM {q}") == 0


MAKES_AGAIN = "makes it again, without its messages:\n(.*?)</code>"


def makes_it_again(person, dropped):
    """The statement that the page shows after a drop."""
    return html.unescape(re.search(MAKES_AGAIN, person.get(dropped.location).text, re.DOTALL)[1])


def test_drop_a_queue_a_group_and_a_topic(gate, person, sql, name):
    q, t = f"{name}_q", f"{name}_t"
    sql(f"CREATE QUEUE {q} (payload VARCHAR(50)) WITH (ack_wait = '2m')")
    sql(f"CREATE TOPIC {t} (payload VARCHAR(50))")
    sql(f"CREATE GROUP billing ON {t} START AT EARLIEST WITH (max_attempts = 5, filter = 'payload <> ''x'' OR id > 0')")
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    sql(f"INSERT INTO {t} (payload) VALUES ('a'), ('b')")
    assert sql.column(f"SELECT id FROM STREAM {t} LIMIT 1 WAIT 10 WITH (group = 'billing')") == [1]
    asked = person.get("/queue/end", db=gate.database, name=q, what="drop")
    assert asked.status == 200 and "1 ready" in asked.text and f"DROP QUEUE `{gate.database}`.`{q}`" in asked.text
    done = person.post("/queue/drop", db=gate.database, name=q)
    page = person.get(done.location).text
    assert "is dropped. It had 1 ready" in page and "ack_wait" in page
    again = html.unescape(re.search(MAKES_AGAIN, page, re.DOTALL)[1])
    assert q not in sql.column("SHOW QUEUES")
    sql(again)
    assert "ack_wait = '120s'" in sql.row(f"SHOW CREATE QUEUE {q}")[1]
    sql(f"DROP QUEUE {q}")
    group = f"{t}_group_billing"
    refused = person.post("/queue/drop", db=gate.database, name=t, what="drop")
    assert refused.status == 400 and "nothing was changed" in refused.text, "it has a group"
    assert "seek to the end" in person.get("/queue/end", db=gate.database, name=group, what="purge").text
    assert person.post("/queue/purge", db=gate.database, name=group, of="all").status == 400
    assert "DROP GROUP" in person.get("/queue/end", db=gate.database, name=group, what="drop").text
    was = sql.row(f"SHOW CREATE QUEUE {group}")[1]
    read_up_to = {row[2]: row[6] for row in sql.rows("SHOW GROUPS") if row[0] == t}
    sql(makes_it_again(person, person.post("/queue/drop", db=gate.database, name=group)))
    assert sql.row(f"SHOW CREATE QUEUE {group}")[1] == was
    assert {row[2]: row[6] for row in sql.rows("SHOW GROUPS") if row[0] == t} == read_up_to
    sql(f"DROP GROUP billing ON {t}")
    again = makes_it_again(person, person.post("/queue/drop", db=gate.database, name=t))
    assert t not in sql.column("SHOW TOPICS")
    sql(again)
    wait_until(lambda: t in sql.column("SHOW TOPICS"), what="the topic")
    sql(f"DROP TOPIC {t}")
    assert person.get("/queue/end", db=gate.database, name=q, what="drop").status == 404


# --- topics and groups


def test_make_a_topic_and_a_group(gate, person, sql, name):
    topic = {"db": gate.database, "name": name, "kind": "topic", "column1": "payload", "retain": "7d"}
    assert "New topic" in person.get("/create", kind="topic").text
    assert "CREATE TOPIC" in person.post("/create/sql", **topic).text
    done = person.post("/create", **topic)
    assert done.status == 303 and done.location.startswith("/topic"), done.text
    try:
        group = {"db": gate.database, "name": name, "group": "billing", "to": "earliest", "max_attempts": "3"}
        assert person.get("/topic/group", db=gate.database, name=name).status == 200
        refused = person.post("/topic/group", **{**group, "group": "no such name!"})
        assert refused.status == 400 and 'value="no such name!"' in refused.text
        done = person.post("/topic/group", **group)
        assert done.status == 303, done.text
        assert "the group billing" in person.get(done.location).text
        assert "max_attempts = 3" in sql.row(f"SHOW CREATE QUEUE {name}_group_billing")[1].replace("'", "")
    finally:
        sql(f"DROP GROUP IF EXISTS billing ON {name}")
        sql(f"DROP TOPIC {name}")


def test_a_new_queue_can_have_an_order(gate, person, sql, name):
    fields = {"db": gate.database, "name": name, "column1": "customer", "order_key": "customer"}
    assert person.post("/create", **fields).status == 303, "without a type a column is a VARCHAR"
    sql(f"DROP QUEUE {name}")


def test_a_refused_queue_keeps_what_was_typed(gate, person, name):
    fields = {"db": gate.database, "name": name, "column1": "a<b>", "type1": "bigint", "null1": "required",
              "ack_wait": "soon"}  # fmt: skip
    refused = person.post("/create", **fields)
    assert refused.status == 400 and "1231" in refused.text and 'role="alert"' in refused.text
    assert 'value="a&lt;b&gt;"' in refused.text and 'value="soon"' in refused.text
    assert re.search(r'<select id="type1".*?<option selected>bigint', refused.text, re.DOTALL)


def test_a_seek_says_where_the_group_was_and_leads_back(gate, person, topic, sql, stream):
    t = topic(billing="START AT EARLIEST WITH (ack_wait = '1h', max_backoff = '2h')")
    sql(f"INSERT INTO {t} (payload) VALUES (1), (2), (3), (4)")
    stream(f"SELECT id FROM STREAM {t} WITH (group = 'billing')").wait(4)
    sql(f"ACK {t} 1 GROUP billing")
    done = person.post("/topic/seek", db=gate.database, name=t, group="billing", to="latest")
    page = person.get(done.location).text
    assert "drops 3 messages" in page and "Before, it had read up to offset 4" in page
    assert "the first message that was not acked was at offset 2" in page and "Seek back to offset 2" in page
