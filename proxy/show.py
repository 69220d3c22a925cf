"""The proxy's own result sets: SHOW QUEUES, and streams in SHOW PROCESSLIST. Pure: values in, rows out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from engine.model import ColumnMeta, QueueCatalog, QueueStatus, TextValue
from proxy.registry import ProcessInfo
from proxy.upstream import Collected

_LONGLONG, _VAR_STRING = 8, 253
_BINARY, _UTF8MB4 = 63, 45

Row = tuple[TextValue, ...]


def text_column(name: str, length: int = 256) -> ColumnMeta:
    """A column of text."""
    return ColumnMeta(name, _VAR_STRING, _UTF8MB4, length * 4)


def number_column(name: str) -> ColumnMeta:
    """A column of whole numbers."""
    return ColumnMeta(name, _LONGLONG, _BINARY, 21)


QUEUES_COLUMNS = (
    text_column("Queue"),
    text_column("Database"),
    number_column("Subscribers"),
    number_column("In_flight"),
    number_column("Cached"),
    number_column("Sent"),
    number_column("Redelivered"),
    number_column("Purged"),
    text_column("Problem"),
)

WARNINGS_COLUMNS = (text_column("Level", 7), number_column("Code"), text_column("Message", 512))


def like_pattern(pattern: str) -> re.Pattern[str]:
    """A LIKE pattern (%, _, backslash escapes), compared without case, as a regular expression."""
    pieces = re.findall(r"\\.|%|_|[^\\%_]+|\\", pattern, re.DOTALL)
    table = {"%": ".*", "_": "."}
    body = "".join(table.get(p) or re.escape(p[1:] if len(p) == 2 and p[0] == "\\" else p) for p in pieces)
    return re.compile(body, re.DOTALL | re.IGNORECASE)


def queue_rows(
    statuses: Iterable[QueueStatus], catalog: QueueCatalog, database: str | None, like: str | None
) -> list[Row]:
    """The rows of SHOW QUEUES: those served with their counters, those refused with the reason."""
    wanted = like_pattern("%" if like is None else like)
    rows: list[tuple[str, str, Row]] = []
    for status in statuses:
        counters = [status.counters.get(name, 0) for name in ("sent", "redelivered", "purged")]
        numbers = [status.subscribers, status.in_flight, status.cached, *counters]
        name = status.name
        texts = (name.table.encode(), name.database.encode(), *(str(n).encode() for n in numbers), None)
        rows.append((name.database, name.table, texts))
    for name, reason in catalog.rejected.items():
        blanks: Row = (None,) * 6
        rows.append(
            (name.database, name.table, (name.table.encode(), name.database.encode(), *blanks, reason.encode()))
        )
    return [
        row
        for db, table, row in sorted(rows, key=lambda r: r[:2])
        if database in (None, db) and wanted.fullmatch(table)
    ]


def processes_with_streams(listed: Collected, ours: Sequence[ProcessInfo]) -> list[Row]:
    """The backend's process list, in which a streaming session shows what it streams and its client's own address.

    Those that the backend does not list any more, because their line to it is gone, come last.
    """
    streams = {str(p.connection_id).encode(): p for p in ours if p.streaming}
    names = [column.name.lower() for column in listed.columns]
    rows: list[Row] = []
    for row in listed.rows:
        process = streams.get(row[0] or b"")
        rows.append(row if process is None else _overlaid(row, names, process))
    known = {row[0] for row in listed.rows}
    rows += [_detached(names, p) for number, p in streams.items() if p.detached and number not in known]
    return rows


def _detached(names: Sequence[str], process: ProcessInfo) -> Row:
    values = {
        "id": str(process.connection_id).encode(),
        "user": process.user.encode(),
        "db": None if process.database is None else process.database.encode(),
    }
    return _overlaid(tuple(values.get(name) for name in names), names, process)


def _overlaid(row: Row, names: Sequence[str], process: ProcessInfo) -> Row:
    overlay = {
        "host": process.host,
        "command": process.command,
        "time": str(process.seconds),
        "state": process.state,
        "info": process.info or "",
    }
    return tuple(overlay[n].encode() if n in overlay else value for n, value in zip(names, row, strict=True))
