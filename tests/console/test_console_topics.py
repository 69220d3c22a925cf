"""The pages of topics, of seeks, of event groups and of the system; over HTTP, on both backends, and as JSON."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

import pytest
from console_browser import opened
from servers import Gate, Sql, wait_until

pytestmark = pytest.mark.long

HELD_LONG = "START AT EARLIEST WITH (ack_wait = '1h', max_backoff = '2h')"


@pytest.fixture
def gate(console):
    return console()


def group_of(person, gate, t, name="billing"):
    groups = person.api("/topic", db=gate.database, name=t).json["groups"]
    return next(each for each in groups if each["name"] == name)


def fill(sql, t, count):
    sql(f"INSERT INTO {t} (payload) VALUES {', '.join('(%s)' for _ in range(count))}", *map(str, range(count)))


# --- topics


def test_a_topic_with_its_groups_and_members(gate, root, topic, sql, stream):
    t, person = topic(billing=HELD_LONG, audit=""), root(gate)
    where = {"db": gate.database, "name": t}
    fill(sql, t, 5)
    member = stream(f"SELECT id FROM STREAM {t} WITH (group = 'billing', consumer = 'worker <7>', prefetch = 2)")
    member.wait(2)
    screen = stream(f"SELECT id FROM STREAM {t} WITH (mode = 'broadcast')", program_name="screen")
    wait_until(lambda: len(person.api("/topic", **where).json["consumers"]) == 2, what="both readers to be known")
    wait_until(lambda: group_of(person, gate, t)["in_flight"] == 2, what="what is in flight to be counted anew")
    found = person.api("/topic", **where).json
    assert (found["figures"]["messages"], found["figures"]["last_offset"]) == (5, 5)
    assert [each["name"] for each in found["groups"]] == ["audit", "billing"]
    assert found["groups"][0]["unread"] == 5 and found["groups"][0]["members"] == 0
    assert (found["groups"][1]["members"], found["groups"][1]["in_flight"]) == (1, 2)
    members = {each["connection"]: each for each in found["consumers"]}
    assert members[member.id]["consumer"] == "worker <7>" and members[member.id]["group"] == "billing"
    assert members[screen.id]["group"] is None
    page = person.get("/topic", **where)
    assert page.status == 200 and "worker &lt;7&gt;" in page.text and "nobody receives: 5 unread" in page.text
    assert "<html" not in person.get("/topic/now", **where).text
    overview = person.get("/", filter=t).text
    assert re.search(rf'href="/topic\?db={gate.database}&amp;name={t}"', overview), "the overview leads there"
    assert person.get("/queue", db=gate.database, name=f"{t}_group_billing").status == 200
    assert person.get("/queue/schedules", **where).status == 200
    group_page = person.get("/queue/options", db=gate.database, name=f"{t}_group_billing")
    assert group_page.status == 200 and "consumer group billing" in group_page.text


def test_what_is_no_topic(gate, root, queue):
    person = root(gate)
    assert person.get("/topic", db=gate.database, name="nobody").status == 404
    assert person.get("/topic", db=gate.database, name=queue()).status == 404
    assert person.get("/topic").status == 400


# --- seeks


def seek_page(person, gate, t, to, value="", group="billing"):
    return person.api("/topic/seek", db=gate.database, name=t, group=group, to=to, value=value).json


def test_a_seek_says_first_what_it_will_do(gate, root, topic, sql, stream):
    t, person = topic(billing=HELD_LONG), root(gate)
    fill(sql, t, 10)
    member = stream(f"SELECT id FROM STREAM {t} WITH (group = 'billing')")
    member.wait(10)
    sql(f"ACK {t} 1, 2, 3, 4 GROUP billing")
    wait_until(lambda: group_of(person, gate, t)["in_flight"] == 6, what="the acks to be counted")
    back = seek_page(person, gate, t, "offset", "3")
    assert back["sql"] == f"ALTER GROUP `billing` ON `{gate.database}`.`{t}` SEEK TO OFFSET 3"
    said = " ".join(back["will"])
    assert "continues from offset 3" in said and "again: 8," in said and "6 in flight" in said
    assert "nothing is skipped" in " ".join(seek_page(person, gate, t, "latest")["will"])
    assert "again: 10," in " ".join(seek_page(person, gate, t, "earliest")["will"])
    assert "is refused, unless" in " ".join(seek_page(person, gate, t, "offset", "100")["will"])
    assert group_of(person, gate, t)["offset"] == 10, "nothing was done"
    page = person.get("/topic/seek", db=gate.database, name=t, group="billing", to="offset", value="3")
    assert page.status == 200 and "SEEK TO OFFSET 3" in page.text and "Move the group" in page.text
    empty = person.get("/topic/seek", db=gate.database, name=t, group="billing")
    assert "Move the group" not in empty.text and "SEEK TO" not in empty.text, "nothing is chosen yet"


def test_a_seek_forward_skips(gate, root, topic, sql):
    t, person = topic(billing="START AT EARLIEST"), root(gate)
    fill(sql, t, 10)
    assert "never gets them: 6," in " ".join(seek_page(person, gate, t, "offset", "7")["will"])
    sql(f"DELETE FROM {t} WHERE id IN (2, 3)")
    assert "never gets them: 4," in " ".join(seek_page(person, gate, t, "offset", "7")["will"]), "they are counted"


@pytest.mark.parametrize(("to", "value", "first"), [("earliest", "", 1), ("offset", "4", 4), ("latest", "", 7)])
def test_a_group_is_moved(gate, root, topic, sql, stream, to, value, first):
    t, person = topic(billing="START AT EARLIEST"), root(gate)
    fill(sql, t, 6)
    fields = {"db": gate.database, "name": t, "group": "billing", "to": to, "value": value}
    done = person.post("/topic/seek", **fields)
    assert done.status == 303, done.text
    assert "the group billing continues from" in person.get(done.location).text
    fill(sql, t, 1)
    receiver = stream(f"SELECT id FROM STREAM {t} WITH (group = 'billing')")
    receiver.wait(8 - first)
    assert sorted(receiver.ids()) == list(range(first, 8))
    assert "SEEK TO" in gate.log and "account=root" in gate.log


def test_a_seek_tells_a_program_how_many_it_dropped(gate, root, topic, sql, stream):
    t, person = topic(billing=HELD_LONG), root(gate)
    fill(sql, t, 3)
    stream(f"SELECT id FROM STREAM {t} WITH (group = 'billing')").wait(3)
    fields = {"db": gate.database, "name": t, "group": "billing", "to": "earliest"}
    told = person.api("/topic/seek", given=fields)
    assert told.status == 200 and told.json["dropped"] == 3 and "drops 3" in told.json["done"]


@pytest.fixture
def other_zone(place, request):
    """Another time zone of the server for who connects meanwhile; the embedded backend has that of the process."""
    if place == "embedded":
        yield
        return
    with request.getfixturevalue("mariadb").connect() as admin, admin.cursor() as cursor:
        cursor.execute("SET GLOBAL time_zone = '+05:00'")
        try:
            yield
        finally:
            cursor.execute("SET GLOBAL time_zone = 'SYSTEM'")


def test_a_time_is_utc_whatever_the_servers_zone_is(gate, topic, sql, other_zone, root):
    t, person = topic(billing=""), root(gate)
    fill(sql, t, 4)
    now = int(time.time())
    for n in range(1, 5):
        sql(f"UPDATE {t} SET time_created = %s WHERE id = %s", (now - 3600 * (10 - n)) * 1_000_000_000, n)
    at = datetime.fromtimestamp(now - 3600 * 8 + 60, UTC).strftime("%Y-%m-%d %H:%M:%S")
    preview = seek_page(person, gate, t, "timestamp", at)
    assert "from offset 3" in preview["will"][0] and f"TIMESTAMP '{at}'" in preview["sql"]
    fields = {"db": gate.database, "name": t, "group": "billing", "to": "timestamp", "value": at.replace(" ", "T")}
    assert person.post("/topic/seek", **fields).status == 303
    wait_until(lambda: group_of(person, gate, t)["unread"] == 2, what="the group to be there")


def test_seeks_that_cannot_be(gate, root, topic):
    t, person = topic(billing=""), root(gate)
    where = {"db": gate.database, "name": t}
    assert person.get("/topic/seek", group="nobody", **where).status == 404
    assert person.get("/topic/seek", **where).status == 404
    assert "whole number" in seek_page(person, gate, t, "offset", "x")["mistake"]
    assert "UTC" in person.get("/topic/seek", group="billing", to="timestamp", value="soon", **where).text
    for to, value in (("offset", "x"), ("timestamp", "2026-05-01' OR '1"), ("", ""), ("elsewhere", "1")):
        assert person.post("/topic/seek", group="billing", to=to, value=value, **where).status == 400
    refused = person.post("/topic/seek", group="billing", to="offset", value="1000000", **where)
    assert refused.status == 400 and "ERROR" in refused.text, "beyond the end of the topic"
    assert person.post("/topic/seek", group="nobody", to="latest", **where).status in (400, 404)
    hostile = person.post("/topic/seek", group="a`b'<i>%s", to="latest", **where)
    assert hostile.status in (400, 404) and "<i>" not in hostile.text


def test_a_topic_of_any_name(gate, root, connect):
    name, cursor, person = "t`b'\"<i>%s%", connect().connection.cursor(), root(gate)
    quoted = f"`{name.replace('`', '``')}`"
    cursor.execute(f"CREATE TOPIC {quoted} (payload VARCHAR(50))")
    try:
        cursor.execute(f"CREATE GROUP billing ON {quoted} START AT EARLIEST")
        cursor.execute(f"INSERT INTO {quoted} (payload) VALUES ('a')")
        page = person.get("/topic", db=gate.database, name=name)
        assert page.status == 200 and "<i>" not in page.text
        shown = person.get("/topic/seek", db=gate.database, name=name, group="billing", to="offset", value="1")
        assert shown.status == 200 and "<i>" not in shown.text
        fields = {"db": gate.database, "name": name, "group": "billing", "to": "offset", "value": "1"}
        assert person.post("/topic/seek", **fields).status == 303
        at = person.api("/topic/seek", **{**fields, "to": "timestamp", "value": "2026-01-01"}).json
        assert at["mistake"] == "" and "not known" not in " ".join(at["will"]), at
    finally:
        cursor.execute(f"DROP GROUP IF EXISTS billing ON {quoted}")
        cursor.execute(f"DROP TOPIC {quoted}")


# --- event groups


@pytest.fixture
def parts(connect, name):
    """A queue of groups, and one of what is held; the values of its groups could be markup."""
    maker, members, follow = connect(), name, f"{name}_done"
    maker(f"CREATE QUEUE {members} (part_of VARCHAR(40), payload TEXT) WITH (group_key = 'part_of')")
    maker(f"CREATE QUEUE {follow} (part_of VARCHAR(40))")
    yield members, follow
    maker(f"DELETE FROM {follow}")
    maker(f"DROP QUEUE {members}")
    maker(f"DROP QUEUE {follow}")


def test_what_waits_for_what(gate, root, parts, sql):
    (members, follow), person = parts, root(gate)
    value = "<b>42</b>"
    sql(f"INSERT INTO {members} (part_of, payload) VALUES (%s, 'a'), (%s, 'b'), ('43', 'c')", value, value)
    sql(f"INSERT INTO {follow} (part_of) VALUES ('x') AFTER GROUP '{value}' OF {members}")
    sql(f"INSERT INTO {follow} (part_of) VALUES ('y') AFTER GROUP '43' OF {members}")
    found = person.api("/event-groups", db=gate.database, queue=members).json
    assert found["refused"] == [] and found["counted"] == members
    told = [(each["message_queue"]["name"], each["message"], each["value"], each["open"]) for each in found["held"]]
    assert told == [(follow, "1", value, 2), (follow, "2", "43", 1)]
    page = person.get("/event-groups", db=gate.database, queue=members)
    assert page.status == 200 and "&lt;b&gt;42" in page.text and value not in page.text
    assert person.get("/message", db=gate.database, name=follow, id=1).status == 200, "where the page leads"
    sql(f"ACK {members} WHERE part_of = '43'")
    held = person.api("/event-groups", db=gate.database, queue=members).json["held"]
    assert [each["message"] for each in held] == ["1"], "what is sent is held no more"


def test_what_is_held_in_pages_by_key(gate, root, parts, sql):
    (members, follow), person = parts, root(gate)
    sql(f"INSERT INTO {members} (part_of, payload) VALUES ('g', 'a')")
    for _ in range(51):
        sql(f"INSERT INTO {follow} (part_of) VALUES ('x') AFTER GROUP 'g' OF {members}")
    first = person.api("/event-groups", db=gate.database, queue=members).json
    second = person.api("/event-groups", db=gate.database, queue=members, after=first["after"]).json
    assert (len(first["held"]), len(second["held"]), second["after"]) == (50, 1, "")
    assert len({each["message"] for each in first["held"] + second["held"]}) == 51
    assert first["held"][0]["open"] == 1
    page = person.get("/event-groups", db=gate.database, queue=members)
    assert 'rel="next"' in page.text
    assert person.get("/event-groups", db=gate.database, after="???").status == 400


def test_event_groups_that_are_not_there(gate, root, parts):
    person = root(gate)
    assert person.get("/event-groups").status == 200
    assert person.get("/event-groups", db="no`such'<i>").status == 404
    assert person.api("/event-groups", db=gate.database, queue="a'b`%s").json["held"] == []


# --- the system


def test_the_system(gate, root, queue, stream):
    q, person = queue(), root(gate)
    receiver = stream(f"SELECT id FROM STREAM {q}")
    found = person.api("/system").json
    assert found["refused"] == [], found
    assert found["version"] and found["console_version"] and str(gate.port) in found["proxy"]
    assert receiver.id in {each["id"] for each in found["connections"]}
    names = {each["name"] for each in found["variables"]}
    assert {"version", "max_connections", "sql_mode"} <= names
    page = person.get("/system")
    assert page.status == 200 and found["version"] in page.text and q in page.text


def test_the_proxies_of_the_system(own_mariadb, tmp_path, root):
    """At a server of its own: the page has those of twenty databases."""
    gate = Gate(own_mariadb.url(), tmp_path, console={"listen": "127.0.0.1:0"}).start()
    try:
        person = root(opened(gate))
        (own,) = wait_until(lambda: person.api("/system").json["proxies"], 30, "the proxy to register")
        assert own["database"] == gate.database and len(own["id"]) == 8
        assert own["seen_ns"] > 0 and own["workers"] == 1
    finally:
        gate.stop()


def test_the_system_tells_no_secret(new_console, root, place):
    gate = new_console()
    person = root(gate)
    page = person.get("/system").text + person.api("/system").text
    assert "secret" not in page.lower().replace("secrets", "").replace("peers.secret", "")
    if place == "mariadb":
        client = Sql(gate.connect())
        secrets = client.column("SELECT secret FROM queuegate_proxies")
        client.close()
        assert secrets and all(secret not in page for secret in secrets)
