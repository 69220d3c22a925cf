"""What is a queue and what is not, as the proxy tells it; and every way not to get to one ends in a clear line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from certificates import Authority
from reading import described, options, own_fields, read, reader
from servers import Gate, free_port

from spark_connector.client.columns import Field
from spark_connector.client.connection import Client
from spark_connector.errors import ConnectionFailed, OptionError, QueueError
from spark_connector.options import queue_address
from spark_connector.sources.schema import schema

pytestmark = pytest.mark.long

SYSTEM = [
    Field("id", "bigint", False), Field("priority", "tinyint", False), Field("time_scheduled", "bigint", False),
    Field("time_next", "bigint"), Field("epoch", "bigint", False), Field("time_created", "bigint", False),
    Field("time_acked", "bigint"), Field("state", "string"), Field("first_error", "string"),
    Field("last_error", "string"),
    Field("failed_attempts", "string"), Field("lease_token", "bigint", False),
]  # fmt: skip
VITESS = "vt_ack_wait=30,vt_purge_after=86400,vt_batch_size=10,vt_cache_size=10000,vt_poller_interval=30"
LAYOUT_1 = f"""CREATE TABLE {{}} (time_scheduled BIGINT, id BIGINT, time_next BIGINT, epoch BIGINT, time_created BIGINT,
    time_acked BIGINT, message VARCHAR(128), PRIMARY KEY (time_scheduled, id), UNIQUE INDEX id_idx (id),
    INDEX next_idx (time_next, epoch)) COMMENT 'vitess_message,{VITESS}'"""
LAYOUT_2 = f"""CREATE TABLE {{}} (id BIGINT NOT NULL, priority TINYINT NOT NULL DEFAULT 50, epoch BIGINT DEFAULT 0,
    time_next BIGINT DEFAULT 0, time_acked BIGINT, n INT, PRIMARY KEY (id),
    INDEX ack_idx (time_acked, priority, time_next)) COMMENT 'vitess_message,{VITESS}'"""


def test_a_queue_of_ours(gate, queue):
    name = queue("payload VARCHAR(20) NOT NULL, note TEXT")
    assert list(own_fields(gate, name)) == [*SYSTEM, Field("payload", "string", False), Field("note", "string")]
    assert schema(options(gate, name)).startswith("`id` bigint NOT NULL, `priority` tinyint NOT NULL, ")


def test_vitess_first_layout(gate, sql, name):
    sql(LAYOUT_1.format(name))
    sql(f"INSERT INTO {name} (id, message) VALUES (1, 'a'), (2, 'b')")
    sql(f"ACK {name} 2")
    assert [field.name for field in own_fields(gate, name)] == [
        "time_scheduled", "id", "time_next", "epoch", "time_created", "time_acked", "message",
    ]  # fmt: skip
    assert read(reader(gate, name)).column("message").to_pylist() == ["a"]


def test_vitess_current_layout(gate, sql, name):
    sql(LAYOUT_2.format(name))
    sql(f"INSERT INTO {name} (id, n) VALUES (5, 50), (-6, 60)")
    assert sorted(read(reader(gate, name)).column("n").to_pylist()) == [50, 60]


@pytest.mark.parametrize(
    ("declared", "spark", "keys"),
    [
        ("VARCHAR(36)", "string", ["a", "B", "é", "a'\\%"]),
        ("BINARY(16)", "binary", [bytes([n] * 16) for n in (0, 0x27, 0x5C, 0xFF)]),
        ("INT AUTO_INCREMENT", "int", [3, 9]),
        ("DECIMAL(15,0)", "decimal(15,0)", [1, 10**14]),
        ("DECIMAL(20,0)", "decimal(20,0)", [1, 10**19]),
        ("ENUM('b','a')", "string", ["a", "b"]),
    ],
)
def test_ids_of_any_type(gate, sql, queue, declared, spark, keys):
    if gate.embedded and declared == "DECIMAL(20,0)":
        pytest.skip("the embedded backend has no id of more than 15 digits")
    name = queue(f"id {declared}, n INT")
    for n, key in enumerate(keys):
        sql(f"INSERT INTO {name} (id, n) VALUES (%s, %s)", key, n)
    fields = own_fields(gate, name)
    assert next(field for field in fields if field.name == "id").type == spark
    for parts in (1, 3):
        table = read(reader(gate, name, numPartitions=parts))
        assert sorted(zip(table.column("n").to_pylist(), table.column("id").to_pylist(), strict=True)) == [
            *enumerate(keys)
        ]


def test_dead_letters(gate, sql, queue, stream):
    name = queue("payload VARCHAR(20)")
    sql(f"INSERT INTO {name} (payload) VALUES ('bad')")
    sql(f"REJECT {name} 1 REASON 'no JSON'")
    dead = f"{name}_dead"
    from servers import wait_until

    wait_until(lambda: sql.rows(f"SHOW QUEUES LIKE '{dead}'") and sql.value(f"SELECT COUNT(*) FROM {dead}"))
    (row,) = read(reader(gate, dead)).to_pylist()
    assert (row["payload"], row["state"], row["last_error"]) == ("bad", "dead", "no JSON")
    sql(f"DROP QUEUE {dead}")


def test_columns_that_only_some_see(gate, sql, queue):
    if gate.embedded:
        pytest.skip("MariaDB's INVISIBLE")
    name = queue("payload VARCHAR(20), hidden INT INVISIBLE")
    sql(f"INSERT INTO {name} (payload, hidden) VALUES ('a', 7)")
    assert own_fields(gate, name)[-1].name == "payload"
    assert read(reader(gate, name, [Field("hidden", "int")])).to_pylist() == [{"hidden": 7}]


def test_keys_and_options(gate, sql, queue):
    name = queue("k VARCHAR(40), a INT, b INT, UNIQUE KEY uk (k), UNIQUE KEY ab (b, a)", ack_wait="'7s'")
    found = described(gate, name)
    assert set(found.unique) == {("id",), ("k",), ("b", "a")}
    assert found.options["vt_ack_wait"] == "7"
    assert found.column("ID").auto and found.column("State").generated and not found.column("k").default


def test_keys_of_a_part_of_a_column_are_none(gate, sql, queue):
    if gate.embedded:
        pytest.skip("the embedded backend has no keys of parts")
    name = queue("k VARCHAR(40), UNIQUE KEY uk (k(5))")
    assert described(gate, name).unique == (("id",),)


def test_the_numbers_of_a_topic_are_the_proxys_own(gate, sql, name):
    """A column that is read like the others, for it is the offset; and no key by which a row that is written could be
    refused."""
    if gate.embedded:
        pytest.skip("the embedded backend gives no numbers")
    sql(f"CREATE TOPIC {name} (k VARCHAR(40), UNIQUE KEY uk (k)) WITH (sequence = 'on')")
    found = described(gate, name)
    assert set(found.unique) == {("id",), ("k",)}
    assert [field.name for field in own_fields(gate, name)][-2:] == ["k", "queuegate_seq"]
    sql(f"DROP TOPIC {name}")


def test_names_that_differ_by_case_alone(gate, sql, name):
    if gate.embedded:
        pytest.skip("names of tables are the same in any case")
    for one, column in ((name, "a"), (name.upper(), "b")):
        sql(f"CREATE QUEUE {one} ({column} INT)")
    assert own_fields(gate, name.upper())[-1].name == "b"
    assert own_fields(gate, name)[-1].name == "a"
    sql(f"DROP QUEUE {name.upper()}")
    sql(f"DROP QUEUE {name}")


# --- not to be had


def refused(gate: Gate, queue: str, kind: type[Exception], **more: object) -> str:
    with pytest.raises(kind) as caught:
        schema(options(gate, queue, **more))
    text = str(caught.value)
    assert "\n" not in text and "secret" not in text
    return text


def test_no_such_queue(gate):
    text = refused(gate, "nope", QueueError)
    assert re.search(r"there is no queue 'nope' in database '\w+' at 127.0.0.1:\d+: SHOW QUEUES lists", text)
    assert "the database is an option of its own" in refused(gate, f"{gate.database}.nope", QueueError)


def test_tables_and_views_are_no_queues(gate, sql, queue, name):
    sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    sql(f"CREATE VIEW {name}_v AS SELECT * FROM {queue()}")
    for other in (name, f"{name}_v"):
        text = refused(gate, other, QueueError)
        assert f"'{other}' is not a queue" in text and "Spark's format jdbc reads tables and views" in text
    sql(f"DROP VIEW {name}_v")


def test_a_database_in_place_of_the_proxy(gate, mariadb):
    text = refused(gate, "q", QueueError, port=mariadb.port, database="main")
    assert f"what answers at 127.0.0.1:{mariadb.port} is a database, not queuegate" in text


def test_nobody_there(gate):
    text = refused(gate, "q", ConnectionFailed, port=free_port())
    assert "user 'root' cannot connect to 127.0.0.1" in text and "Is queuegate listening there?" in text
    text = refused(gate, "q", ConnectionFailed, host="nobody.invalid", connectTimeout=2)
    assert "cannot connect to nobody.invalid" in text


def test_wrong_password_and_database(gate):
    text = refused(gate, "q", ConnectionFailed, user="nobody", password="secret")
    assert "user 'nobody' is not let in by 127.0.0.1" in text
    if not gate.embedded:
        assert "option database names" in refused(gate, "q", ConnectionFailed, database="nowhere")


def test_no_right_to_the_queue(gate, sql, queue):
    if gate.embedded:
        pytest.skip("the embedded backend has one account here")
    name = queue()
    sql("CREATE USER IF NOT EXISTS reader_none@'127.0.0.1' IDENTIFIED BY 'secret'")
    sql(f"CREATE TABLE IF NOT EXISTS {gate.database}.open_to_all (id INT)")
    sql(f"GRANT SELECT ON {gate.database}.open_to_all TO reader_none@'127.0.0.1'")
    text = refused(gate, name, ConnectionFailed, user="reader_none", password="secret")
    assert "reader_none" in text and "Grant it what is missing" in text


def test_who_speaks_something_else(gate, tmp_path):
    import socket
    import threading

    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as client:
                client.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        text = refused(gate, "q", ConnectionFailed, port=server.getsockname()[1], connectTimeout=2)
    assert "Is queuegate listening there?" in text


# --- TLS


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def offering(new_gate: Callable[..., Gate], authority: Authority) -> Gate:
    certificate, key = authority.issue("server", "127.0.0.1")
    return new_gate(tls={"certificate": str(certificate), "key": str(key), "mode": "required"}).start()


def test_tls(offering, authority, tmp_path):
    with offering.connect(ssl_ca=str(authority.ca)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE QUEUE q (payload INT)")
        cursor.execute("INSERT INTO q (payload) VALUES (1), (2)")
    for more in ({"ssl": "required"}, {"ssl": "verify", "sslCa": authority.ca}):
        assert sorted(read(reader_over(offering, **more)).column("payload").to_pylist()) == [1, 2]
    assert "insecure transport" in refused(offering, "q", ConnectionFailed)
    assert "certificate" in refused(offering, "q", ConnectionFailed, ssl="verify")
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    assert "certificate" in refused(offering, "q", ConnectionFailed, ssl="verify", sslCa=other.ca)
    assert "certificate" in refused(
        offering, "q", ConnectionFailed, host="localhost", ssl="verify", sslCa=authority.ca, connectTimeout=3
    )
    missing = refused(offering, "q", OptionError, ssl="verify", sslCa=tmp_path / "none.pem")
    assert "option sslCa names" in missing and "holds no certificate" in missing
    (tmp_path / "empty.pem").write_text("nothing")
    assert "holds no certificate" in refused(offering, "q", OptionError, ssl="verify", sslCa=tmp_path / "empty.pem")


def reader_over(gate: Gate, **more: object):
    from reading import checked

    from spark_connector.batch.read import BatchRead

    return BatchRead(checked.batch_read(options(gate, "q", **more)), [Field("payload", "int")])


def test_tls_is_not_done_without(gate, sql):
    """The gate of the other tests offers none."""
    assert "TLS" in refused(gate, "q", ConnectionFailed, ssl="required") or "SSL" in refused(
        gate, "q", ConnectionFailed, ssl="required"
    )


def test_sessions_are_in_utc(gate):
    with Client(queue_address(options(gate, "q")).address) as client:
        assert client.value("SELECT @@time_zone") == "+00:00"


def test_a_name_in_another_case_is_told_the_right_one(gate, queue):
    name = queue()
    with pytest.raises(QueueError, match=f"there is no queue '{name.upper()}' .* it is called '{name}'"):
        described(gate, name.upper())
