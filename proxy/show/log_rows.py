"""The rows of LOG: the last warnings and errors of every process that serves this database. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from engine.model.explanation import moment
from proxy.cluster.log_records import PlacedRecord
from proxy.show.status_tables import Values

ROWS_MAX = 500
"""Each may have 2 KB, and all of them are in one statement."""


def log_values(records: Iterable[PlacedRecord], most: int) -> list[Values]:
    """The newest first, `most` of them and ROWS_MAX."""
    newest = sorted(records, key=lambda each: -each.record.at_ns)[: min(most, ROWS_MAX)]
    return [
        (moment(record.at_ns), record.level, record.logger, record.message, record.details, place)
        for place, record in newest
    ]
