"""Structured logs: one line a record, key=value or JSON, on standard error.

Any module logs with the standard library: `logger.info("listening", extra={"backend": "sqlite"})`; what is in `extra`
becomes fields of the line. Rules: no payloads, no statement texts, no secrets, whatever the level.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TextIO

from proxy.config import Log, LogFormat

# These log statements with their literals below WARNING, which is payload.
_VERBOSE = ("mysql_mimic", "sqlglot", "asyncio", "asyncio_pool")

RECENT_MAX = 300  # warnings and errors of one process that are stored in memory
RECORD_CHARACTERS = 1000  # of a record's message, and of its fields

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/@+,%[]()")


def configure(settings: Log, stream: TextIO | None = None, *, worker: int | None = None) -> None:
    """Send every record of this process to `stream` (standard error) in the configured form.

    `worker`: which of several processes this is; a field of every record. Warnings and errors are also stored in
    memory.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    if worker is not None:
        handler.addFilter(_WorkerField(worker))
    handler.setFormatter(JsonFormatter() if settings.format is LogFormat.JSON else KeyValueFormatter())
    recent.clear()
    logging.basicConfig(handlers=[handler, recent], level=settings.level.name, force=True)
    logging.captureWarnings(True)
    for name in _VERBOSE:
        logging.getLogger(name).setLevel(logging.WARNING)


class _WorkerField(logging.Filter):
    """Adds `worker` to every record."""

    def __init__(self, worker: int) -> None:
        super().__init__()
        self._worker = worker

    def filter(self, record: logging.LogRecord) -> bool:
        record.worker = self._worker
        return True


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A stored record. `at_ns`: when, by this machine's clock; `details`: its fields, as key=value."""

    at_ns: int
    level: str
    logger: str
    message: str
    details: str


class RecentRecords(logging.Handler):
    """The last warnings and errors of this process. `queuegate.log` shows them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._records: deque[StoredRecord] = deque(maxlen=RECENT_MAX)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._records.append(_to_stored(record))
        except Exception:
            self.handleError(record)  # as every handler: what logs is not disturbed

    def newest(self) -> list[StoredRecord]:
        """All of them, the newest first."""
        return list(self._records)[::-1]

    def clear(self) -> None:
        """Remove all records."""
        self._records.clear()


def _to_stored(record: logging.LogRecord) -> StoredRecord:
    record_fields = fields(record)
    if "exception" in record_fields:  # its last line: the trace is in the log
        record_fields["exception"] = str(record_fields["exception"]).rstrip().rpartition("\n")[2]
    del record_fields["time"]
    level, logger, message = (str(record_fields.pop(name)) for name in ("level", "logger", "msg"))
    details = " ".join(f"{key}={_quoted(value)}" for key, value in record_fields.items())
    at_ns = int(record.created * 1_000_000) * 1000
    return StoredRecord(at_ns, level, logger, message[:RECORD_CHARACTERS], details[:RECORD_CHARACTERS])


recent = RecentRecords()
"""Those of this process."""


def fields(record: logging.LogRecord) -> dict[str, object]:
    """A record as ordered fields, the extra ones last."""
    stamp = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    result: dict[str, object] = {
        "time": stamp.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "msg": record.getMessage(),
    }
    result.update((key, value) for key, value in vars(record).items() if key not in _STANDARD and key not in result)
    if record.exc_info:
        result["exception"] = logging.Formatter().formatException(record.exc_info)
    return result


class KeyValueFormatter(logging.Formatter):
    """`time=... level=info logger=proxy msg="listening on ..." backend=sqlite`; a value with a space is quoted."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_quoted(value)}" for key, value in fields(record).items())


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with the same fields."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(fields(record), default=str, ensure_ascii=False)


def _quoted(value: object) -> str:
    text = str(value)
    if text and _BARE.issuperset(text):
        return text
    return json.dumps(text, ensure_ascii=False)  # escapes quotes and line ends, so a record stays one line
