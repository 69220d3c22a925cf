"""The table `queuegate_archive`, in which an archiving job says how far it has come.

A queue with the option `archive` is not purged beyond that (docs/archive.md). Each database has its own table.
"""

from __future__ import annotations

from engine.model.queue import quoted

ARCHIVE_TABLE = "queuegate_archive"


def table_of(database: str) -> str:
    """The database's table of archived queues."""
    return f"{quoted(database)}.{ARCHIVE_TABLE}"


def make_table(database: str) -> str:
    """Its definition. `archived_until`: every message with a time_acked up to this is archived."""
    return (
        f"CREATE TABLE IF NOT EXISTS {table_of(database)}"
        " (queue VARCHAR(64) NOT NULL PRIMARY KEY, archived_until BIGINT NOT NULL)"
    )
