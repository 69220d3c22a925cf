"""Rows that somebody else has written into a queue of Celery's: each costs one dead letter, and the others are run."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import kombu
import pytest
from celery_workers import Worker
from random_rows import attempt, chance
from servers import wait_until
from slowness import scaled
from test_celery_kombu import declared, names, publish, received  # noqa: F401 - a fixture

from queuegate_celery.messages import Unreadable, incoming

pytestmark = pytest.mark.long

GOOD = {"exchange": "''", "routing_key": "'celery'", "body": "'[[], {}, {}]'", "content_type": "'application/json'",
        "content_encoding": "'utf-8'", "headers": "'{}'", "properties": "'{}'"}  # fmt: skip
UNREADABLE = [
    {"headers": "'not json'"},
    {"headers": "'[1, 2]'"},
    {"headers": "'null'"},
    {"headers": "'{\"a\": '"},
    {"headers": "REPEAT('[', 100000)"},
    {"headers": '\'{"x": {"__type__": "datetime", "__value__": "no"}}\''},
    {"properties": "'[1, 2]'"},
    {"properties": "'7'"},
    {"properties": "'not json'"},
]
"""No message of Kombu's can be made of these."""

UNDECODABLE = [
    {"body": "X'ff00fe'"},
    {"body": "'{'"},
    {"content_type": "'application/x-python-serialize'"},
    {"headers": '\'{"compression": "gzip"}\''},
    {"headers": '\'{"compression": "no such"}\''},
]
"""Of these the body cannot be read."""


def write(sql, table: str, bad: dict[str, str]) -> None:
    """A row of which one column is bad."""
    row = {**GOOD, **bad}
    sql(f"INSERT INTO `{table}` ({', '.join(row)}) VALUES ({', '.join(row.values())})")


def row_of(**values: bytes | None) -> list[bytes | None]:
    columns = ("id", "epoch", "task", "task_id", "exchange", "routing_key", "body", "content_type", "content_encoding",
             "headers", "properties", "time_expires")  # fmt: skip
    return [values.get(name, b"1" if name in ("id", "epoch") else None) for name in columns]


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"headers": b"{"}, "headers"),
        ({"headers": b"[]"}, "headers"),
        ({"headers": b"\xff"}, "headers"),
        ({"properties": b'"text"'}, "properties"),
        ({"exchange": b"\xff"}, "exchange"),
        ({"routing_key": b"\xff"}, "routing_key"),
        ({"content_type": b"\xff"}, "content_type"),
        ({"content_encoding": b"\xff"}, "content_encoding"),
        ({"time_expires": b"soon"}, "time_expires"),
        ({"headers": b'{"timelimit": 7}'}, "timelimit"),
        ({"headers": b'{"timelimit": ["a", "b"]}'}, "timelimit"),
    ],
)
def test_an_unreadable_row_says_which_it_is_and_why(values, word):
    with pytest.raises(Unreadable, match=word) as caught:
        incoming(row_of(id=b"42", **values))
    assert caught.value.id == 42 and len(caught.value.reason) <= 1000


def test_columns_that_are_missing_are_empty():
    message = incoming(row_of())
    assert (message.headers, message.properties, message.body, message.exchange) == ({}, {}, b"", "")


def test_a_consumer_goes_on_beside_rows_that_are_no_messages(broker, names, sql):  # noqa: F811
    connection, name = broker(), names()
    with connection.channel() as channel:
        queue = declared(channel, name)
        for number, bad in enumerate(UNREADABLE):
            write(sql, name, bad)
            publish(channel, number, name)
        assert [m.payload for m in received(connection, queue, len(UNREADABLE))] == list(range(len(UNREADABLE)))
        write(sql, name, UNREADABLE[0])
        publish(channel, "fetched", name)
        fetched, dead = [], len(UNREADABLE) + 1

        def all_came() -> bool:
            # The bad row may come behind the other: a request that does not wait may leave it for the next one.
            message = channel.basic_get(name, no_ack=True)
            fetched.extend([] if message is None else [message.payload])
            there = sql.rows("SHOW TABLES LIKE %s", f"{name}_dead")
            return bool(fetched and there) and sql.value(f"SELECT COUNT(*) FROM {name}_dead") == dead

        wait_until(all_came, what="the message, and the dead letters")
        assert fetched == ["fetched"]
    assert all("not a message of Celery" in reason for reason in sql.column(f"SELECT last_error FROM {name}_dead"))


def test_what_celery_acks_because_it_cannot_read_it_is_a_dead_letter(broker, names, sql):  # noqa: F811
    connection, name, read = broker(), names(), []
    with connection.channel() as channel:
        queue = declared(channel, name)
        for bad in UNDECODABLE:
            write(sql, name, bad)
        publish(channel, "good", name)
        consumer = kombu.Consumer(
            channel, [queue], callbacks=[lambda body, message: (read.append(body), message.ack())]
        )
        consumer.on_decode_error = lambda message, error: message.ack()  # as Celery's worker does
        consumer.consume()
        for _ in range(len(UNDECODABLE) + 1):
            connection.drain_events(timeout=20)
        assert read == ["good"]
    wait_until(lambda: sql.rows("SHOW TABLES LIKE %s", f"{name}_dead"), what="the dead-letter queue")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {name}_dead") == len(UNDECODABLE), what="the dead letters")
    assert all("body cannot be read" in reason for reason in sql.column(f"SELECT last_error FROM {name}_dead"))


TASKS = ("[]", "{}", "7", "null", '"no.such.task"', "true")
FIELDS = ("eta", "expires", "timelimit", "retries", "argsrepr", "root_id", "id", "lang", "group", "stamps")
VALUES = ("7", "[]", '"no"', "{}", "[1, 2, 3]", "1e400", "null")
STRANGE = [
    *(f'{{"task": {task}}}' for task in TASKS),
    *(
        f'{{"task": "celery_shop.say", "id": "of {field} {value[:1]!r}", "{field}": {value}}}'.replace("'", "-")
        for field in FIELDS
        for value in VALUES
    ),
]


def test_a_worker_goes_on_beside_headers_of_any_shape(shared_gate, shops, tmp_path):
    gate = shared_gate()
    shop = shops(gate)
    worker = Worker(gate, tmp_path, "-c", "1")
    try:
        worker.ready()
        for bad in (*UNREADABLE, *UNDECODABLE):
            write(shop.sql, "celery", bad)
        for headers in STRANGE:
            write(shop.sql, "celery", {"headers": f"'{headers}'"})
        shop.send("say", "still here")
        wait_until(lambda: shop.notes("still here") or worker.ready(), 90, "the task")
        assert "Unrecoverable error" not in worker.log
    finally:
        worker.kill()


_WRITTEN = ("priority", "epoch", "time_scheduled", "time_next", "time_created", "time_acked", "lease_token", *GOOD,
            "task", "task_id", "time_expires", "last_error", "failed_attempts")  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_a_consumer_goes_on_beside_rows_by_chance(broker, names, sql, seed):  # noqa: F811
    """Ends of types and wrong shapes in every column, as `make fuzz` has them for queues (random_rows)."""
    random, wanted, found = Random(f"rows/celery/{seed}"), set(range(5)), set()
    connection, name = broker(), names()

    def arrived(message: Any) -> None:
        try:
            found.add(str(message.payload))
        except Exception:  # a body that is no text of its type: the application's to judge
            message.reject()
        else:
            message.ack()

    with connection.channel() as channel:
        queue = declared(channel, name)
        for number in wanted:
            for _ in range(4):
                row = {column: chance(random, column) for column in random.sample(_WRITTEN, random.randint(1, 4))}
                row = {"body": "", "headers": "", "properties": "", **row}
                text = f"INSERT INTO `{name}` ({', '.join(row)}) VALUES ({', '.join(['%s'] * len(row))})"
                attempt(sql, text, tuple(row.values()))
            publish(channel, number, name)
        with kombu.Consumer(channel, [queue], on_message=arrived, auto_declare=False):
            deadline = time.monotonic() + scaled(60)
            while not set(map(str, wanted)) <= found:
                connection.drain_events(timeout=max(deadline - time.monotonic(), 0.01))
