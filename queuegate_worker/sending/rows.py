"""Payloads as an INSERT: names, values, and when the messages are due. Pure."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import re
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from queuegate_worker.errors import WorkerError
from queuegate_worker.statements import Statement, back_quoted, duration, quoted

Row = Mapping[str, Any]

_ROWS_MAX = 500  # in one statement
_TEXT_MAX = 500_000  # estimated bytes of one statement: the proxy reads DELAY in statements of up to 1 MiB
_DELAY_SECONDS_MAX = 315_360_000  # ten years, the server's own bound
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS = (2000, 2199)  # what nanoseconds in a BIGINT hold, and what the queue's own check allows
_BITS_MAX = 1024  # of an integer: a DOUBLE holds no larger one, and a DECIMAL less
_LONG_NUMBER = re.compile(r"\d{19}")
_DIGITS_MAX = 20  # of the largest and the smallest whole number that JSON of every database holds exactly
_PLAIN = (str, bytes, int, float, Decimal, datetime, date, time, timedelta)


@dataclass(frozen=True, slots=True)
class Due:
    """When messages are due: `delay` seconds after their transaction begins, or `at` a time; both None: at once."""

    delay: float | None = None
    at: datetime | None = None

    @classmethod
    def of(cls, delay: float | timedelta | None, at: datetime | None) -> Due:
        """Checks the arguments of a send. Raises WorkerError."""
        if delay is not None and at is not None:
            raise WorkerError("give a delay or a time (at), not both")
        return cls(None if delay is None else _seconds(delay), None if at is None else _checked(at))

    @property
    def time_scheduled(self) -> int | None:
        """The value of the queue's column of that name for a time: nanoseconds since 1970, UTC."""
        return None if self.at is None else (self.at - _EPOCH) // timedelta(microseconds=1) * 1000


NOW = Due()


def _seconds(delay: float | timedelta) -> float:
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds != seconds:
        raise WorkerError(f"delay is {delay!r}; it is a number of seconds, or a timedelta")
    if not 0 <= seconds <= _DELAY_SECONDS_MAX:  # without its value: Python does not write every integer
        raise WorkerError(f"a delay is 0 to {_DELAY_SECONDS_MAX} seconds (ten years)")
    return float(seconds)


def _checked(at: datetime) -> datetime:
    if not isinstance(at, datetime):
        raise WorkerError(f"at is {at!r}; it is a datetime with a time zone")
    if at.utcoffset() is None:
        raise WorkerError(f"at is {at!r}, without a time zone; use datetime.now(UTC) or .astimezone()")
    if not datetime(_YEARS[0], 1, 1, tzinfo=UTC) <= at < datetime(_YEARS[1] + 1, 1, 1, tzinfo=UTC):
        raise WorkerError(f"at is {at!r}; it is a time of the years {_YEARS[0]} to {_YEARS[1]}")
    return at


def inserts(queue: str, rows: Sequence[Row], due: Due = NOW) -> list[Statement]:
    """INSERTs of these rows, of all before the first is sent: one may be refused. All rows need the same columns.

    A statement has at most 500 rows, and about half a megabyte unless one row is larger. Raises WorkerError.
    """
    return [*_inserts(queue, rows, due)]


def _inserts(queue: str, rows: Sequence[Row], due: Due) -> Iterator[Statement]:
    names = [*rows[0]] if rows else []
    for row in rows:
        if row.keys() != set(names):
            raise WorkerError(f"messages of one call have the same columns; one has {[*row]}, another {names}")
    scheduled = due.time_scheduled
    head, tail = _head(queue, names, scheduled is not None), _tail(due)
    pending: list[Any] = []
    count = size = 0
    for row in rows:
        values = [as_value(name, row[name]) for name in names] + ([] if scheduled is None else [scheduled])
        length = _size(values)
        if tail and length > _TEXT_MAX:
            raise WorkerError(f"a message with a delay has at most about {_TEXT_MAX} bytes; give the time (at) instead")
        if count and (count == _ROWS_MAX or size + length > _TEXT_MAX):
            yield _statement(head, count, pending, tail)
            pending, count, size = [], 0, 0
        pending, count, size = pending + values, count + 1, size + length
    if count:
        yield _statement(head, count, pending, tail)


def _head(queue: str, names: Sequence[str], scheduled: bool) -> tuple[str, str]:
    """The text before the rows, and the placeholders of one."""
    columns = [_column(name) for name in names] + (["`time_scheduled`"] if scheduled else [])
    marks = f"({', '.join(['%s'] * len(columns))})"
    return f"INSERT INTO {_sendable(queue, quoted(queue))} ({', '.join(columns)}) VALUES ", marks


def _tail(due: Due) -> tuple[str, tuple[str, ...]] | None:
    return None if due.delay is None else (" DELAY %s", (duration(due.delay),))


def _statement(
    head: tuple[str, str], count: int, values: Sequence[Any], tail: tuple[str, tuple[str, ...]] | None
) -> Statement:
    text, marks = head
    clause, clause_values = tail or ("", ())
    return text + ", ".join([marks] * count) + clause, (*values, *clause_values)


def _column(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise WorkerError(f"{name!r} is no name of a column")
    return _sendable(name, back_quoted(name))


def _sendable(name: str, sql: str) -> str:
    """Refuses a percent sign: drivers differ in how one is written in a statement with placeholders."""
    if "%" in name:
        raise WorkerError(f"{name!r} has a percent sign, which not every driver can send; write the INSERT yourself")
    if not _is_unicode(name):
        raise WorkerError(f"{name!r} is no text of Unicode")
    return sql


def as_value(name: str, value: Any) -> Any:
    """A payload's value as drivers take it: scalars as they are, and everything else as JSON. Raises WorkerError."""
    if isinstance(value, enum.Enum):
        return as_value(name, value.value)
    if value is None or isinstance(value, _PLAIN):
        return _storable(name, value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    return as_exact_json(name, value)


def _storable(name: str, value: Any) -> Any:
    """Refuses what no column holds, or would hold only in part."""
    match value:
        case float() if not math.isfinite(value):
            raise WorkerError(f"column {name!r} is {value!r}; the database has no such number")
        case Decimal() if not value.is_finite():
            raise WorkerError(f"column {name!r} is {value!r}; the database has no such number")
        case int() if value.bit_length() > _BITS_MAX:
            raise WorkerError(f"column {name!r} is a number of {value.bit_length()} bits; the database has no such one")
        case datetime() | time() if value.tzinfo is not None:
            raise WorkerError(
                f"column {name!r} is a time with a zone, which the column would lose; "
                "give it in UTC without one: .astimezone(UTC).replace(tzinfo=None)"
            )
        case str() if not _is_unicode(value):
            raise WorkerError(f"column {name!r} is no text of Unicode: it has a surrogate")
    return value


def _is_unicode(text: str) -> bool:
    """Whether it can be written as UTF-8: text that was read with `surrogateescape` cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_json(name: str, value: Any) -> str:
    """A value as JSON text. Dates, UUIDs and decimals become text, dataclasses and pydantic models objects.

    Raises WorkerError.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_json_default)
        text.encode()  # a lone surrogate is refused here, and not by the driver
        return text
    except (TypeError, ValueError, RecursionError) as error:
        raise WorkerError(f"{name!r} cannot be written as JSON: {error}") from error


def as_exact_json(name: str, value: Any) -> str:
    """The same for a column of JSON. Raises WorkerError also for what that would hold as another value."""
    try:
        return exact(as_json(name, value))
    except ValueError as error:
        raise WorkerError(f"{name!r} cannot be stored as JSON: {error}") from error


def exact(text: str) -> str:
    """A text of JSON, as it is. Raises ValueError for whole numbers that MySQL's JSON would make floats."""
    if _LONG_NUMBER.search(text):
        json.loads(text, parse_int=_refuse_inexact)
    return text


def _refuse_inexact(digits: str) -> None:
    if len(digits) > _DIGITS_MAX or not -(1 << 63) <= int(digits) < 1 << 64:
        raise ValueError(
            f"a whole number in JSON is from -2^63 to 2^64-1, and one has {len(digits)} characters: send it as text"
        )


def _json_default(value: Any) -> Any:
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal() | uuid.UUID():
            return str(value)
        case timedelta():
            return value.total_seconds()
        case enum.Enum():
            return value.value
        case set() | frozenset():
            return sorted(value)
        case Mapping():
            return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if callable(dump := getattr(value, "model_dump", None)):
        refuse_unlike(dump())
        return dump(mode="json")
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def refuse_unlike(dumped: Any) -> None:
    """Refuses parts of a value that pydantic writes as another one: null for NaN, asterisks for a secret.

    Raises ValueError.
    """
    if isinstance(dumped, float) and not math.isfinite(dumped):
        raise ValueError(f"JSON has no number {dumped!r}")
    if hasattr(dumped, "get_secret_value"):
        raise ValueError("a secret would be written as asterisks; make it a field of its own, or plain text")
    if isinstance(dumped, Mapping):
        dumped = [*dumped.values()]
    if isinstance(dumped, list | tuple | set | frozenset):
        for each in dumped:
            refuse_unlike(each)


def _size(values: Sequence[Any]) -> int:
    """About how many bytes these values take in a statement."""
    return sum(2 * len(value) + 4 if isinstance(value, str | bytes) else 24 for value in values)


def current_traceparent() -> str | None:
    """The current span of OpenTelemetry in the form of W3C Trace Context; None without one.

    A program that has not loaded OpenTelemetry has no span, so it is not loaded here.
    """
    trace = sys.modules.get("opentelemetry.trace")
    context = None if trace is None else trace.get_current_span().get_span_context()
    if context is None or not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
