"""Messages as `queuegate peek` shows them: the state that a row is in, its times, its columns. Pure."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from engine.model.attempts import failures
from engine.model.queue import SYSTEM_COLUMNS
from engine.model.states import REJECTED_NS, state_of
from queuegate.cli.tables import NONE, local_time, printable, shortened, table
from rewriter.text.literals import plain_literal

_TIMES = ("time_dead",)
"""Columns of a dead-letter queue that are times in nanoseconds, too."""

_COLUMN_LEAST = 12
_COLUMN_MOST = 60
"""Columns of the terminal for one of the user's, where it knows no width."""


@dataclass(frozen=True, slots=True)
class Message:
    """One row of a queue, as it was at a time. `columns`: those that are not a queue's own."""

    own: Mapping[str, Any]
    columns: Mapping[str, Any]
    now_ns: int

    @property
    def state(self) -> str:
        """Its name; see engine.model.states."""
        return state_of(self.own, self.now_ns)

    @property
    def due(self) -> str | None:
        """When it may be sent, or sent again; None where it is set aside, acked, or due without a time."""
        next_ns = self.own.get("time_next")
        return _moment(next_ns) if next_ns and next_ns < REJECTED_NS else None


def message(row: Mapping[str, Any], now_ns: int) -> Message:
    """Of a row with all columns of its queue's table."""
    own = {key: value for key, value in row.items() if key in SYSTEM_COLUMNS}
    return Message(own, {key: value for key, value in row.items() if key not in SYSTEM_COLUMNS}, now_ns)


def message_object(message: Message) -> dict[str, Any]:
    """For JSON, whole. The names are stable: programs read them."""
    own = message.own
    return {
        "id": _plain(own.get("id")),
        "state": message.state,
        "epoch": own.get("epoch"),
        "priority": own.get("priority"),
        "due": message.due,
        "created": _moment(own.get("time_created")),
        "acked": _moment(own.get("time_acked")),
        "first_error": _plain(own.get("first_error")),
        "last_error": _plain(own.get("last_error")),
        "failed_attempts": failures(stored) if (stored := _plain(own.get("failed_attempts"))) else [],
        "columns": {key: _moment(value) if key in _TIMES else _plain(value) for key, value in message.columns.items()},
    }


def message_table(messages: Sequence[Message], most: int) -> str:
    """Lines for people. `most`: columns of a line; 0 where that is not known."""
    titles = ["ID", "STATE", "EPOCH", "DUE"]
    if any(message.own.get("last_error") for message in messages):
        titles.append("LAST ERROR")
    fixed = len(titles)
    names = list(messages[0].columns) if messages else []
    rows = [_fixed(message, fixed) for message in messages]
    taken = sum(max(len(row[i]) for row in (titles, *rows)) + 2 for i in range(fixed))
    each = max(_COLUMN_LEAST, (most - taken) // len(names) - 2) if most and names else _COLUMN_MOST
    for row, message in zip(rows, messages, strict=True):
        row += [shortened(printable(_text(name, message.columns[name])), each) for name in names]
    return table([*titles, *(printable(name) for name in names)], rows, right=("EPOCH",), most=most)


def _fixed(message: Message, count: int) -> list[str]:
    own = message.own
    identity = printable(_text("id", own.get("id")))
    cells = [identity, message.state, str(own.get("epoch") or 0), message.due or NONE]
    if count > len(cells):
        cells.append(shortened(printable(_text("last_error", own.get("last_error"))), _COLUMN_MOST))
    return cells


def _text(name: str, value: Any) -> str:
    if value is None:
        return NONE
    if name in _TIMES:
        return _moment(value) or NONE
    plain = _bytes_text(value) if isinstance(value, bytes) else _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _bytes_text(value: bytes) -> str:
    """Bytes as text, where they are some; the last character may have been cut in two."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(value)
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def _moment(ns: Any) -> str | None:
    return local_time(ns) if isinstance(ns, int) and ns > 0 else None


def _plain(value: Any) -> Any:
    """A value as JSON can have it: exact, so decimals as text; bytes that are no text in hexadecimal, so marked."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"hex": value.hex()}
    if isinstance(value, date | timedelta):
        return plain_literal(value).strip("'")
    return str(value) if isinstance(value, Decimal) else value
