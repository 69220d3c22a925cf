"""Ids that are given by hand leave the database ids to go on with, whoever gives them and how (docs/sql.md)."""

from __future__ import annotations

import struct

import mysql.connector
import pymysql
import pytest
from pymysql.constants import FIELD_TYPE
from servers import SERVER, Sql
from wire_client import LONG_DATA, PREPARE, RESET, WireClient, string

HIGHEST = ((1 << 63) - 1) // 2
BEYOND = [
    "INSERT INTO {q} (id, body) VALUES ({n}, 'x')",
    "INSERT INTO {q} (`ID`, body) VALUES ({n}, 'x')",
    "INSERT INTO {q} (body, id) VALUES ('a, (b', 7), ('x', {n})",
    "INSERT INTO {q} (id, body) VALUES ('{n}', 'x')",
    "INSERT INTO {q} (id, body) VALUE (+{n}, 'x')",
    "INSERT INTO {q} SET body = 'x', id = {n}",
    "INSERT IGNORE INTO {q} (id, body) VALUES ({n}, 'x')",
    "insert into {q}(body,id)values('x' ,  {n} )",
]
HIDDEN = [
    "INSERT INTO {q} (/*(*/id, body) VALUES ({n}, 'x')",
    "INSERT INTO {q} (body, # )\n id) VALUES ('x', {n})",
    "INSERT INTO {q} SET body = 'a;b', id = {n}",
    "INSERT INTO {q} SET body = 'id = NULL', `id` = {n}",
]
FOR_ALL = [
    "REPLACE INTO {q} (id, body) VALUES ({n}, 'x')",
    "INSERT INTO {q} (id, body) VALUES ({n}, 'x') ON DUPLICATE KEY UPDATE body = 'y'",
]
NOT_PLAIN = [
    "INSERT INTO {q} (id, body) VALUES ({n} + 1, 'x')",
    "INSERT INTO {q} (id, body) VALUES (1 - -{n}, 'x')",
    "INSERT INTO {q} (id, body) VALUES (0x7fffffffffffffff, 'x')",
    "INSERT INTO {q} (id, body) VALUES (X'7fffffffffffffff', 'x')",
    "INSERT INTO {q} (id, body) VALUES (9.3e18, 'x')",
    "INSERT INTO {q} (id, body) VALUES (ABS(-{n}), 'x')",
    "INSERT INTO {q} (id, body) VALUES (UNIX_TIMESTAMP() * 5000000000, 'x')",
]
TAKEN = ["NULL", "DEFAULT", "0", "-5", "-\t6", "+\n7", "'-9223372036854775808'", "12", "'13'", str(HIGHEST)]


def goes_on(sql, q):
    """The queue still takes messages, and gives them out."""
    sql(f"INSERT INTO {q} (body) VALUES ('after')")
    assert "after" in sql.column(f"SELECT body FROM STREAM {q} LIMIT 100 NOWAIT")


@pytest.mark.parametrize("number", [(1 << 63) - 1, HIGHEST + 1, 10**30])
@pytest.mark.parametrize("text", [*BEYOND, *FOR_ALL])
def test_an_id_beyond_the_highest_is_refused(sql, queue, text, number):
    q = queue("body TEXT")
    errno, message = sql.error(text.format(q=q, n=number))
    assert errno == 1366 and "Out of range value" in message and str(HIGHEST) in message
    goes_on(sql, q)


@pytest.mark.parametrize("value", TAKEN)
def test_ids_up_to_that_are_taken(sql, queue, value):
    q = queue("body TEXT")
    assert sql(f"INSERT INTO {q} (id, body) VALUES ({value}, 'x')") == 1
    goes_on(sql, q)


@pytest.mark.parametrize(
    ("kind", "highest"),
    [
        ("INT AUTO_INCREMENT", (1 << 30) - 1),
        ("BIGINT UNSIGNED AUTO_INCREMENT", HIGHEST),
        ("TINYINT AUTO_INCREMENT", 63),
    ],
)
def test_a_key_of_another_type(sql, queue, kind, highest):
    q = queue(f"id {kind}, body TEXT")
    assert sql.error(f"INSERT INTO {q} (id, body) VALUES ({highest + 1}, 'x')")[0] == 1366
    assert sql(f"INSERT INTO {q} (id, body) VALUES ({highest}, 'x')") == 1
    goes_on(sql, q)


def test_a_key_that_the_database_does_not_number_takes_every_id(sql, queue):
    q = queue("id BIGINT, body TEXT")
    assert sql(f"INSERT INTO {q} (id, body) VALUES (9223372036854775807, 'x')") == 1
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 2 NOWAIT") == [9223372036854775807]


def test_other_columns_may_hold_any_number(sql, queue):
    q = queue("n BIGINT, body TEXT")
    sql(f"INSERT INTO {q} (n, body) VALUES (9223372036854775807, '9223372036854775807')")
    sql(f"INSERT INTO {q} (id, n, body) VALUES (5, 9223372036854775807, '9223372036854775807')")
    goes_on(sql, q)


# --- an account that may only enqueue


@pytest.fixture(scope="module")
def limited(place, gate_of):
    """A gate with an account that may do nothing but enqueue."""
    if place not in ("embedded", "proxy_accounts"):
        pytest.skip("accounts are the server's own here: GRANT INSERT (body) keeps them from giving ids")
    web = {"name": "web", "password": "", "queues": {"*": ["enqueue"]}, "topics": {"*": ["publish"]}}
    return gate_of("given_ids", [{"name": "root", "password": ""}, web])


@pytest.fixture
def accounts(limited, name):
    """The administrator, the limited account, and a queue."""
    root, web = Sql(limited.connect()), Sql(limited.connect(user="web"))
    root(f"CREATE QUEUE {name} (body TEXT)")
    yield root, web, name
    root(f"DROP QUEUE {name}")
    root.close()
    web.close()


@pytest.mark.parametrize("text", [*BEYOND, *NOT_PLAIN])
def test_who_may_only_enqueue_cannot_end_a_queue(accounts, text):
    root, web, q = accounts
    assert web.error(text.format(q=q, n=(1 << 63) - 1))[0] == 1366
    goes_on(root, q)


@pytest.mark.parametrize("text", FOR_ALL)
def test_other_forms_are_not_for_such_an_account(accounts, text):
    root, web, q = accounts
    assert web.error(text.format(q=q, n=1))[0] in (1142, 1366)
    goes_on(root, q)


@pytest.mark.parametrize("value", TAKEN)
def test_such_an_account_may_give_other_ids(accounts, value):
    root, web, q = accounts
    assert web(f"INSERT INTO {q} (id, body) VALUES ({value}, 'x')") == 1
    goes_on(root, q)


def test_a_row_without_a_list_of_columns(accounts):
    root, web, q = accounts
    width = len(root.rows(f"SHOW COLUMNS FROM {q}"))
    row = ", ".join(["9223372036854775807", *(["DEFAULT"] * (width - 1))])
    for columns in ("", "()"):
        assert web.error(f"INSERT INTO {q} {columns} VALUES ({row})")[0] == 1366
    goes_on(root, q)


@pytest.mark.parametrize("number", [(1 << 63) - 1, HIGHEST + 1, str((1 << 63) - 1), 9.3e18, b"9223372036854775807"])
def test_prepared(limited, accounts, number):
    root, _, q = accounts
    link = mysql.connector.connect(
        host="127.0.0.1", port=limited.port, user="web", database=limited.database, autocommit=True, use_pure=True
    )
    cursor = link.cursor(prepared=True)
    text = f"INSERT INTO {q} (body, id) VALUES (?, ?)"
    for _ in range(2):
        with pytest.raises(mysql.connector.Error) as refused:
            cursor.execute(text, ("x", number))
        assert refused.value.errno == 1366
    cursor.execute(text, ("x", 41))
    cursor.execute(text, ("y" * 60_000, None))
    cursor.execute(f"INSERT INTO {q} (body) VALUES (?)", ("z",))
    link.close()
    assert len(root.column(f"SELECT id FROM {q} WHERE id >= 41")) == 3
    goes_on(root, q)


@pytest.mark.parametrize("text", HIDDEN)
def test_it_cannot_hide_an_id(accounts, text):
    root, web, q = accounts
    assert web.error(text.format(q=q, n=(1 << 63) - 1))[0] == 1366
    goes_on(root, q)


@pytest.mark.parametrize("id_", ["\u0130d", "\u0131d", "\u00edd", "i\u1e0b", "id\u0301"])
def test_letters_that_a_server_takes_for_those_of_id(accounts, id_):
    """Each server has its own: a name that is not in ASCII must be a column's as it is written."""
    root, web, q = accounts
    root(f"ALTER TABLE {q} ADD COLUMN größe INT")
    root(f"ALTER QUEUE {q} SET (ack_wait = '1m')")  # it is read again
    for text in ("(body, `{id_}`) VALUES ('x', {n})", "SET body = 'x', `{id_}` = {n}"):
        assert web.error(f"INSERT INTO {q} {text.format(id_=id_, n=(1 << 63) - 1)}")[0] == 1054
    assert web(f"INSERT INTO {q} (`größe`, body) VALUES (5, 'x')") == 1
    assert web(f"INSERT INTO {q} SET `Größe` = 5") == 1
    goes_on(root, q)


def parameters(kind, *values, nulls=0):
    """Of a COM_STMT_EXECUTE, with their types."""
    return bytes((nulls, 1)) + bytes((kind, 0, FIELD_TYPE.VAR_STRING, 0)) + b"".join(values)


@pytest.fixture
def prepared(limited, accounts):
    """A client of the limited account with an INSERT of an id and a body."""
    with WireClient(limited.port, user="web", database=limited.database) as wire:
        yield wire, wire.prepare(f"INSERT INTO {accounts[2]} (id, body) VALUES (?, ?)")


def test_a_value_that_was_sent_ahead_stays_refused(accounts, prepared):
    """A refused execution does not reach the server, which has the value still."""
    root, _, q = accounts
    wire, number = prepared
    text = FIELD_TYPE.VAR_STRING
    for size in (19, 70_000):
        wire.command(LONG_DATA, struct.pack("<IH", number, 0) + b"9223372036854775806".ljust(size))
        assert wire.execute(number, parameters(text, string(b"x"))).errno in (1153, 1366)
        assert wire.execute(number, parameters(text, string(b"x"), nulls=1)).errno in (1153, 1366)
        wire.command(RESET, struct.pack("<I", number))
        assert wire.execute(number, parameters(text, string(b"x"), nulls=1)).affected_rows == 1
    goes_on(root, q)


def test_the_types_of_a_refused_execution_are_not_those_of_the_next(accounts, prepared):
    root, _, q = accounts
    wire, number = prepared
    assert wire.execute(number, parameters(FIELD_TYPE.VAR_STRING, string(b"77"), string(b"x"))).affected_rows == 1
    beyond = struct.pack("<q", (1 << 63) - 2)
    assert wire.execute(number, parameters(FIELD_TYPE.LONGLONG, beyond, string(b"x"))).errno == 1366
    value = string(b"9223372036854775805")  # as a number: eight bytes, and the rest a body
    rest = 8 + 1 + value[8] - len(value) - 1
    assert wire.execute(number, b"\0\0" + value + string(b"e" * rest)).errno == 1366
    assert wire.execute(number, b"\0\0" + string(b"78") + string(b"x")).affected_rows == 1
    goes_on(root, q)
    assert root.value(f"SELECT MAX(id) FROM {q}") == 79


def test_ids_that_are_used_up_are_no_full_disk(limited, accounts, place):
    root, _, q = accounts
    with pytest.raises(pymysql.Error) as used_up:
        root(f"INSERT INTO {q} (id, body) SELECT 9223372036854775807, 'x'")
        root(f"INSERT INTO {q} (body) VALUES ('y')")
    assert used_up.value.args[0] == (1467 if place == "embedded" else 1062 if SERVER == "mysql" else 167)


LAST = (1 << 63) - 1


def _by_select(gate, sql, q):
    sql(f"INSERT INTO {q} (id, body) SELECT {LAST}, 'last'")


def _by_parameter(gate, sql, q):
    link = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True, use_pure=True
    )
    link.cursor(prepared=True).execute(f"INSERT INTO {q} (id, body) VALUES (?, ?)", (LAST, "last"))
    link.close()


@pytest.mark.parametrize("write", [_by_select, _by_parameter])
def test_a_queue_without_ids_delivers_and_is_mended_as_the_page_says(gate, sql, queue, write):
    """Who may write any row may use up the ids (docs/troubleshooting.md)."""
    q = queue("body TEXT")
    sql(f"INSERT INTO {q} (body) VALUES ('first')")
    write(gate, sql, q)
    assert sql.error(f"INSERT INTO {q} (body) VALUES ('none')")[0] in (167, 1467, 1062)
    assert sql.error(f"INSERT INTO {q} (id, body) VALUES ({LAST}, 'x')")[0] == 1366
    assert sql(f"INSERT INTO {q} (id, body) VALUES (17, 'by hand')") == 1
    wanted = {"first", "last", "by hand"}
    assert set(sql.column(f"SELECT body FROM STREAM {q} LIMIT 3 WAIT 10")) == wanted
    assert sql(f"DELETE FROM {q} WHERE id = {LAST}") == 1
    sql(f"ALTER TABLE {q} AUTO_INCREMENT = 1")
    goes_on(sql, q)
    assert sql.value(f"SELECT MAX(id) FROM {q}") == 18


# --- topics


@pytest.fixture
def publishers(limited, name):
    """The administrator, an account that may only publish, and a topic: one with numbers, where there are such."""
    root, web = Sql(limited.connect()), Sql(limited.connect(user="web"))
    numbers = " WITH (sequence = 'on')"
    root(f"CREATE TOPIC {name} (body TEXT){'' if limited.embedded else numbers}")
    root(f"CREATE GROUP g ON {name} START AT EARLIEST")
    yield root, web, name
    root(f"DROP GROUP g ON {name}")
    root(f"DROP TOPIC {name}")
    root.close()
    web.close()


@pytest.mark.parametrize("value", [str((1 << 63) - 1), "5", "'5'", "?", "4 + 1", "ABS(5)"])
@pytest.mark.parametrize("column", ["id", "queuegate_seq"])
def test_who_may_only_publish_cannot_use_up_a_topic(limited, publishers, column, value):
    root, web, t = publishers
    shown = [row[0] for row in root.rows(f"SHOW COLUMNS FROM {t}") if "INVISIBLE" not in row[5]]
    row = ", ".join(value if name == column else "DEFAULT" for name in shown)
    texts = [
        f"INSERT INTO {t} ({column}, body) VALUES ({value}, 'x')",
        f"INSERT INTO {t} (/*(*/{column}, body) VALUES ({value}, 'x')",
        f"INSERT INTO {t} (body, # )\n `{column.upper()}`) VALUES ('a', NULL), ('x', {value})",
        f"INSERT IGNORE INTO {t} SET body = 'a;b', `{column}` = {value}",
        f"INSERT INTO {t} SET body = '{column} = NULL', {column} = {value}",
    ]
    texts += [f"INSERT INTO {t} {columns} VALUES ({row})" for columns in ("", "()") if column in shown]
    with WireClient(limited.port, user="web", database=limited.database) as wire:
        for text in texts:
            assert wire.command(PREPARE, text.encode()).errno == 1235, text
            assert value == "?" or wire.query(text).errno == 1235, text
    for foreign in ("\u0131d", "queuegate_\u017feq"):
        assert web.error(f"INSERT INTO {t} (`{foreign}`, body) VALUES (5, 'x')")[0] == 1054
    assert web(f"INSERT INTO {t} VALUES ({', '.join(['DEFAULT'] * len(shown))})") == 1
    assert web(f"INSERT INTO {t} (id, body) VALUES (NULL, 'x'), (NULL, 'y')") == 2
    assert web(f"INSERT INTO {t} SET body = 'a;b', id = NULL") == 1
    bodies = root.column(f"SELECT body FROM STREAM {t} WITH (group = 'g') LIMIT 4 WAIT 10")
    assert set(bodies) == {None, "x", "y", "a;b"}
