"""What the pages show and change, over HTTP, on both backends; and the same as JSON."""

from __future__ import annotations

import re
import time

import pytest
from servers import Sql, Stream, wait_until

pytestmark = pytest.mark.long


@pytest.fixture
def gate(console):
    return console()


def test_the_overview_lists_queues_and_topics(gate, root, queue, topic, sql):
    q, t = queue("payload VARCHAR(50)"), topic("body TEXT")
    sql(f"INSERT INTO {q} (payload) VALUES ('a'), ('b')")
    page = root(gate).get("/", filter=q).text
    row = re.search(rf"<tr>.*?{q}.*?</tr>", page, re.DOTALL)
    assert row and ">2</a></td>" in row[0], page
    assert "nobody receives: 2 ready" in row[0]
    assert page.index("need") < page.index("nobody receives: 2 ready") < page.index("<table"), "problems come first"
    assert t in root(gate).get("/", filter=t).text
    found = root(gate).api("/queues", filter=q).json
    assert found["attention"][0]["name"] == f"{gate.database}.{q}"
    assert found["attention"][0]["problem"]["text"].startswith("nobody receives: 2 ready")
    assert [line["figures"]["queue"]["name"] for line in found["queues"]] == [q]
    assert found["queues"][0]["figures"]["ready"] == 2


def test_the_overview_is_refreshed_by_a_part_of_it(gate, root, queue):
    q, person = queue(), root(gate)
    part = person.get("/overview/now", filter=q)
    assert part.status == 200 and q in part.text and "<html" not in part.text


@pytest.mark.parametrize("sort", ["name", "ready", "in_flight", "dead", "oldest", "receivers", "acked"])
def test_the_overview_can_be_ordered(gate, root, queue, sql, sort):
    few, many = queue(), queue()
    sql(f"INSERT INTO {few} (payload) VALUES ('a')")
    sql(f"INSERT INTO {many} (payload) VALUES ('a'), ('b')")
    lines = root(gate).api("/queues", filter="can_be_ordered", sort=sort).json["queues"]
    names = [line["figures"]["queue"]["name"] for line in lines]
    assert set(names) == {few, many}
    if sort == "ready":
        assert names == [many, few]


def test_dead_letters_and_groups_are_shown_under_their_queue_and_topic(gate, root, queue, topic, sql):
    q, t, person = queue(), topic(billing="START AT EARLIEST"), root(gate)
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    sql(f"INSERT INTO {t} (payload) VALUES ('a'), ('b')")
    sql(f"REJECT {q} 1 REASON 'HTTP 503'")
    try:
        wait_until(lambda: person.api("/queues", filter=q).json["queues"][0]["figures"]["dead"], 20, "the dead letter")
        (line,) = person.api("/queues", filter=q).json["queues"]
        assert line["dead_letters"] == {"database": gate.database, "name": f"{q}_dead"}
        page = person.get("/", filter=q).text
        assert f'href="/dead?db={gate.database}&amp;name={q}_dead"' in page and "1 dead letter" in page
        assert ">1 queue with this in the name<" in page, "as many as without a filter it counts for one"
        assert f'href="/queue?db={gate.database}&amp;name={q}_dead"' not in page
        assert len(person.api("/queues", filter=f"{q}_dead").json["queues"]) == 1, "whoever asks for it by name"
        found = person.api("/queues", filter=t).json
        assert found["queues"] == [] and [one["group"]["name"] for one in found["topics"][0]["groups"]] == ["billing"]
        assert found["topics"][0]["groups"][0]["group"]["unread"] == 2
        assert "nobody receives: 2 unread" in person.get("/", filter=t).text
        topics = person.api("/topics", filter=t).json["topics"]
        assert [each["figures"]["topic"]["name"] for each in topics] == [t]
    finally:
        sql(f"DROP QUEUE IF EXISTS {q}_dead")


@pytest.mark.parametrize("place", ["embedded"], indirect=True)  # 201 queues take a server half a minute
def test_counts_are_left_out_where_too_many_queues_fit(gate, root, connect):
    maker = connect()
    for n in range(201):
        maker(f"CREATE QUEUE crowd_of_201_{n:03d} (payload INT)")
    try:
        person = root(gate)
        found = person.api("/queues", filter="crowd_of_201_").json
        assert (found["matching"], found["counted"], found["pages"]) == (201, False, 5)
        assert len(found["queues"]) == 50
        assert found["queues"][0]["figures"]["ready"] is None
        assert "at most 200 queues" in person.get("/", filter="crowd_of_201_").text
        last = person.api("/queues", filter="crowd_of_201_", page=5).json["queues"]
        assert [line["figures"]["queue"]["name"] for line in last] == ["crowd_of_201_200"]
        assert person.api("/queues", filter="crowd_of_201_20").json["queues"][0]["figures"]["ready"] == 0
    finally:
        for n in range(201):
            maker(f"DROP QUEUE crowd_of_201_{n:03d}")


@pytest.mark.parametrize("place", ["embedded"], indirect=True)  # 51 topics take a server long
def test_topics_are_in_pages_and_all_of_them_are_examined(gate, root, connect):
    maker, person, last = connect(), root(gate), "topic_of_51_50"
    for n in range(51):
        maker(f"CREATE TOPIC topic_of_51_{n:02d} (payload INT)")
    try:
        assert "Nothing that matches the filter needs attention" in person.get("/", filter="topic_of_51_").text
        maker(f"CREATE GROUP billing ON {last} START AT EARLIEST")
        maker(f"INSERT INTO {last} (payload) VALUES (1), (2)")
        page = person.get("/", filter="topic_of_51_").text
        assert "nobody receives: 2 unread" in page and "Nothing" not in page
        assert "The first 50 of 51 are shown" in page
        overview = person.api("/queues", filter="topic_of_51_").json
        assert (len(overview["topics"]), overview["topics_total"], overview["groups_counted"]) == (50, 51, True)
        assert overview["attention"][0]["name"] == f"{gate.database}.{last} group billing"
        first, second = (person.api("/topics", filter="topic_of_51_", page=n).json for n in (1, 2))
        assert (len(first["topics"]), first["pages"], first["total"]) == (50, 2, 51)
        (row,) = second["topics"]
        assert row["figures"]["topic"]["name"] == last and row["groups"][0]["group"]["unread"] == 2
        assert 'rel="next"' in person.get("/topics", filter="topic_of_51_").text
        assert 'rel="prev"' in person.get("/topics", filter="topic_of_51_", page=2).text
    finally:
        maker(f"DROP GROUP IF EXISTS billing ON {last}")
        for n in range(51):
            maker(f"DROP TOPIC topic_of_51_{n:02d}")


def test_a_queue_whose_id_is_written_in_capitals(gate, root, connect, name):
    maker, person, where = connect(), root(gate), {"db": gate.database, "name": name}
    maker(f"CREATE QUEUE {name} (ID BIGINT PRIMARY KEY, payload VARCHAR(50)) WITH (max_attempts = 1)")
    try:
        maker(f"INSERT INTO {name} (ID, payload) VALUES (7, 'a'), (8, 'b')")
        assert person.get("/queue", **where).status == 200
        assert [row["id"] for row in person.api("/messages", **where).json["rows"]] == ["7", "8"]
        assert person.api("/message", id=7, **where).json["message"]["columns"][0]["name"] == "payload"
        assert person.get("/message/edit", id=7, **where).status == 200
        assert person.get("/queue/publish", **where).status == 200
        assert person.api("/message/edit", given={**where, "id": "7", "priority": "3"}).json["changed"] == 1
        assert person.api("/message/reject", given={**where, "id": "7", "reason": "no"}).status == 200
        wait_until(lambda: person.api("/queues", filter=name).json["queues"][0]["figures"]["dead"], 20, "a dead letter")
        assert person.get("/dead", db=gate.database, name=f"{name}_dead").status == 200
    finally:
        maker(f"DROP QUEUE {name}")
        maker(f"DROP QUEUE IF EXISTS {name}_dead")


def test_what_is_no_record_of_failures_is_no_defect(gate, root, queue, sql):
    q, person = queue("payload VARCHAR(50)"), root(gate)
    where = {"db": gate.database, "name": q, "id": 1}
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    for stored in ('[{"attempt": NaN, "error": "a\\ud800b"}]', "[" * 100_000):
        sql(f"UPDATE {q} SET failed_attempts = %s", stored)
        assert person.get("/message", **where).status == 200
        assert person.api("/message", **where).status == 200
    refused = person.api("/queue/options", given={"db": gate.database, "name": q, "\ud800": "x"})
    assert refused.status == 400 and "there is no such option" in refused.text
    assert "Traceback" not in gate.log


def test_a_queue_with_its_messages_by_state(gate, root, queue, sql, stream):
    q, person = queue("payload VARCHAR(50)"), root(gate)
    sql(f"INSERT INTO {q} (payload) VALUES ('to be acked'), ('to fail'), ('to be held')")
    held = stream(f"SELECT id, payload FROM STREAM {q}")
    held.wait(3)
    sql(f"ACK {q} 1")
    sql(f"NACK {q} 2 DELAY 3600 REASON 'HTTP 429'")
    sql(f"INSERT INTO {q} (payload) VALUES ('later') DELAY '1h'")

    def ids(state):
        found = person.api("/messages", db=gate.database, name=q, state=state).json
        assert found["refused"] == "", found
        return [row["id"] for row in found["rows"]]

    assert ids("acked") == ["1"]
    assert ids("retrying") == ["2"]
    assert ids("in_flight") == ["3"]
    assert ids("scheduled") == ["4"]
    assert ids("ready") == ids("parked") == []
    assert sorted(ids("unacked")) == ["2", "3", "4"]
    assert ids("all") == ["4", "3", "2", "1"]
    page = person.get("/queue", db=gate.database, name=q, state="retrying").text
    assert "HTTP 429" in page and "to fail" in page and "SELECT" in page


@pytest.mark.parametrize("state", ["unacked", "all", "acked"])
def test_pages_of_messages_by_key(gate, root, queue, sql, state):
    q, person = queue("payload INT"), root(gate)
    sql(f"INSERT INTO {q} (payload, priority) VALUES {', '.join(f'({n}, {50 + n % 3})' for n in range(120))}")
    sql(f"UPDATE {q} SET time_next = NULL WHERE id < 5")
    if state == "acked":
        sql(f"ACK {q} WHERE payload >= 0")
    seen, after = [], ""
    for _ in range(3):
        found = person.api("/messages", db=gate.database, name=q, state=state, after=after).json
        assert found["refused"] == "", found
        seen += [row["id"] for row in found["rows"]]
        after = found["after"]
    assert after == ""
    assert len(seen) == len(set(seen)) == 120
    wanted = {
        "unacked": "SELECT id FROM {} ORDER BY priority, time_next, id",
        "all": "SELECT id FROM {} ORDER BY id DESC",
        "acked": "SELECT id FROM {} ORDER BY time_acked DESC, priority DESC, time_next DESC, id DESC",
    }[state]
    assert seen == [str(each) for each in sql.column(wanted.format(q))]


def test_the_select_that_is_shown_is_the_one_that_was_run(gate, root, queue, sql):
    q = queue("payload VARCHAR(50)")
    sql(f"INSERT INTO {q} (payload) VALUES ('a'), ('b')")
    found = root(gate).api("/messages", db=gate.database, name=q, state="ready").json
    assert [str(row["id"]) for row in sql.named(found["sql"])] == [row["id"] for row in found["rows"]]


def test_a_message_with_its_failed_attempts(gate, root, queue, sql):
    q, person = queue("payload VARCHAR(50)"), root(gate)
    sql(f"INSERT INTO {q} (payload) VALUES ('poison')")
    for reason in ("HTTP 500", "HTTP 503"):
        sql.rows(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 10 WITH (consumer = 'mailer')")
        sql(f"NACK {q} 1 DELAY 0 REASON %s", reason)
    page = person.get("/message", db=gate.database, name=q, id=1)
    assert page.status == 200
    assert "poison" in page.text and "HTTP 500" in page.text and "HTTP 503" in page.text
    found = person.api("/message", db=gate.database, name=q, id=1).json
    assert [each["error"] for each in found["attempts"]] == ["HTTP 500", "HTTP 503"]
    assert found["explained"]["state"] and found["refused"] == []


def test_who_holds_a_message(gate, root, queue, sql, stream):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('x')")
    receiver = stream(f"SELECT id FROM STREAM {q} WITH (consumer = 'mailer-3')")
    receiver.wait(1)
    found = root(gate).api("/message", db=gate.database, name=q, id=1).json
    assert found["explained"]["holder"] == receiver.id
    assert found["explained"]["consumer"] == "mailer-3"
    assert "mailer-3" in root(gate).get("/message", db=gate.database, name=q, id=1).text


def test_ids_that_are_texts_and_bytes(gate, root, queue, sql):
    person = root(gate)
    texts = queue("id VARCHAR(40), payload INT")
    given = ["a/b?c", "100%s", 'it\'s \\ "so"', "0xff"]
    for id_ in given:
        sql(f"INSERT INTO {texts} (id, payload) VALUES (%s, 1)", id_)
    ids = [row["id"] for row in person.api("/messages", db=gate.database, name=texts).json["rows"]]
    assert sorted(ids) == sorted(given)
    for id_ in ids:
        assert person.get("/message", db=gate.database, name=texts, id=id_).status == 200
        assert person.api("/message", db=gate.database, name=texts, id=id_).json["message"]["id"] == id_
    binary = queue("id VARBINARY(16), payload INT")
    sql(f"INSERT INTO {binary} (id, payload) VALUES (X'00ff10', 1)")
    rows = person.api("/messages", db=gate.database, name=binary).json["rows"]
    assert [row["id"] for row in rows] == ["0x00ff10"]
    found = person.api("/message", db=gate.database, name=binary, id="0x00ff10").json
    assert found["message"]["id"] == "0x00ff10"


@pytest.mark.parametrize("kind", ["DATE", "DATETIME(6)", "DECIMAL(12,2)", "VARBINARY(20)"])
def test_ids_of_other_types_go_on_over_pages(gate, root, queue, sql, kind):
    q, person = queue(f"id {kind} PRIMARY KEY, payload INT"), root(gate)
    texts = {"DATE": "2026-0{}-{:02d}", "DATETIME(6)": "2026-01-0{} 00:00:{:02d}.5"}
    ids = [texts.get(kind, "{}{:02d}").format(1 + n // 28, 1 + n % 28) for n in range(56)]
    sql(f"INSERT INTO {q} (id, payload) VALUES {', '.join(['(%s, 1)'] * len(ids))}", *ids)
    where = {"db": gate.database, "name": q}
    first = person.api("/messages", **where).json
    second = person.api("/messages", **where, after=first["after"]).json
    assert (len(first["rows"]), len(second["rows"]), second["after"]) == (50, 6, "")
    assert len({row["id"] for row in (*first["rows"], *second["rows"])}) == 56
    assert person.get("/queue", **where, after=first["after"]).status == 200
    assert person.get("/message", **where, id=second["rows"][0]["id"]).status == 200
    told = person.api("/messages/ack", given={**where, "until": second["rows"][-1]["id"], "at": time.time_ns()}).json
    assert told["changed"] == 56


@pytest.mark.parametrize("given", [{"name": "\ud800"}, {"id": "\ud800"}, {"db": "a\udfff"}])
def test_half_a_character_is_refused(gate, root, queue, given):
    answer = root(gate).api("/message/ack", given={"db": gate.database, "name": queue(), "id": "1", **given})
    assert answer.status == 400 and "half a character" in answer.json["error"]["message"]


def test_ids_with_line_breaks(gate, root, queue, sql):
    """A browser sends the line breaks of a field as CRLF."""
    q, person = queue("id VARCHAR(40), payload INT"), root(gate)
    for each in ("a\nb", "a\rb", "a\r\nb"):
        sql(f"INSERT INTO {q} (id, payload) VALUES (%s, 1)", each)
        page = person.get("/message", db=gate.database, name=q, id=each).text
        form = re.search(r'<form method="post" action="/message/ack">.*?</form>', page, re.DOTALL)[0]
        fields = {
            name: re.sub("\r\n?|\n", "\r\n", value)
            for name, value in re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', form)
        }
        assert person.post("/message/ack", **{**fields, "token": person.token}).status == 303
    assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_acked IS NULL") == 0


def test_names_and_values_that_could_be_markup_or_sql(gate, root, connect):
    name, person, maker = "a`b'\"<b>%s%", root(gate), connect()
    quoted = f"`{name.replace('`', '``')}`"
    maker(f"CREATE QUEUE {quoted} (`c%d<i>` VARCHAR(100))")
    try:
        maker.connection.cursor().execute(f"INSERT INTO {quoted} (`c%d<i>`) VALUES ('<script>alert(1)</script>')")
        overview = person.get("/", filter="a`b'").text
        assert "<b>" not in overview and "&lt;b&gt;" in overview
        page = person.get("/queue", db=gate.database, name=name)
        assert page.status == 200 and "<script>alert" not in page.text and "&lt;script&gt;" in page.text, page.text
        assert person.get("/message", db=gate.database, name=name, id=1).status == 200
        assert person.post("/queue/pause", db=gate.database, name=name).status == 303
        assert person.api("/queue", db=gate.database, name=name).json["now"]["figures"]["paused"] is True
    finally:
        maker.connection.cursor().execute(f"DROP QUEUE {quoted}")


def test_a_queue_is_paused_and_resumed(gate, root, queue, sql):
    q, person = queue(), root(gate)
    where = {"db": gate.database, "name": q}
    done = person.post("/queue/pause", **where)
    assert done.status == 303
    page = person.get(done.location)
    assert "is paused" in page.text and "Resume" in page.text
    assert "is paused: it accepts messages and delivers none" not in person.get(done.location).text, "told once"
    assert "paused" in dict(zip(sql.column("SHOW QUEUES"), sql.rows("SHOW QUEUES"), strict=True))[q][-1]
    page = person.get(person.post("/queue/pause", **where).location).text
    assert "It was so before" in page and "Undo: resume" not in page
    page = person.get(person.post("/queue/resume", **where).location).text
    assert "Undo: pause" in page
    assert person.api("/queue/pause", given=where).json["statement"].endswith("PAUSE")
    assert person.api("/queue/resume", given=where).status == 200
    assert f'statement="ALTER QUEUE `{gate.database}`.`{q}` PAUSE"' in gate.log
    assert "account=root" in gate.log


def test_a_queue_is_created_by_the_form(gate, root, name, sql):
    person = root(gate)
    fields = {
        "db": gate.database, "name": name, "column1": "user id", "type1": "bigint", "null1": "required",
        "column2": "pay`load", "type2": "varchar", "length2": "300", "ack_wait": "2m", "max_attempts": "5",
    }  # fmt: skip
    assert "<form" in person.get("/create").text
    shown = person.post("/create/sql", **fields)
    assert shown.status == 200 and "CREATE QUEUE" in shown.text and "ack_wait = &#39;2m&#39;" in shown.text
    assert "column" in person.post("/create/sql", db=gate.database, name=name).text
    done = person.post("/create", **fields)
    assert done.status == 303, done.text
    try:
        assert person.get(done.location).status == 200
        made = sql.row(f"SHOW CREATE QUEUE {name}")[1]
        assert "`user id` bigint" in made.lower() and "300" in made and "pay``load" in made
        assert "2m" in made or "120" in made
        assert person.post("/create", **fields).status == 409
        assert person.post("/create", **{**fields, "name": f"{name}x", "ack_wait": "soon"}).status == 400
        assert "1231" in person.post("/create", **{**fields, "name": f"{name}x", "ack_wait": "soon"}).text
    finally:
        sql(f"DROP QUEUE IF EXISTS {name}")


def test_rates_come_from_the_proxys_counters(gate, root, queue, sql):
    q, person = queue("payload INT"), root(gate)
    wait_until(lambda: person.api("/queues", filter=q).json["rates_known"], 20, "the counters to be read")

    def counted():
        sql(f"INSERT INTO {q} (payload) VALUES (1)")
        now = person.api("/queue/now", db=gate.database, name=q).json
        return now["per_minute"]["enqueued"] and sum(now["rates"]["enqueued"]) > 0

    wait_until(counted, 30, "the rate")
    assert "<polyline" in person.get("/queue/now", db=gate.database, name=q, span="6 h").text


def test_what_is_not_there(gate, root):
    person = root(gate)
    assert person.get("/queue", db=gate.database, name="nobody").status == 404
    assert person.get("/message", db=gate.database, name="nobody", id=1).status == 404
    assert person.get("/nothing").status == 404
    assert person.get("/queue").status == 400
    assert person.get("/", page="x").status == 400
    assert person.get("/queue", db=gate.database, name="a\0b").status == 400
    assert person.api("/queue", db=gate.database, name="nobody").json["error"]["message"]
    assert person.request("DELETE", "/").status == 405


def test_a_session_goes_on_when_the_proxy_was_started_again(new_console, root):
    gate = new_console()
    person = root(gate)
    client = Sql(gate.connect())
    client("CREATE QUEUE q (payload INT)")
    client.close()
    assert "q" in person.get("/").text
    port = person.port
    gate.terminate()
    gate.config["console"] = {"listen": f"127.0.0.1:{port}"}
    gate.start()
    # This console went with its proxy, and its sessions with it: who comes logs in again.
    wait_until(lambda: person.get("/login").status == 200 if _up(port) else False, 20, "the console")
    assert person.get("/").location.startswith("/login")


def _up(port):
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_streams_are_counted(gate, root, queue):
    q = queue()
    with Stream(gate, f"SELECT id FROM STREAM {q}"):
        found = root(gate).api("/queue", db=gate.database, name=q).json
        assert found["now"]["figures"]["receivers"] == 1
