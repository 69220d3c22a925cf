"""MariaDB's extended capabilities: a client of MariaDB's own sees through the proxy to the byte what it sees directly.

Also what the proxy answers itself must be well-formed for such a client.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from servers import SERVER, Gate, MariaDb, Sql, Stream, wait_until
from wire_client import (
    BULK,
    BULK_EXECUTE,
    CACHE_METADATA,
    CLOSE,
    CURSOR_EXISTS,
    DEPRECATE_EOF,
    EXECUTE,
    EXTENDED_METADATA,
    FETCH,
    LAST_PREPARED,
    LOCAL_TO_CLIENTS,
    LONG_PASSWORD,
    NO_SCHEMA,
    PREPARE,
    PROGRESS,
    SSL,
    Answer,
    WireClient,
    bulk,
    frame,
    string,
)

Pair = Callable[..., tuple[WireClient, WireClient]]
pytestmark = pytest.mark.skipif(SERVER == "mysql", reason="what MariaDB alone offers")
FORMS = pytest.mark.parametrize("drop", [0, DEPRECATE_EOF], ids=["deprecate-eof", "eof"])
LONGLONG, VAR_STRING = 8, 0xFD


def number(value: int) -> bytes:
    return struct.pack("<q", value)


def without_number(prepared: Answer) -> Answer:
    """Numbers of statements go on from the connection that the server's thread had before."""
    seq, first = prepared.packets[0]
    return Answer([(seq, first[:1] + bytes(4) + first[5:] if prepared.ok else first), *prepared.packets[1:]])


def test_offered_is_what_the_server_offers(pair: Pair) -> None:
    direct, proxied = pair()
    # The first two are each line's own affair; by the third `x.t` would not be `t` of the database x.
    assert proxied.offered == direct.offered & ~(SSL | LOCAL_TO_CLIENTS | NO_SCHEMA)
    extended = PROGRESS | BULK | EXTENDED_METADATA | CACHE_METADATA
    assert proxied.flags & extended == extended and not proxied.flags & LONG_PASSWORD
    assert proxied.login == direct.login


@FORMS
def test_definitions_are_sent_once(pair: Pair, drop: int) -> None:
    """CACHE_METADATA: they come again only when they have changed."""
    answers = []
    for client in pair(drop=drop):
        client.run("CREATE OR REPLACE TABLE cached (a INT, b VARCHAR(20), c JSON, d POINT)")
        client.run("INSERT INTO cached VALUES (1, 'x', '{}', POINT(1, 2)), (2, NULL, '[]', NULL)")
        statement = client.prepare("SELECT * FROM cached WHERE a > ?")
        given = b"\x00\x01\x08\x00" + number(0)
        seen = [client.execute(statement, given) for _ in range(3)]
        client.run("ALTER TABLE cached ADD e DATE")
        seen += [client.execute(statement, given) for _ in range(2)]
        seen.append(client.query("SELECT * FROM cached"))
        empty = client.prepare("SELECT 1 FROM cached WHERE a = 7")
        seen += [client.execute(empty), client.execute(empty)]
        answers.append([answer.packets for answer in seen])
    assert answers[0] == answers[1]
    flags = [answer[0][1][1] for answer in answers[1]]
    assert flags == [0, 0, 0, 1, 0, 1, 0, 0], "the count's second byte: definitions follow"


@FORMS
def test_cursor_without_definitions(pair: Pair, drop: int) -> None:
    answers = []
    for client in pair(drop=drop):
        statement = client.prepare("SELECT seq FROM seq_1_to_5")
        for _ in range(2):
            opened = client.execute(statement, flags=1)
            fetched = [client.command(FETCH, struct.pack("<II", statement, 3)) for _ in range(2)]
            answers.append([opened.packets, *(answer.packets for answer in fetched)])
        assert client.value("SELECT 7") == b"7"
    assert answers[:2] == answers[2:]


@FORMS
def test_bulk_execution(pair: Pair, drop: int) -> None:
    answers = []
    for client in pair(drop=drop):
        client.run("CREATE OR REPLACE TABLE bulk (n BIGINT PRIMARY KEY, t VARCHAR(20) DEFAULT 'default')")
        statement = client.prepare("INSERT INTO bulk VALUES (?, ?)")
        rows = [[number(n), string(b"text %d" % n) if n % 3 else None] for n in range(1, 1001)]
        seen = [client.command(BULK_EXECUTE, bulk(statement, [LONGLONG, VAR_STRING], rows))]
        seen.append(client.command(BULK_EXECUTE, bulk(statement, [LONGLONG, VAR_STRING], rows[:2])))  # again: 1062
        returning = client.prepare("INSERT INTO bulk (n) VALUES (?) RETURNING n, t")
        rows = [[number(n)] for n in (2001, 2002)]
        seen.append(client.command(BULK_EXECUTE, bulk(returning, [LONGLONG], rows)))
        seen.append(client.command(BULK_EXECUTE, bulk(client.prepare("SELECT ?"), [LONGLONG], rows)))
        seen.append(client.command(BULK_EXECUTE, bulk(4711, [LONGLONG], rows)))
        seen.append(client.query("SELECT COUNT(*), SUM(n), COUNT(t) FROM bulk"))
        answers.append([answer.packets for answer in seen])
    assert answers[0] == answers[1]
    assert b"1000" in answers[1][0][-1][1], "records: 1000"


@FORMS
def test_progress_reports(pair: Pair, drop: int) -> None:
    """They come in mid-answer, with the number of an error, and are no end."""
    for client in pair(drop=drop):
        client.run(
            "CREATE OR REPLACE TABLE slow (a BIGINT, b CHAR(200)) ENGINE=InnoDB",
            "INSERT INTO slow SELECT seq, seq FROM seq_1_to_60000",
            "SET SESSION progress_report_time = 1",
        )
        for attempt in range(20):  # a report is sent each second, so how long the statement takes matters
            altered = client.query("ALTER TABLE slow ENGINE=InnoDB, ALGORITHM=COPY")
            assert altered.ok, altered.error
            reports = [payload for payload in altered.payloads if payload.startswith(b"\xff\xff\xff")]
            if reports:
                break
            client.run(f"INSERT INTO slow SELECT seq, seq FROM seq_1_to_{60000 << min(attempt, 2)}")
        assert reports, "the server never told how far it was"
        assert [seq for seq, _ in altered.packets] == list(range(1, len(altered.packets) + 1))
        assert client.value("SELECT 5") == b"5"
        client.run("DROP TABLE slow")


def test_statement_executed_before_its_number_is_known(pair: Pair) -> None:
    """Prepare, execute and close in one go; the number is that of the statement prepared last."""
    answers = []
    for client in pair():
        parameters = b"\x00\x01\x08\x00" + number(40)
        execute = frame(b"\x17" + struct.pack("<IBI", LAST_PREPARED, 0, 1) + parameters)
        seen = []
        for sql in (b"SELECT ? + 2", b"SELECT ? + ", b"SELECT 2 + ?"):
            client.socket.sendall(frame(b"\x16" + sql) + execute + frame(b"\x19" + struct.pack("<I", LAST_PREPARED)))
            seen += [without_number(client.answer(PREPARE)), client.answer(EXECUTE)]
        seen.append(client.execute(LAST_PREPARED, parameters))
        client.command(CLOSE, struct.pack("<I", 4711))
        seen.append(client.query("SELECT 1"))
        answers.append([answer.packets for answer in seen])
    assert answers[0] == answers[1]
    assert [answer[-1][1][:1] == b"\xff" for answer in answers[1]] == [
        False,
        False,
        True,
        True,
        False,
        False,
        True,
        False,
    ]


# --- queues


@pytest.fixture
def mails(mariadb_gate: Gate) -> str:
    client = Sql(mariadb_gate.connect())
    client("DROP QUEUE IF EXISTS mails")
    client("CREATE QUEUE mails (n BIGINT, t VARCHAR(20))")
    client.close()
    return "mails"


def test_bulk_enqueue_is_delivered_at_once(mariadb_gate: Gate, pair: Pair, mails: str) -> None:
    _, client = pair()
    statement = client.prepare(f"INSERT INTO {mails} (n, t) VALUES (?, ?)")
    rows = [[number(n), string(b"m%d" % n)] for n in range(200)]
    with Stream(mariadb_gate, f"SELECT n, t FROM STREAM {mails}") as stream:
        sent = client.command(BULK_EXECUTE, bulk(statement, [LONGLONG, VAR_STRING], rows))
        assert sent.affected_rows == 200
        # Much less than poll_interval: the engine was told.
        assert sorted(stream.wait(200, 10)) == [(n, f"m{n}") for n in range(200)]
        client.run("BEGIN")
        assert client.command(BULK_EXECUTE, bulk(statement, [LONGLONG, VAR_STRING], rows[:3])).affected_rows == 3
        client.run("ROLLBACK", "BEGIN")
        assert client.command(BULK_EXECUTE, bulk(statement, [LONGLONG, VAR_STRING], rows[:5])).affected_rows == 5
        client.run("COMMIT")
        assert len(stream.wait(205, 10)) == 205


def test_queue_statements_in_bulk(mariadb_gate: Gate, pair: Pair, mails: str) -> None:
    _, client = pair()
    insert = client.prepare(f"INSERT INTO {mails} (n, t) VALUES (?, ?) DELAY ?")
    types, sets = [LONGLONG, VAR_STRING, LONGLONG], [[number(n), string(b"m%d" % n), number(0)] for n in range(3)]
    sent = client.command(BULK_EXECUTE, bulk(insert, types, sets))
    assert sent.ok and sent.affected_rows == 3
    with Stream(mariadb_gate, f"SELECT id, n FROM STREAM {mails} WITH (ack_wait = '1h')") as stream:
        ids = [id_ for id_, _ in sorted(stream.wait(3, 20), key=lambda row: row[1])]
        nack = client.prepare(f"NACK {mails} ? DELAY ?")
        given = [[number(id_), number(3600)] for id_ in ids[:2]]
        assert client.command(BULK_EXECUTE, bulk(nack, [LONGLONG] * 2, given)).affected_rows == 2
        ack = client.prepare(f"ACK {mails} ?")
        assert client.command(BULK_EXECUTE, bulk(ack, [LONGLONG], [[number(ids[2])]])).affected_rows == 1
        # The sets of one command hold together, and the answer says which was wrong.
        sets[1][2] = number(-5)
        refused = client.command(BULK_EXECUTE, bulk(insert, types, sets))
        assert refused.errno == 1231
        assert client.value(f"SELECT COUNT(*) FROM {mails} WHERE epoch = 0") == b"0"
        client.run("BEGIN")
        sets[1][2] = number(0)
        assert client.command(BULK_EXECUTE, bulk(insert, types, sets[:2])).affected_rows == 2
        client.run("ROLLBACK", "BEGIN")
        assert client.command(BULK_EXECUTE, bulk(insert, types, sets[:1])).affected_rows == 1
        client.run("COMMIT")
        assert [n for _, n in stream.wait(4, 20)][3:] == [0]
    # DEFAULT (2) is no value, and a command that ends too early is none.
    wrong = struct.pack("<IH", insert, 128) + b"".join(struct.pack("<BB", kind, 0) for kind in types) + b"\x02" * 3
    assert client.command(BULK_EXECUTE, wrong).errno == 1210
    assert client.command(BULK_EXECUTE, bulk(insert, types, sets)[:-1]).errno == 1835
    assert client.value("SELECT 'still here'") == b"still here"


def test_a_bulk_execution_has_a_bound_and_ends_with_its_client(mariadb_gate: Gate, pair: Pair, mails: str) -> None:
    _, client = pair()
    insert = client.prepare(f"INSERT INTO {mails} (t) VALUES (?) DELAY ?")
    head = struct.pack("<IH", insert, 128) + bytes((VAR_STRING, 0, LONGLONG, 0))
    sets_max = 65536
    refused = client.command(BULK_EXECUTE, head + b"\x01" * (2 * sets_max + 2))
    assert refused.errno == 1210 and "65536 sets" in refused.error[1]
    with mariadb_gate.connect() as connection:
        watching = Sql(connection)
        watching("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
        before = watching.value(f"SELECT COUNT(*) FROM {mails}")
        client.send(bytes((BULK_EXECUTE,)) + head + (b"\x00" + string(b"x") + b"\x00" + number(0)) * sets_max)
        wait_until(lambda: watching.value(f"SELECT COUNT(*) FROM {mails}") > before, 20, "its first rows")
        client.close()
        wait_until(lambda: watching.value(f"SELECT COUNT(*) FROM {mails}") == before, 20, "its rows to be rolled back")


def test_a_client_that_has_not_asked_for_bulk_executions_has_none(mariadb_gate: Gate, pair: Pair, mails: str) -> None:
    with WireClient(mariadb_gate.port, database=mariadb_gate.database, drop=BULK) as client:
        insert = client.prepare(f"INSERT INTO {mails} (n) VALUES (?) DELAY ?")
        sets = [[number(1), number(0)]]
        assert client.command(BULK_EXECUTE, bulk(insert, [LONGLONG] * 2, sets)).errno == 1047
        assert client.value("SELECT 'still here'") == b"still here"


@FORMS
def test_our_own_answers_are_in_the_clients_form(mariadb_gate: Gate, pair: Pair, mails: str, drop: int) -> None:
    """The client of this suite reads by the letter: a byte too many or too few would stop it."""
    _, client = pair(drop=drop)
    client.run(f"INSERT INTO {mails} (n, t) VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    shown = client.query("SHOW QUEUES LIKE 'mails'")
    assert shown.ok and len(shown.payloads[0]) == 2
    assert client.query("SHOW FULL PROCESSLIST").ok
    assert client.query(f"SHOW CREATE QUEUE {mails}").ok
    streamed = client.query(f"SELECT n, t FROM STREAM {mails} LIMIT 1")
    assert streamed.payloads[-2] == b"\x011\x03one"
    prepared = client.prepare(f"SELECT n, t FROM STREAM {mails} LIMIT ?")
    executed = client.execute(prepared, b"\x00\x01\x08\x00" + number(1))
    assert executed.payloads[-2] == b"\x00\x00" + number(2) + b"\x03two"
    opened = client.execute(prepared, b"\x00\x01\x08\x00" + number(1), flags=1)
    assert int.from_bytes(opened.last[3:5], "little") & CURSOR_EXISTS
    fetched = client.command(FETCH, struct.pack("<II", prepared, 5))
    assert fetched.payloads[0] == b"\x00\x00" + number(3) + b"\x05three"
    listed = client.prepare("SHOW QUEUES")
    assert client.execute(listed).ok
    once = client.command(BULK_EXECUTE, bulk(prepared, [LONGLONG], [[number(1)]]))  # it ends the cursor, which held it
    assert once.payloads[-2] == b"\x00\x00" + number(3) + b"\x05three"
    refused = client.command(BULK_EXECUTE, bulk(prepared, [LONGLONG], [[number(1)], [number(1)]]))
    assert refused.errno == 1295
    assert client.value("SELECT 'still here'") == b"still here"


def test_stream_executed_before_its_number_is_known(pair: Pair, mails: str) -> None:
    _, client = pair()
    client.run(f"INSERT INTO {mails} (n) VALUES (1)")
    client.prepare("SELECT 'another statement'")
    execute = frame(b"\x17" + struct.pack("<IBI", LAST_PREPARED, 0, 1))
    client.socket.sendall(frame(f"\x16SELECT n FROM STREAM {mails} LIMIT 1".encode()) + execute)
    assert client.answer(PREPARE).ok
    assert client.answer(EXECUTE).payloads[-2] == b"\x00\x00" + number(1)
    # One that the proxy refused must not let the statement before it be executed in its place.
    client.prepare("SELECT 'another statement'")
    client.socket.sendall(frame(b"\x16SELECT n FROM STREAM nowhere_at_all") + execute)
    assert client.answer(PREPARE).errno == 1146
    assert client.answer(EXECUTE).errno == 1243


def test_connection_of_the_server_is_not_disturbed(mariadb: MariaDb, pair: Pair) -> None:
    """What the proxy asks on the client's line for itself is read with the client's capabilities."""
    direct, proxied = pair()
    for client in (direct, proxied):
        client.run("SET @kept = 5")
    assert proxied.query("SHOW PROCESSLIST").ok
    assert proxied.query("SELECT @kept").packets == direct.query("SELECT @kept").packets
