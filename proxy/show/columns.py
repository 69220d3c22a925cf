"""The proxy's own result sets: SHOW QUEUES, and streams in SHOW PROCESSLIST. Pure: values in, rows out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from engine.model.queue import ColumnMeta, QueueCatalog, QueueName, QueueStatus, TextValue
from proxy.cluster.registry import ProcessInfo
from proxy.errors import ProxyError
from proxy.login.wildcards import Wildcard, fits
from proxy.wire.outcome import Collected

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
    text_column("Problem"),
)

PROCESSES_COLUMNS = (
    number_column("Id"),
    text_column("User", 32),
    text_column("Host", 64),
    text_column("db", 64),
    text_column("Command", 16),
    number_column("Time"),
    text_column("State", 64),
    text_column("Info", 1024),
)

WARNINGS_COLUMNS = (text_column("Level", 7), number_column("Code"), text_column("Message", 512))


_PAUSED = b"paused: accepts messages and delivers none until ALTER QUEUE ... RESUME"


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
    sees: Callable[[QueueName], bool] | None = None,
) -> list[Row]:
    """The rows of SHOW QUEUES: those served with their counters, those refused with the reason. `sees`: no others."""
    wanted = like_pattern("%" if like is None else like)
    rows: list[tuple[str, str, Row]] = []
    paused = {queue.name for queue in catalog if queue.options.paused}
    for status in statuses if sees is None else [s for s in statuses if sees(s.name)]:
        counters = [status.counters.get(name, 0) for name in ("sent", "redelivered", "purged")]
        numbers = [status.subscribers, status.in_flight, status.cached, *counters]
        name = status.name
        texts = (
            name.table.encode(),
            name.database.encode(),
            *(str(n).encode() for n in numbers),
            _PAUSED if name in paused else None,
        )
        rows.append((name.database, name.table, texts))
    for name, reason in catalog.rejected.items():
        if sees is not None and not sees(name):
            continue
        blanks: Row = (None,) * 6
        rows.append(
            (name.database, name.table, (name.table.encode(), name.database.encode(), *blanks, reason.encode()))
        )
    return [row for db, table, row in sorted(rows, key=lambda r: r[:2]) if database in (None, db) and wanted(table)]


def processes_with_streams(listed: Collected, ours: Sequence[ProcessInfo], *, alone: bool = False) -> list[Row]:
    """The backend's process list, in which our clients have their own addresses, and streaming ones show what they
    stream.

    Lines that the backend knows by its own account only bear their client's id, name and address. Sessions that it does
    not list come last: their line to it is gone, or they have none. `alone`: all of ours do.
    """
    by_line = {str(p.line_id or p.connection_id).encode(): p for p in ours}
    names = [column.name.lower() for column in listed.columns]
    rows: list[Row] = []
    for row in listed.rows:
        process = by_line.get(row[0] or b"")
        rows.append(row if process is None else _overlaid(row, names, process))
    known = {row[0] for row in listed.rows}
    missing = ours if alone else [p for n, p in by_line.items() if (p.detached or p.proxied) and n not in known]
    rows += [_listed(names, process) for process in missing]
    return rows


def _listed(names: Sequence[str], process: ProcessInfo) -> Row:
    """The row of a connection that the backend does not list."""
    values = _overlay(process)
    values |= {"id": str(process.connection_id).encode(), "user": process.user.encode()}
    if process.database is not None:
        values["db"] = process.database.encode()
    return tuple(values.get(name) for name in names)


def _overlaid(row: Row, names: Sequence[str], process: ProcessInfo) -> Row:
    overlay: dict[str, TextValue] = {"host": process.host.encode()}
    overlay |= _overlay(process) if process.streaming else {}
    if process.proxied:
        overlay |= {
            "id": str(process.connection_id).encode(),
            "user": process.user.encode(),
            "host": process.host.encode(),
        }
    return tuple(overlay.get(name, value) for name, value in zip(names, row, strict=True))


def _overlay(process: ProcessInfo) -> dict[str, TextValue]:
    return {
        "host": process.host.encode(),
        "command": process.command.encode(),
        "time": str(process.seconds).encode(),
        "state": process.state.encode(),
        "info": process.info.encode() if process.info else None,
    }
