"""The proxy's own result sets: SHOW QUEUES, and streams in SHOW PROCESSLIST. Pure: values in, rows out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from engine.model.queue import ColumnMeta, QueueCatalog, QueueName, QueueStatus, TextValue
from proxy.errors import ProxyError
from proxy.login.wildcards import Wildcard, fits

_LONGLONG, _VAR_STRING = 8, 253
_BINARY, _UTF8MB4 = 63, 45

Row = tuple[TextValue, ...]


def text_column(name: str, length: int = 256) -> ColumnMeta:
    """A column of text."""
    return ColumnMeta(name, _VAR_STRING, _UTF8MB4, length * 4)


def number_column(name: str) -> ColumnMeta:
    """A column of whole numbers."""
    return ColumnMeta(name, _LONGLONG, _BINARY, 21)


PATTERN_MAX = 4096  # characters of a pattern for names, which have 64

QUEUES_COLUMNS = (
    text_column("Queue"),
    text_column("Database"),
    number_column("Subscribers"),
    number_column("Unacked"),
    number_column("Cached"),
    number_column("Sent"),
    number_column("Redelivered"),
    number_column("Purged"),
    number_column("Receivers"),
    text_column("Problem"),
)


WARNINGS_COLUMNS = (text_column("Level", 7), number_column("Code"), text_column("Message", 512))

CREATE_SCHEDULE_COLUMNS = (text_column("Schedule"), text_column("Create Schedule", 16_384))


_PAUSED = "paused: accepts messages and delivers none until ALTER QUEUE ... RESUME"


def like_pattern(pattern: str) -> Callable[[str], bool]:
    """A test of names against a LIKE pattern (%, _, backslash escapes), compared without case."""
    if len(pattern) > PATTERN_MAX:
        raise ProxyError(1235, f"A LIKE pattern for names may have {PATTERN_MAX} characters; shorten it")
    pieces = re.findall(r"\\.|[^\\]|\\", pattern.lower(), re.DOTALL)
    parts = [Wildcard.MANY if p == "%" else Wildcard.ONE if p == "_" else p[-1] for p in pieces]
    return lambda name: fits(name.lower(), parts)


def queue_rows(
    statuses: Iterable[QueueStatus],
    catalog: QueueCatalog,
    database: str | None,
    like: str | None,
    can_see: Callable[[QueueName], bool] | None = None,
    redact: Callable[[str], str] = str,
    problems: Mapping[QueueName, str] = MappingProxyType({}),
) -> list[Row]:
    """The rows of SHOW QUEUES: those served with their counters and `problems`, those refused with the reason, in a
    text that `redact` has made fit for the account. `can_see`: no others."""
    matches_name = like_pattern("%" if like is None else like)
    rows: list[tuple[str, str, Row]] = []
    paused = {queue.name for queue in catalog if queue.options.paused}
    for status in statuses if can_see is None else [s for s in statuses if can_see(s.name)]:
        counters = [status.counters.get(name, 0) for name in ("sent", "redelivered", "purged")]
        numbers = [status.subscribers, status.in_flight, status.cached, *counters, status.receivers]
        name = status.name
        notes = [text for text in (_PAUSED if name in paused else "", problems.get(name, "")) if text]
        texts = (
            name.table.encode(),
            name.database.encode(),
            *(str(n).encode() for n in numbers),
            "; ".join(notes).encode() if notes else None,
        )
        rows.append((name.database, name.table, texts))
    for name, reason in catalog.rejected.items():
        if can_see is not None and not can_see(name):
            continue
        blanks: Row = (None,) * 7
        rows.append(
            (name.database, name.table, (name.table.encode(), name.database.encode(), *blanks, redact(reason).encode()))
        )
    return [
        row for db, table, row in sorted(rows, key=lambda r: r[:2]) if database in (None, db) and matches_name(table)
    ]
