"""Statements on schedules: their names are looked up, and their SQL is generated.

The texts read and write the row of a schedule (engine.model.schedules) on the client's own connection, so that the
change is a part of the client's transaction and needs its rights.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.queue import QueueName, QueueSpec, TopicSpec, quoted
from engine.model.schedules import (
    Cron,
    Every,
    Insertion,
    Missed,
    Number,
    Rule,
    Schedule,
    ScheduleName,
    SpecialValue,
    Value,
    columns_text,
    values_text,
)
from rewriter.errors import UnsupportedSql
from rewriter.text.literals import hex_literal, string_literal


def check_place(name: ScheduleName, queue: QueueName, written: str | None) -> None:
    """Raises UnsupportedSql: a schedule is in the database of its queue."""
    if written is not None and name.database != queue.database:
        raise UnsupportedSql(
            f"a schedule belongs to the database of its queue: name it {quoted(queue.database)}.{quoted(name.name)}"
        )


def value_sql(value: Value) -> str:
    """A value as a literal that reads the same in every mode and character set."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return hex_literal(value)
        case bytes():
            return f"X'{value.hex()}'"
        case Number(text):
            return text
        case SpecialValue():
            return "DEFAULT"


def insertion_sql(insertion: Insertion) -> str:
    """The INSERT of messages."""
    columns = ", ".join(map(quoted, insertion.columns))
    rows = ", ".join(f"({', '.join(map(value_sql, row))})" for row in insertion.rows)
    return f"INSERT INTO {insertion.target.sql} ({columns}) VALUES {rows}"


def _rule_columns(rule: Rule) -> dict[str, str]:
    match rule:
        case Cron(text, zone):
            return {"cron": hex_literal(text), "every_ns": "NULL", "time_zone": hex_literal(zone)}
        case Every(ns):
            return {"cron": "NULL", "every_ns": str(ns), "time_zone": "NULL"}


def create_sql(schedule: Schedule) -> str:
    """The INSERT of a schedule's row."""
    row = {
        "name": hex_literal(schedule.name.name),
        "queue_name": hex_literal(schedule.queue.table),
        **_rule_columns(schedule.rule),
        "column_names": hex_literal(columns_text(schedule.columns)),
        "row_values": hex_literal(values_text(schedule.values)),
        "missed": hex_literal(schedule.missed.value),
        "next_tick": str(schedule.next_ns),
        "created_by": hex_literal(schedule.created_by),
        "time_created": str(schedule.created_ns),
        "time_changed": str(schedule.changed_ns),
    }
    return f"INSERT INTO {schedule.name.table.sql} ({', '.join(row)}) VALUES ({', '.join(row.values())})"


def _is(name: ScheduleName) -> str:
    return f"name = {hex_literal(name.name)}"


def read_sql(name: ScheduleName, columns: Sequence[str], *, lock: bool) -> str:
    """Reads a schedule's row, texts in hexadecimal so that the character set does not matter."""
    selected = ", ".join(f"HEX({column})" if column in TEXTS else column for column in columns)
    return f"SELECT {selected} FROM {name.table.sql} WHERE {_is(name)}{' FOR UPDATE' if lock else ''}"


TEXTS = frozenset(
    ("name", "queue_name", "cron", "time_zone", "missed", "problem", "created_by", "column_names", "row_values")
)
"""The columns of the table that are texts."""


def pause_sql(name: ScheduleName, now_ns: int) -> str:
    """The schedule ticks no more."""
    return f"UPDATE {name.table.sql} SET paused = 1, time_changed = {now_ns} WHERE {_is(name)}"


def change_sql(name: ScheduleName, now_ns: int, next_ns: int | None, rule: Rule | None, missed: Missed | None) -> str:
    """The schedule continues from its tick `next_ns`, if that is set, with a new rule, or the other new settings."""
    values = {} if rule is None else {**_rule_columns(rule), "problem": "NULL"}
    if missed is not None:
        values["missed"] = hex_literal(missed.value)
    if next_ns is not None:
        values["next_tick"] = str(next_ns)
    values["time_changed"] = str(now_ns)
    changes = ", ".join(f"{column} = {value}" for column, value in values.items())
    return f"UPDATE {name.table.sql} SET {changes} WHERE {_is(name)}"


def resume_sql(name: ScheduleName, now_ns: int, next_ns: int) -> str:
    """The schedule ticks again, from that tick on."""
    return (
        f"UPDATE {name.table.sql} SET paused = 0, next_tick = {next_ns}, problem = NULL, time_changed = {now_ns}"
        f" WHERE {_is(name)} AND paused = 1"
    )


def drop_sql(name: ScheduleName) -> str:
    """The schedule is no more."""
    return f"DELETE FROM {name.table.sql} WHERE {_is(name)}"


def create_schedule_text(schedule: Schedule, *, backslash_escapes: bool = True) -> str:
    """The CREATE SCHEDULE that makes it again."""

    def literal(text: str) -> str:
        return string_literal(text, backslash_escapes=backslash_escapes)

    match schedule.rule:
        case Cron(text, zone):
            rule = f"CRON {literal(text)} TIME ZONE {literal(zone)}"
        case Every():
            rule = str(schedule.rule)
    columns = ", ".join(map(quoted, schedule.columns))
    values = ", ".join(literal(v) if isinstance(v, str) else _shown_value(v) for v in schedule.values)
    return (
        f"CREATE SCHEDULE {quoted(schedule.name.name)} ON {quoted(schedule.queue.table)} {rule}\n"
        f"  ({columns}) VALUES ({values})\n  WITH (missed = {literal(schedule.missed.value)})"
    )


def _shown_value(value: Value) -> str:
    return value.value if isinstance(value, SpecialValue) else value_sql(value)


def check_accepts_inserts(target: QueueSpec | TopicSpec) -> None:
    """Raises UnsupportedSql where only the proxy may insert: a consumer group's queue."""
    if isinstance(target, QueueSpec) and target.options.topic is not None:
        raise UnsupportedSql(
            f"'{target.name.table}' is fed from its topic: CREATE SCHEDULE ... ON {target.options.topic}"
        )
