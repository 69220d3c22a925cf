"""The result of an analysis of dead letters, and suggestions: plain values and text, no Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from spark_connector.jobs.report.text import counted, duration
from spark_connector.jobs.report.values import Counted, lines
from spark_connector.mysql_client.driver import quoted

AGES: Mapping[str, int] = {"under an hour": 3600, "under a day": 86_400, "under a week": 604_800}
OLDER = "older"
_TRANSIENT = re.compile(
    r"time[d ]?-?\s?out|deadlock|lock wait|connect|unavailable|temporar|throttl|rate.?limit|too many|broken pipe|reset"
    r"|\b(?:429|50[0234])\b",
    re.IGNORECASE,
)
"""Errors that are often transient."""
_LITERAL_MAX = 120  # of an error in a suggested statement; longer ones are matched by their beginning
_SHAPE_MAX, _DEPTH_MAX = 240, 3


@dataclass(frozen=True)
class Values:
    """A column's most frequent values, and about how many distinct ones it has."""

    column: str
    distinct: int
    common: tuple[Counted, ...]
    shapes: tuple[Counted, ...]  # of its JSON values, if it has any


@dataclass(frozen=True)
class DeadLetters:
    """The unacked messages of a dead-letter queue. Ages in seconds."""

    queue: str
    count: int
    oldest: float | None
    last_errors: tuple[Counted, ...]
    first_errors: tuple[Counted, ...]
    attempts: tuple[tuple[int, int], ...]
    ages: tuple[Counted, ...]
    columns: tuple[Values, ...]
    suggestions: tuple[str, ...]
    exported: str | None = None


def shape_of(text: str | None) -> str | None:
    """The structure of a JSON object or array, `{id: number, lines: [{sku: string}]}`; None for anything else."""
    if text is None or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "not JSON, though it begins so"
    return _shape(value, 0)[:_SHAPE_MAX].encode(errors="replace").decode()  # JSON may have halves of a character


def _shape(value: Any, depth: int) -> str:
    if isinstance(value, dict | list) and depth == _DEPTH_MAX:
        return "{...}" if isinstance(value, dict) else "[...]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_shape(value[key], depth + 1)}' for key in sorted(value))}}}"
    if isinstance(value, list):
        return f"[{' | '.join(sorted({_shape(item, depth + 1) for item in value}))}]"
    return "null" if value is None else _KINDS[type(value)]


_KINDS: Mapping[type, str] = {bool: "boolean", int: "number", float: "number", str: "string"}


def suggestions(queue: str, errors: Sequence[Counted], without: int) -> tuple[str, ...]:
    """A statement for each kind of error; `without`: messages that have none."""
    statements = []
    for error in errors:
        if _TRANSIENT.search(error.value):
            hint = f"-- {error.count:,} messages; this kind of error passes: put them back"
            statements.append(f"REDRIVE {quoted(queue)} WHERE {_matching(error.value)}; {hint}")
        else:
            hint = f"-- {error.count:,} messages; look at some first, then REDRIVE or ACK with the same WHERE"
            statements.append(f"SELECT * FROM {quoted(queue)} WHERE {_matching(error.value)} LIMIT 5; {hint}")
    if without:
        hint = f"-- {without:,} messages that nobody gave a reason for: receivers died, or were slower than ack_wait"
        statements.append(f"SELECT * FROM {quoted(queue)} WHERE last_error IS NULL LIMIT 5; {hint}")
    return tuple(statements)


def _matching(error: str) -> str:
    if len(error) <= _LITERAL_MAX:
        return f"last_error = {_literal(error)}"
    beginning = re.sub(r"([%_\\])", r"\\\1", error[:_LITERAL_MAX])
    return f"last_error LIKE {_literal(beginning + '%')}"


def _literal(text: str) -> str:
    for plain, escaped in (("\\", "\\\\"), ("'", "''"), ("\n", "\\n"), ("\r", "\\r"), ("\0", "\\0")):
        text = text.replace(plain, escaped)
    return f"'{text}'"


def as_data(result: DeadLetters) -> dict[str, Any]:
    """The analysis as data for JSON."""
    return asdict(result)


def text(result: DeadLetters) -> str:
    """The analysis for a terminal."""
    return "\n".join(_all(result))


def _all(of: DeadLetters) -> Iterator[str]:
    yield f"Dead-letter queue {of.queue}: {of.count:,} messages, the oldest {duration(of.oldest)} old"
    if not of.count:
        return
    for name, values in (("last error", of.last_errors), ("first error", of.first_errors), ("age", of.ages)):
        yield ""
        yield from counted(name, values)
    yield ""
    yield from lines([["deliveries", "messages"], *([str(n), f"{c:,}"] for n, c in of.attempts if c)], [False, True])
    for column in of.columns:
        yield ""
        yield from counted(f"{column.column}, about {column.distinct:,} different", column.common)
        if column.shapes:
            yield from counted(f"{column.column}, as JSON", column.shapes)
    yield ""
    yield "What to do:"
    yield from of.suggestions
    if of.exported:
        yield f"\nExported to {of.exported}"
