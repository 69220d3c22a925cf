"""The table `queuegate_archive`, in which an archiving job says how far it has come.

A queue with the option `archive` is not purged beyond that (docs/archive.md). Each database has its own table.
"""

from __future__ import annotations

from engine.model.queue import QueueName
from engine.store.statements.dialect import Dialect

ARCHIVE_TABLE = "queuegate_archive"


def archived_until(dialect: Dialect, database: str) -> str:
    """Until which time_acked queue `?` is archived, as a value."""
    return f"(SELECT archived_until FROM {dialect.gate.own(database, ARCHIVE_TABLE)} WHERE queue = ?)"


def make_table(database: str) -> str:
    """Its definition. `archived_until`: every message with a time_acked up to this is archived."""
    return (
        f"CREATE TABLE IF NOT EXISTS {QueueName(database, ARCHIVE_TABLE).sql}"
        " (queue VARCHAR(64) NOT NULL PRIMARY KEY, archived_until BIGINT NOT NULL) ENGINE=InnoDB"
    )
