"""Which columns are the queue's own and which are the user's: the columns to copy into a new message."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from spark_connector.client.queue import NUMBER
from spark_connector.jobs.archive.folder import DAY, INTERVAL

_IDENTITY = frozenset(
    {"id", "time_scheduled", "time_next", "epoch", "time_created", "time_acked", "state", "lease_token", NUMBER}
)
_ERRORS = frozenset({"first_error", "last_error", "failed_attempts"})
_OF_ARCHIVES = frozenset({DAY, INTERVAL})
_DEAD, _LAST = "time_dead", "source_id"
_OF_DEAD_LETTERS = frozenset({"attempts", *_ERRORS, "lease_token", _DEAD, "source", _LAST})


def content(names: Iterable[str]) -> list[str]:
    """The columns that a new message copies from an old one: priority, and all columns of the user."""
    names = list(names)
    own = _IDENTITY | _ERRORS | _OF_ARCHIVES | _added([name.lower() for name in names])
    return [name for name in names if name.lower() not in own]


def declared(names: Iterable[str]) -> list[str]:
    """The columns that the queue's user declared."""
    return [name for name in content(names) if name.lower() != "priority"]


def _added(names: list[str]) -> frozenset[str]:
    """The columns that a dead-letter queue has besides those of its queue; none for other queues.

    They follow those of its queue, and are added only where the user has no column of that name.
    """
    if _DEAD not in names or _LAST not in names:
        return frozenset()
    return frozenset(takewhile(_OF_DEAD_LETTERS.__contains__, reversed(names[: names.index(_LAST) + 1])))
