"""`queuegate peek`: messages of a queue, read by SELECT, so that nothing is leased and nothing counted."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence

from pymysql.constants import FIELD_TYPE

from engine.model.options import from_comment
from engine.model.queue import default_dead_letter, quoted
from engine.model.states import MARK, REJECTED_NS, due, in_flight, leased
from queuegate.cli.connecting import Link, Target
from queuegate.cli.failures import ConsoleError, ServerError
from queuegate.cli.message_rows import Message, message, message_object, message_table
from queuegate.cli.names import QueueRef

_NOW = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) * 1000 AS now_ns"
_COMMENT = "SELECT TABLE_COMMENT AS comment FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"

_LONG = (
    FIELD_TYPE.TINY_BLOB,
    FIELD_TYPE.MEDIUM_BLOB,
    FIELD_TYPE.LONG_BLOB,
    FIELD_TYPE.BLOB,
    FIELD_TYPE.JSON,
    FIELD_TYPE.VAR_STRING,
    FIELD_TYPE.STRING,
)
_CHARACTERS = 300
"""Of a long value that are fetched to be shown: a body may have gigabytes, and a line has a few hundred columns."""

_NO_SUCH_TABLE = 1146


def run(options: argparse.Namespace, target: Target) -> int:
    """Print a table, or JSON with the messages whole."""
    with Link(target, "peek") as link:
        name = link.named(options.names[0])
        messages = _fetch(link, name, options)
    if options.json:
        sys.stdout.write(json.dumps([message_object(each) for each in messages], indent=2, ensure_ascii=False) + "\n")
    elif not messages:
        kind = "" if options.state == "any" else options.state + " "
        sys.stdout.write(f"There are no {kind}messages in {name}.\n")
    else:
        most = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        sys.stdout.write(message_table(messages, most))
    return 0


def _fetch(link: Link, name: QueueRef, options: argparse.Namespace) -> list[Message]:
    if options.state != "dead":
        return _messages(link, name, options)
    dead = _dead_letters_of(link, name)
    try:
        return _messages(link, dead, options)
    except ServerError as error:
        if error.number != _NO_SUCH_TABLE or dead == name:
            raise
        return []  # the queue is made with its first dead letter


def _dead_letters_of(link: Link, name: QueueRef) -> QueueRef:
    """The dead-letter queue of a queue; the queue itself where it is one."""
    link.columns(f"SELECT * FROM {name.sql} LIMIT 0")  # which fails for a wrong name
    rows = link.rows(_COMMENT, name.database, name.table)
    comment = rows[0]["comment"] if rows else ""
    queue_options = from_comment(comment.decode() if isinstance(comment, bytes) else comment, name.table)
    if queue_options.dead_letter_of:
        return name
    return QueueRef(queue_options.dead_letter or default_dead_letter(name.table), name.database)


def _messages(link: Link, name: QueueRef, options: argparse.Namespace) -> list[Message]:
    columns = link.columns(f"SELECT * FROM {name.sql} LIMIT 0")
    names = [column for column, _ in columns]
    if not {"id", "time_next", "time_acked", "epoch"} <= set(names):
        raise ConsoleError(f"'{name}' is not a queue: look at it with SELECT")
    now_ns = int(link.rows(_NOW)[0]["now_ns"])
    listed = ", ".join(_selected(column, kind, whole=options.json) for column, kind in columns)
    sql = f"SELECT {listed} FROM {name.sql} WHERE {_condition(options.state, now_ns)} ORDER BY {_order(names, options)}"
    return [message(row, now_ns) for row in link.rows(f"{sql} LIMIT {options.limit}")]


def _selected(column: str, kind: int, *, whole: bool) -> str:
    name = quoted(column)
    return f"SUBSTRING({name}, 1, {_CHARACTERS}) AS {name}" if kind in _LONG and not whole and column != "id" else name


def _condition(state: str, now_ns: int) -> str:
    match state:
        case "ready":
            return f"time_acked IS NULL AND {due(str(now_ns))}"
        case "in-flight":
            return in_flight(str(now_ns), MARK)
        case "scheduled":
            waits = f"time_next > {now_ns} AND time_next < {REJECTED_NS}"
            return f"time_acked IS NULL AND {waits} AND NOT (COALESCE(epoch, 0) > 0 AND {leased(MARK)})"
        case _:
            return "time_acked IS NULL"


def _order(names: Sequence[str], options: argparse.Namespace) -> str:
    """The order of delivery, which the queue's index has; of what waits for a time, that of the times."""
    by_time = options.state in ("in-flight", "scheduled") or "priority" not in names
    return "time_next, id" if by_time else "priority, time_next, id"
