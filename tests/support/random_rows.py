"""Rows that nobody should write, by chance: values at the ends of their columns' types and of the wrong shape, in every
column that a client can write. What is written so costs itself at most; plain messages beside it are delivered.

A round makes a queue or a topic, writes rows, and works on until all plain messages have been handled. Which options it
has and what is written follows from the seed and the round's number alone.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pymysql
from servers import Sql, wait_until

from queuegate_worker import Worker

BIGINT = (1 << 63) - 1
_INTEGERS = [
    -BIGINT - 1, -BIGINT, -(1 << 31) - 1, -1, 0, 1, 2, 127, 128, 255, 256, 32767, 65536, (1 << 31) - 1, (1 << 32) - 1,
    (1 << 53) - 1, (1 << 53) + 1, 1_000_000_000_000_000, 1_700_000_000_000_000_001, 1_700_000_000_000_000_002,
    1_700_000_000_000_000_003, BIGINT - 4, BIGINT - 3, BIGINT - 2, BIGINT - 1, BIGINT, BIGINT + 1, (1 << 64) - 1,
]  # fmt: skip
_TEXTS = [
    "", " ", "x", "'", '"', "\\", "\\\\", "0", "-1", "1e400", "null", "[]", "{}", "[{", "[{}]", '[{"attempt": 1}]',
    "[1, 2]", '{"a": ' * 60, "[" * 200, "\u0000", "é" * 64, "\U0001f600", "%", "%s", "{0}", "`", "--",
    "/*", "a" * 250, "2026-13-45",
]  # fmt: skip
_OTHERS = [None, 1.5, -0.0, 1e300, b"", b"\xff\xfe", b"\x00" * 8, "0000-00-00 00:00:00", True]
_OPTIONS = [
    "", "max_attempts = 3", "order_key = 'k'", "order_key = 'k', on_failure = 'skip', max_attempts = 2",
    "max_concurrency = 40", "keep_attempts = 5, max_attempts = 4", "max_rate = 500",
]  # fmt: skip
_NUMBERS = ("priority", "epoch", "time_scheduled", "time_next", "time_created", "time_acked", "lease_token", "k")
_WORDS = ("first_error", "last_error", "failed_attempts", "body", "headers")
_OF_TOPICS = ("time_scheduled", "time_created", "k", "body", "headers")
_COLUMNS = "body TEXT, headers TEXT, k BIGINT"
_HOSTILE, _PLAIN = 12, 3
_KNOWN = frozenset(
    (
        1048,
        1054,
        1062,
        1142,
        1143,
        1064,
        1235,
        1264,
        1265,
        1292,
        1364,
        1366,
        1406,
        1411,
        1690,
        3140,
        3819,
        3906,
        3907,
        4025,
    )
)
"""With these a row may be refused."""


def chance(random: Random, column: str) -> object:
    """A value that the column is likely not to be meant for."""
    likely = _INTEGERS if column in _NUMBERS else _TEXTS
    return random.choice(random.choices((likely, _INTEGERS, _TEXTS, _OTHERS), (7, 1, 1, 1))[0])


def _hostile(random: Random, table: str, columns: tuple[str, ...]) -> tuple[str, tuple[object, ...]]:
    chosen = random.sample(columns, random.randint(1, min(4, len(columns))))
    names = ", ".join(chosen)
    return (
        f"INSERT INTO {table} ({names}) VALUES ({', '.join(['%s'] * len(chosen))})",
        tuple(chance(random, column) for column in chosen),
    )


def attempt(writer: Sql, text: str, values: tuple[object, ...] = ()) -> bool:
    """Write a row; whether it was taken."""
    try:
        writer(text, *values)
    except pymysql.err.MySQLError as error:
        assert error.args[0] in _KNOWN, f"{text} {values}: {error.args}"
        return False
    return True


def _write(random: Random, writer: Sql, table: str, columns: tuple[str, ...]) -> set[str]:
    """Hostile rows with plain ones among them; the plain ones' bodies."""
    plain = set()
    for number in range(_HOSTILE):
        attempt(writer, *_hostile(random, table, columns))
        if number % (_HOSTILE // _PLAIN) == 1:
            plain.add(f"plain {number}")
            writer(f"INSERT INTO {table} (body, k) VALUES ('plain {number}', {1000 + number})")
    return plain


def queue_round(seed: object, sql: Sql, writer: Sql, name: str) -> None:
    """By verbs: everything is received, renewed, given back, looked at, acked or rejected, and redriven."""
    random = Random(f"rows/queue/{seed}")
    options = random.choice(_OPTIONS)
    sql(f"CREATE QUEUE {name} ({_COLUMNS})" + (f" WITH ({options})" if options else ""))
    try:
        plain = _write(random, writer, name, (*_NUMBERS, *_WORDS))

        def handled() -> bool:
            for id_, body in sql.rows(f"SELECT id, body FROM STREAM {name} LIMIT 20 NOWAIT"):
                verb = "ACK" if body in plain else random.choice(("ACK", "NACK", "REJECT", "RELEASE", "RENEW"))
                sql({"NACK": f"NACK {name} {id_} DELAY 0 REASON 'x'", "RENEW": f"RENEW {name} {id_} FOR 60"}.get(
                    verb, f"{verb} {name} {id_}"
                ))  # fmt: skip
                plain.discard(body)
            return not plain

        wait_until(handled, 60, f"the plain messages of round {seed}")
        for look in (
            f"SHOW QUEUE STATUS LIKE '{name}'", f"EXPLAIN DELIVERY FOR {name} WHERE id > 0", f"SELECT * FROM {name}",
            f"SELECT * FROM queuegate.in_flight WHERE queue = '{name}'",
        ):  # fmt: skip
            sql.rows(look)
    finally:
        sql(f"DROP QUEUE {name}")
        sql(f"DROP QUEUE IF EXISTS {name}_dead")


def worker_round(seed: object, sql: Sql, writer: Sql, name: str, address: dict[str, object]) -> None:
    """By the worker."""
    random = Random(f"rows/worker/{seed}")
    sql(f"CREATE QUEUE {name} ({_COLUMNS}) WITH (max_attempts = 2)")
    try:
        plain = _write(random, writer, name, (*_NUMBERS, *_WORDS))
        handled: set[str] = set()
        worker = Worker(address, name)

        def handle(message: object) -> None:
            handled.add(message.body)  # type: ignore[attr-defined]
            if plain <= handled:
                worker.stop()

        worker.run(handle)
        assert plain <= handled
    finally:
        sql(f"DROP QUEUE {name}")
        sql(f"DROP QUEUE IF EXISTS {name}_dead")


def topic_round(seed: object, sql: Sql, writer: Sql, name: str) -> None:
    """By a consumer group, a broadcast and a replay."""
    random = Random(f"rows/topic/{seed}")
    sql(f"CREATE TOPIC {name} ({_COLUMNS})")
    try:
        sql(f"CREATE GROUP g ON {name} START AT EARLIEST")
        plain = _write(random, writer, name, _OF_TOPICS)
        left = set(plain)

        def handled() -> bool:
            for id_, body in sql.rows(f"SELECT id, body FROM STREAM {name} LIMIT 20 NOWAIT WITH (group = 'g')"):
                sql(f"ACK {name} {id_} GROUP g")
                left.discard(body)
            return not left

        wait_until(handled, 60, f"the plain messages of round {seed}")
        everything = f"SELECT body FROM STREAM {name} LIMIT 100 NOWAIT WITH (mode = 'broadcast', start = 'earliest')"
        assert plain <= set(sql.column(everything))
        assert plain <= set(sql.column(f"SELECT body FROM STREAM {name} SINCE EARLIEST"))
        sql.rows(f"SHOW GROUPS ON {name}")
        sql.rows(f"SHOW TOPICS LIKE '{name}'")
    finally:
        sql(f"DROP GROUP g ON {name}")
        sql(f"DROP TOPIC {name}")


_GROUPS = ("follow_database", "follow_table", "follow_id", "queue_name", "group_value")
_SCHEDULES = {
    "name": _TEXTS, "queue_name": _TEXTS, "cron": ["* * * * *", "99 * * * *", "", "@x", None],
    "time_zone": ["UTC", "x", None],
    "every_ns": _INTEGERS, "column_names": _TEXTS, "row_values": _TEXTS, "missed": ["all", "one", "x", ""],
    "paused": [0, 0, 1, 7], "next_tick": _INTEGERS, "last_tick": [*_INTEGERS, None], "created_by": _TEXTS,
    "problem": [*_TEXTS, None], "time_created": _INTEGERS, "time_changed": _INTEGERS,
}  # fmt: skip


def tables_round(seed: object, sql: Sql, writer: Sql, name: str) -> None:
    """In the tables of event groups and schedules of the database, which go on with what is well."""
    random = Random(f"rows/tables/{seed}")
    sql(f"CREATE QUEUE {name} ({_COLUMNS}) WITH (group_key = 'k')")
    sql(f"CREATE QUEUE {name}_after ({_COLUMNS})")
    try:
        sql(f"INSERT INTO {name} (k) VALUES (1)")
        sql(f"INSERT INTO {name}_after (body) VALUES ('plain') AFTER GROUP 1 OF {name}")
        sql(f"CREATE SCHEDULE {name} ON {name}_after EVERY '1s' (body) VALUES ('tick')")
        for _ in range(_HOSTILE):
            values = tuple(random.choice([name, f"{name}_after", *_TEXTS]) for _ in _GROUPS)
            attempt(writer, f"INSERT INTO queuegate_groups VALUES ({', '.join(['%s'] * len(values))})", values)
            row = {column: random.choice(pool) for column, pool in _SCHEDULES.items()}
            row["queue_name"] = random.choice((f"{name}_after", row["queue_name"]))
            text = f"INSERT INTO queuegate_schedules ({', '.join(row)}) VALUES ({', '.join(['%s'] * len(row))})"
            attempt(writer, text, tuple(row.values()))
        wanted, found = {"plain", "tick"}, set()
        (id_,) = sql.column(f"SELECT id FROM STREAM {name} LIMIT 1 WAIT 20")
        assert sql(f"ACK {name} {id_}") == 1

        def there() -> bool:
            for one, body in sql.rows(f"SELECT id, body FROM STREAM {name}_after LIMIT 100 NOWAIT"):
                found.add(body)
                sql(f"ACK {name}_after {one}")
            return wanted <= found

        wait_until(there, 60, f"what is held and what recurs, of round {seed}")
        attempt(sql, "SHOW SCHEDULES")
    finally:
        sql("DELETE FROM queuegate_schedules")
        sql("DELETE FROM queuegate_groups")
        for queue in (name, f"{name}_after"):
            sql(f"DROP QUEUE {queue}")


Round = Callable[[object, Sql, Sql, str], None]
ROUNDS: dict[str, Round] = {"queue": queue_round, "topic": topic_round, "tables": tables_round}
