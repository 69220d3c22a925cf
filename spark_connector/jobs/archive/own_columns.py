"""Which columns are the queue's own and which are the user's: the columns to copy into a new message."""

from __future__ import annotations

from collections.abc import Iterable

from spark_connector.client.queue import NUMBER
from spark_connector.jobs.archive.folder import DAY, INTERVAL

_IDENTITY = frozenset(
    {"id", "time_scheduled", "time_next", "epoch", "time_created", "time_acked", "state", "lease_token", NUMBER}
)
_FAILURE = frozenset({"first_error", "last_error", "failed_attempts", "attempts", "time_dead", "source", "source_id"})
_OF_ARCHIVES = frozenset({DAY, INTERVAL})


def content(names: Iterable[str]) -> list[str]:
    """The columns that a new message copies from an old one: priority, and all columns of the user."""
    return [name for name in names if name.lower() not in _IDENTITY | _FAILURE | _OF_ARCHIVES]


def declared(names: Iterable[str]) -> list[str]:
    """The columns that the queue's user declared."""
    return [name for name in content(names) if name.lower() != "priority"]
