"""The pages of a queue beside its messages: receivers, options, schedules; over HTTP, on both backends, and as JSON."""

from __future__ import annotations

import pymysql
import pytest
from servers import wait_until

HOSTILE = "a`b'\"<i>%s%"


@pytest.fixture
def gate(console):
    return console()


@pytest.fixture
def hostile(connect):
    """A queue whose name could be markup or SQL; as it is quoted."""
    maker, quoted = connect(), f"`{HOSTILE.replace('`', '``')}`"
    cursor = maker.connection.cursor()
    cursor.execute(f"CREATE QUEUE {quoted} (payload VARCHAR(50))")
    yield cursor, quoted
    cursor.execute(f"DROP QUEUE {quoted}")


# --- receivers


def test_the_receivers_of_a_queue(gate, root, queue, sql, stream):
    q, other, person = queue(), queue(), root(gate)
    where = {"db": gate.database, "name": q}
    sql(f"INSERT INTO {q} (payload) VALUES ('a'), ('b')")
    busy = stream(f"SELECT id FROM STREAM {q} WITH (consumer = 'mailer <3>', prefetch = 2)")
    busy.wait(2)
    idle = stream(f"SELECT id FROM STREAM {q} WHERE id > 5", program_name="reports")
    elsewhere = stream(f"SELECT id FROM STREAM {other}")
    wait_until(
        lambda: "acks" in person.api("/queue/receivers", **where).json["receivers"][0]["does"],
        what="the window to fill",
    )
    found = person.api("/queue/receivers", **where).json
    assert (found["total"], found["unacked"]) == (2, 2)
    assert [each["connection"] for each in found["receivers"]] == [busy.id, idle.id], "who holds most comes first"
    first, second = found["receivers"]
    assert (first["consumer"], first["unacked"], first["prefetch"], first["sent"]) == ("mailer <3>", 2, 2, 2)
    assert first["account"] == "root" and first["host"].startswith("127.0.0.1") and len(first["since"]) > 10
    assert second["consumer"] == "reports" and "id" in second["filter"] and second["does"] == "waits for messages"
    page = person.get("/queue/receivers", **where)
    assert page.status == 200 and "mailer &lt;3&gt;" in page.text and "reports" in page.text
    part = person.get("/queue/receivers/now", **where)
    assert part.status == 200 and "<html" not in part.text and "mailer" in part.text
    assert f'value="{elsewhere.id}"' not in page.text
    assert "SHOW SUBSCRIPTIONS" in page.text


def test_a_ring_shows_who_receives_which_part_of_it(gate, root, queue, sql, stream):
    q, person = queue("n INT NOT NULL", sharding_key="'n'"), root(gate)
    where = {"db": gate.database, "name": q}
    sql(f"INSERT INTO {q} (n) VALUES (10), (10), (11)")  # slots d3d9 and 6512
    half = stream(f"SELECT id FROM STREAM {q} WITH (key_range = '-80')")
    half.wait(1)
    wait_until(
        lambda: person.api("/queue/receivers", **where).json["ranges"][0]["in_flight"] == 1,
        what="the lease in the count",
    )
    found = person.api("/queue/receivers", **where).json
    assert [each["key_range"] for each in found["receivers"]] == ["-80"]
    assert [(each["key_range"], each["receivers"], each["ready"]) for each in found["ranges"]] == [
        ("-80", 1, 0),
        ("80-", 0, 2),
    ]
    page = person.get("/queue/receivers", **where)
    assert page.status == 200 and "nobody receives it" in page.text
    everything = stream(f"SELECT id FROM STREAM {q}")
    everything.wait(2)
    assert "nobody receives it" not in person.get("/queue/receivers", **where).text


def test_a_ring_of_a_queue_of_any_name(gate, root, connect, stream):
    cursor, name = connect().connection.cursor(), f"{HOSTILE}2"
    quoted = f"`{name.replace('`', '``')}`"
    cursor.execute(f"CREATE QUEUE {quoted} (n INT NOT NULL) WITH (sharding_key = 'n')")
    try:
        stream(f"SELECT * FROM STREAM {quoted} WITH (keys = 'sticky')")
        wait_until(
            lambda: root(gate).api("/queue/receivers", db=gate.database, name=name).json["ranges"], what="its range"
        )
        assert root(gate).get("/queue/receivers", db=gate.database, name=name).status == 200
    finally:
        cursor.execute(f"DROP QUEUE {quoted}")


def test_nobody_receives(gate, root, queue):
    person = root(gate)
    assert person.api("/queue/receivers", db=gate.database, name=queue()).json["total"] == 0
    assert person.get("/queue/receivers", db=gate.database, name="nobody").status == 404
    assert person.get("/queue/receivers", db=gate.database).status == 400


def test_a_stream_is_ended_and_what_it_held_comes_again(gate, root, queue, sql, stream):
    q, person = queue(), root(gate)
    where = {"db": gate.database, "name": q}
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    receiver = stream(f"SELECT id FROM STREAM {q}")
    receiver.wait(1)
    done = person.post("/queue/receivers/end", connection=receiver.id, **where)
    assert done.status == 303, done.text
    error = receiver.wait_end()
    assert isinstance(error, pymysql.MySQLError) and error.args[0] == 1317
    assert f"the stream of connection {receiver.id} is ended" in person.get(done.location).text
    assert receiver.connection.open and f"KILL QUERY {receiver.id}" in gate.log
    again = stream(f"SELECT id FROM STREAM {q}")
    assert again.wait(1)[0][0] == 1
    late = person.post("/queue/receivers/end", connection=receiver.id, **where)
    assert late.status == 404 and "may have ended already" in late.text


def test_a_connection_is_ended(gate, root, queue, stream):
    q, person = queue(), root(gate)
    receiver = stream(f"SELECT id FROM STREAM {q}")
    fields = {"db": gate.database, "name": q, "connection": receiver.id, "what": "connection"}
    told = person.api("/queue/receivers/end", given=fields).json
    assert told["statement"] == f"KILL {receiver.id}"
    assert receiver.wait_end() is not None


def test_only_receivers_of_that_queue_are_ended(gate, root, queue, stream, sql):
    q, other, person = queue(), queue(), root(gate)
    receiver = stream(f"SELECT id FROM STREAM {other}")
    where = {"db": gate.database, "name": q}
    for connection in (receiver.id, sql.connection.thread_id()):
        assert person.post("/queue/receivers/end", connection=connection, **where).status == 404
    for connection in ("", "0x1", "1 OR 1", "-1"):
        assert person.post("/queue/receivers/end", connection=connection, **where).status == 400
    assert person.post("/queue/receivers/end", connection=receiver.id, what="server", **where).status == 400
    assert not receiver.ended.is_set() and sql.value("SELECT 1") == 1


def test_a_receiver_of_a_queue_of_any_name(gate, root, hostile, stream):
    _, quoted = hostile
    receiver = stream(f"SELECT id FROM STREAM {quoted} WITH (consumer = '<script>')")
    where = {"db": gate.database, "name": HOSTILE}
    page = root(gate).get("/queue/receivers", **where)
    assert page.status == 200 and "<i>" not in page.text and "&lt;script&gt;" in page.text
    assert root(gate).post("/queue/receivers/end", connection=receiver.id, **where).status == 303


# --- options


def values(person, gate, q):
    found = person.api("/queue/options", db=gate.database, name=q).json
    assert found["unread"] == "", found
    return {each["name"]: each["value"] for each in found["options"]}


def test_the_options_of_a_queue(gate, root, queue):
    q, person = queue(ack_wait="'2m'", max_rate="'5/s'", order_key="'payload'"), root(gate)
    found = values(person, gate, q)
    assert found["ack_wait"] == "120s" and found["order_key"] == "payload" and found["max_rate"].startswith("5")
    assert found["max_attempts"] and found["alarm_after"] == "" and "filter" not in found
    page = person.get("/queue/options", db=gate.database, name=q).text
    assert "docs/reference-options.md" in page and 'value="120s"' in page and "CREATE QUEUE" in page
    assert person.get("/queue/options", db=gate.database, name="nobody").status == 404


def test_options_are_changed_by_the_form(gate, root, queue, sql):
    q, person = queue(max_rate="5"), root(gate)
    where = {"db": gate.database, "name": q}
    fields = {
        **where, "ack_wait": "2m", "was_ack_wait": "30s", "max_rate": "", "was_max_rate": "5", "prefetch": "1000",
        "was_prefetch": "1000", "max_backoff": "", "was_max_backoff": "",
    }  # fmt: skip
    wanted = f"ALTER QUEUE `{gate.database}`.`{q}` SET (ack_wait = '2m', max_rate = DEFAULT)"
    shown = person.post("/queue/options/sql", **fields)
    assert shown.status == 200 and wanted.replace("'", "&#39;") in shown.text
    assert values(person, gate, q)["ack_wait"] == "30s", "it is shown, and not done"
    done = person.post("/queue/options", **fields)
    assert done.status == 303, done.text
    found = values(person, gate, q)
    assert found["ack_wait"] == "120s" and found["max_rate"] == ""
    assert "are changed" in person.get(done.location).text and wanted in gate.log
    assert "ack_wait = '120s'" in sql.row(f"SHOW CREATE QUEUE {q}")[1]


def test_options_are_changed_by_a_program(gate, root, queue):
    q, person = queue(), root(gate)
    where = {"db": gate.database, "name": q}
    told = person.api("/queue/options", given={**where, "prefetch": 7})
    assert told.status == 200 and told.json["statement"].endswith("SET (prefetch = '7')")
    assert values(person, gate, q)["prefetch"] == "7"


def test_options_that_cannot_be(gate, root, queue):
    q, person = queue(), root(gate)
    where = {"db": gate.database, "name": q}
    before = values(person, gate, q)
    wrong = person.post("/queue/options", ack_wait="soon", **where)
    assert wrong.status == 400 and "1231" in wrong.text
    assert "1231" in person.post("/queue/options", prefetch="0", **where).text
    assert person.post("/queue/options", **where).status == 400, "nothing to change"
    unknown = person.api("/queue/options", given={**where, "topic": "t"})
    assert unknown.status == 400 and "no such option" in unknown.json["error"]["message"]
    quote = person.post("/queue/options", dead_letter="x', paused = '1", **where)
    assert quote.status in (303, 400) and values(person, gate, q)["paused"] == before["paused"]


def test_options_of_a_queue_of_any_name(gate, root, hostile):
    person = root(gate)
    assert person.get("/queue/options", db=gate.database, name=HOSTILE).status == 200
    done = person.post("/queue/options", db=gate.database, name=HOSTILE, dead_letter=f"{HOSTILE}dead", prefetch="3")
    assert done.status == 303, done.text
    found = values(person, gate, HOSTILE)
    assert found["dead_letter"] == f"{HOSTILE}dead" and found["prefetch"] == "3"
    assert "<i>" not in person.get("/queue/options", db=gate.database, name=HOSTILE).text


# --- schedules


@pytest.fixture
def schedule(connect, queue):
    """A queue, and a schedule of it that ticks in years."""
    q, maker = queue(), connect()
    name = f"{q[:50]}_tick"
    maker(f"CREATE SCHEDULE {name} ON {q} CRON '0 0 29 2 *' TIME ZONE 'Europe/Berlin' (payload) VALUES ('now')")
    yield q, name
    maker(f"DROP SCHEDULE IF EXISTS {name}")


def lines(person, gate, q):
    return person.api("/queue/schedules", db=gate.database, name=q).json["schedules"]


def test_a_schedule_is_shown_run_paused_resumed_and_dropped(gate, root, schedule, sql):
    (q, name), person = schedule, root(gate)
    fields = {"db": gate.database, "name": q, "schedule": name}
    (line,) = lines(person, gate, q)
    assert (line["name"], line["time_zone"], line["paused"], line["problem"]) == (name, "Europe/Berlin", False, None)
    assert "0 0 29 2 *" in line["rule"] and line["next_tick"] and line["last_tick"] is None and line["created_by"]
    page = person.get("/queue/schedules", db=gate.database, name=q).text
    assert name in page and "Run now" in page and "SHOW SCHEDULES" in page
    assert person.post("/schedule/run", **fields).status == 303
    assert sql.column(f"SELECT payload FROM {q}") == ["now"]
    page = person.get(person.post("/schedule/pause", **fields).location).text
    assert "Undo: resume" in page
    page = person.get(person.post("/schedule/pause", **fields).location).text
    assert "It was so before" in page and "Undo: resume" not in page
    (line,) = lines(person, gate, q)
    assert line["paused"] is True and line["next_tick"] is None
    done = person.post("/schedule/resume", **fields)
    assert f"the schedule {name} ticks again" in person.get(done.location).text
    assert lines(person, gate, q)[0]["paused"] is False
    assert person.api("/schedule/drop", given=fields).json["statement"] == f"DROP SCHEDULE `{gate.database}`.`{name}`"
    assert lines(person, gate, q) == []
    assert person.post("/schedule/run", **fields).status == 404
    assert person.post("/schedule/run", **{**fields, "schedule": ""}).status == 400


def test_schedules_of_a_queue_alone(gate, root, schedule, queue):
    (q, _), person = schedule, root(gate)
    assert lines(person, gate, queue()) == []
    assert person.get("/queue/schedules", db=gate.database, name="nobody").status == 404
    assert len(lines(person, gate, q)) == 1


def test_a_schedule_of_any_name(gate, root, hostile):
    cursor, quoted = hostile
    cursor.execute(f"CREATE SCHEDULE {quoted} ON {quoted} EVERY '3000d' (payload) VALUES ('now')")
    person, fields = root(gate), {"db": gate.database, "name": HOSTILE, "schedule": HOSTILE}
    page = person.get("/queue/schedules", db=gate.database, name=HOSTILE)
    assert page.status == 200 and "<i>" not in page.text and "3000d" in page.text
    for path in ("/schedule/run", "/schedule/pause", "/schedule/resume", "/schedule/drop"):
        done = person.post(path, **fields)
        assert done.status == 303, (path, done.text)
    assert lines(person, gate, HOSTILE) == []
