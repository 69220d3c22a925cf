"""The log: the last warnings and errors of the proxies and their processes. One statement.

They are for accounts that may see all connections; others see why they get none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from console.database import StatementError
from console.visits import Page, Visit

SHOWN_MAX = 200
_SQL = f"SELECT at, level, logger, message, details, proxy FROM queuegate.log ORDER BY at DESC LIMIT {SHOWN_MAX}"


@dataclass(frozen=True, slots=True)
class Record:
    """A warning or an error. `at`: UTC, by the clock of that machine; `proxy`: the machine's name and the process."""

    at: str
    level: str
    logger: str
    message: str
    details: str
    proxy: str


@dataclass(frozen=True, slots=True)
class LogPage:
    """What the page shows, the newest first. `refused`: why this account sees none."""

    records: tuple[Record, ...]
    refused: str = ""


async def read_log(visit: Visit) -> LogPage:
    """See the module."""
    try:
        answer = await visit.session.database.read(_SQL)
    except StatementError as error:
        return LogPage((), error.full_message)
    return LogPage(tuple(map(_record, answer.rows)))


def _record(row: Mapping[str, Any]) -> Record:
    return Record(*(str(row[name]) for name in ("at", "level", "logger", "message", "details", "proxy")))


PAGES = (Page(read_log, "The last warnings and errors of the proxies", "/log", "log.html", "/log", nav="Log"),)
