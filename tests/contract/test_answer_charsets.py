"""A client whose results come in another character set than its statements: everything works, in that one."""

from __future__ import annotations

import pytest
from servers import SERVER, Gate, Sql, private

CODECS = {"utf8mb4": "utf-8", "latin1": "cp1252", "NULL": "utf-8", "utf16": "utf-16-be", "ucs2": "utf-16-be"}
TEXTS = ["utf8mb4", "latin1", "gbk"]  # of a client's statements


@pytest.fixture(params=[(texts, results) for texts in TEXTS for results in CODECS], ids="-".join)
def charsets(request, place):
    texts, results = request.param
    if place == "embedded" and (results in ("utf16", "ucs2") or texts == "gbk"):
        pytest.skip("not known there")
    if SERVER == "vitess" or (texts == "gbk" and results == "latin1"):
        pytest.skip("one character set there, or no character of the test's in it")
    return texts, results


@pytest.fixture
def client(gate, charsets):
    texts, results = charsets
    connection = gate.connect(charset=texts, use_unicode=False, conv={})
    made = Sql(connection)
    made(f"SET character_set_results = {results}")
    yield made
    connection.close()


@pytest.fixture
def named(sql, name, charsets):
    """A queue with a name that is not ASCII, but is in every one of the sets."""
    q = f"{name}_{'α' if charsets[0] == 'gbk' else 'größe'}"
    sql(f"CREATE QUEUE `{q}` (payload VARCHAR(100))")
    for payload in ("a", "b", "c"):
        sql(f"INSERT INTO `{q}` (payload) VALUES ('{payload}')")
    yield q
    sql(f"DROP QUEUE `{q}`")


def words(client, sql, codec):
    """All values of an answer's rows as text; ASCII alone may come as such, and says so."""
    wide = codec == "utf-16-be"
    values = [value for row in client.rows(sql) for value in row if isinstance(value, bytes)]
    return [value.decode(codec if not wide or b"\0" in value else "ascii") for value in values]


def test_a_name_is_shown_in_the_clients_own(client, named, charsets):
    codec = CODECS[charsets[1]]
    assert named in words(client, f"SHOW QUEUES LIKE '{named}'", codec)
    assert any(f"`{named}`" in word for word in words(client, f"SHOW CREATE QUEUE `{named}`", codec))
    assert named in words(client, f"SHOW QUEUE STATUS LIKE '{named}'", codec)
    assert named in words(client, "SELECT queue FROM queuegate.queues", codec)


def test_statements_on_queues_work(client, named, sql, name):
    client(f'INSERT INTO `{named}` (payload) VALUES ("z") DELAY 0')
    assert client(f'ACK `{named}` WHERE payload = "z"') == 1
    assert client.rows(f"EXPLAIN DELIVERY FOR `{named}` WHERE payload = 'a'")
    assert len(client.rows(f"SELECT id FROM STREAM `{named}` WHERE payload = 'a' LIMIT 1 NOWAIT")) == 1
    client("SET @queuegate_lease = 'connection'")
    assert len(client.rows(f"SELECT id FROM STREAM `{named}` LIMIT 1 NOWAIT")) == 1
    topic = f"{name}_topic"
    sql(f"CREATE TOPIC {topic} (payload VARCHAR(100))")
    try:
        client(f"CREATE GROUP late ON {topic}")
        client(f"DROP GROUP late ON {topic}")
    finally:
        sql(f"DROP TOPIC {topic}")


def test_set_names_default_is_what_the_server_says(mariadb, tmp_path):
    """In gbk the second byte of a character may be that of a backslash, which escapes nothing then."""
    if SERVER == "vitess":
        pytest.skip("one character set there")
    with private(type(mariadb)(("--character-set-server=gbk",))) as server:
        gate = Gate(server.fresh_database("chinese"), tmp_path, database="chinese").start()
        client = Sql(gate.connect())
        client("CREATE QUEUE q (payload VARCHAR(100) CHARACTER SET utf8mb4)")
        client("INSERT INTO q (payload) VALUES ('a'), ('b')")
        client("SET NAMES DEFAULT")
        assert client.value("SELECT @@character_set_client") == "gbk"
        assert len(client.rows("SELECT id FROM STREAM q LIMIT 2 NOWAIT")) == 2
        client(b"NACK q 1 REASON '\xbf\x5c'")
        client(b"NACK q 2 REASON '\xbf\x5c' /* ' */")
        client("SET NAMES utf8mb4")
        assert client.column("SELECT last_error FROM q ORDER BY id") == [b"\xbf\x5c".decode("gbk")] * 2
        client.close()
        gate.stop()


SETS = [
    ("utf8mb4", "SET NAMES latin1, time_zone = '+00:00'"),
    ("utf8mb4", "SET @x = 1, character_set_client = latin1"),
    ("latin1", "SET NAMES utf8mb4, time_zone = '+00:00'"),
    ("latin1", "SET character_set_client = utf8mb4"),
]


@pytest.fixture(params=SETS, ids=[f"{login} {change}" for login, change in SETS])
def changed(request, gate, place):
    """A client whose statements are in another character set than at its login, by a SET that the proxy does not
    read."""
    if place == "embedded" or SERVER == "vitess":
        pytest.skip("one character set there")
    login, change = request.param
    client = Sql(gate.connect(charset=login))

    def then(database: str) -> Sql:
        client(f"USE `{database}`".encode(client.connection.encoding))
        client(change)
        client(f"SET character_set_results = {login}")
        return client

    yield then
    client.close()


def test_what_the_proxy_writes_of_a_plain_text_has_columns_in_the_new_character_set(sql, name, gate, changed):
    sql(f"CREATE QUEUE {name} (payload VARCHAR(100), `größe` INT)")
    sql(f"INSERT INTO {name} (payload) VALUES ('a')")
    assert len(changed(gate.database).rows(f"SELECT * FROM STREAM {name} LIMIT 1 NOWAIT")) == 1
    sql(f"DROP QUEUE {name}")


def test_what_the_proxy_writes_of_a_plain_text_has_the_database_in_the_new_character_set(sql, name, place, changed):
    if place != "proxy_accounts":
        pytest.skip("the engine's account has rights in one database there")
    other = f"{name[:50]}_größe"
    sql(f"CREATE DATABASE `{other}`")
    sql(f"CREATE QUEUE `{other}`.w (payload VARCHAR(100))")
    sql(f"INSERT INTO `{other}`.w (payload) VALUES ('a'), ('b')")
    try:
        client = changed(other)
        assert client("ACK w 1") == 1
        assert len(client.rows("SELECT id FROM STREAM w LIMIT 1 NOWAIT")) == 1
    finally:
        sql(f"DROP QUEUE `{other}`.w")
        sql(f"DROP DATABASE `{other}`")


def test_a_rename_in_a_new_character_set_is_followed(sql, name, gate, place):
    if place == "embedded" or SERVER == "vitess":
        pytest.skip("one character set there")
    new = f"{name}_注文"
    sql(f"CREATE QUEUE {name} (payload VARCHAR(100))")
    client = Sql(gate.connect(charset="latin1"))
    client("SET NAMES utf8mb4, time_zone = '+00:00'")
    client(f"RENAME TABLE {name} TO `{new}`".encode())
    assert client.value("SELECT 1") == 1
    client.close()
    sql(f"INSERT INTO `{new}` (payload) VALUES ('a')")
    assert len(sql.rows(f"SELECT id FROM STREAM `{new}` LIMIT 1 WAIT 10")) == 1
    sql(f"DROP QUEUE `{new}`")


def test_a_rename_around_the_proxy_is_no_other_clients_to_follow(sql, name, gate, place, server_here):
    """Its name may have no form in that client's character set."""
    if place == "embedded" or SERVER == "vitess":
        pytest.skip("nobody comes around the proxy there")
    new, other = f"{name}_注文", f"{name}_other"
    sql(f"CREATE QUEUE {name} (payload VARCHAR(100))")
    sql(f"CREATE QUEUE {other} (payload VARCHAR(100))")
    client = Sql(gate.connect(charset="latin1"))
    around = Sql(server_here.connect(database=sql.value("SELECT DATABASE()")))
    around(f"RENAME TABLE {name} TO `{new}`")
    around.close()
    client(f"ALTER TABLE {other} ADD COLUMN z INT")
    assert client.value("SELECT 1") == 1
    client.close()
    assert sql.error(f"ACK `{new}` 1")[0] == 1347  # until its mark is its own
    sql(f"ALTER QUEUE `{new}` RESUME")
    assert sql(f"ACK `{new}` 1") == 0
    sql(f"DROP QUEUE `{new}`")
    sql(f"DROP QUEUE {other}")
