"""A row of SHOW QUEUE STATUS, as a value, and as a row or an object that a command prints. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from console.pages import figures
from queuegate.cli.failures import ConsoleError
from queuegate.cli.names import QueueRef
from queuegate.cli.tables import NONE, age, printable

_TITLES = ("QUEUE", "READY", "LAG", "IN FLIGHT", "SCHEDULED", "RETRYING", "DEAD", "RECEIVERS", "OLDEST", "STATE")


class Figures(figures.Figures):
    """One queue as the web console knows it, and its texts on a terminal."""

    __slots__ = ()

    @property
    def name(self) -> QueueRef:
        """As a command line names it."""
        return QueueRef(self.queue.table, self.queue.database)

    @property
    def counts(self) -> Mapping[str, int | None]:
        """The counts by their names."""
        return {name: getattr(self, name) for name in figures.COUNTS}

    def count(self, name: str) -> str:
        """A count in full, with a sign where there may be more."""
        value = self.counts[name]
        return NONE if value is None else f"{value}{self.more(value)}"

    def more(self, value: int) -> str:
        """The sign after a count that may be more."""
        return "" if self.exact or not value else "+"

    @property
    def state(self) -> str:
        """Further remarks, as text."""
        labels = ["paused"] if self.paused else []
        if self.alarms:
            labels.append(f"alarms: {self.alarms}")
        if self.parked:
            labels.append(f"parked: {self.parked}")
        if self.unmatched:
            labels.append(f"unmatched: {self.unmatched}")
        if self.problem is not None:
            labels.append(f"problem: {printable(self.problem)}")
        return ", ".join(labels)


def chosen(of: Iterable[Figures], names: Sequence[QueueRef], *, strict: bool = True) -> list[Figures]:
    """Those that are named, in the order of the names; all, where none is named.

    A name is compared as the server does it: exactly, else without case where that fits one only. Raises ConsoleError
    for a name that fits none, if `strict`.
    """
    all_queues = list(of)
    matches: dict[QueueRef, Figures] = {}
    for name in names:
        places = [queue for queue in all_queues if name.database in (None, queue.name.database)]
        same = [queue for queue in places if queue.name.table == name.table]
        alike = [queue for queue in places if queue.name.table.lower() == name.table.lower()]
        fits = same or (alike if len(alike) == 1 else [])
        if not fits and strict:
            raise ConsoleError(f"there is no queue '{name}', or the account may not see it")
        matches |= {queue.name: queue for queue in fits}
    return list(matches.values()) if names else all_queues


def titled(queues: Sequence[Figures]) -> list[str]:
    """The names to show, with the database where there are several."""
    several = len({queue.name.database for queue in queues}) > 1
    return [str(queue.name if several else QueueRef(queue.name.table)) for queue in queues]


def status_table(queues: Sequence[Figures]) -> tuple[Sequence[str], list[list[str]], Sequence[str]]:
    """Titles, rows, and the titles of those columns that are aligned to the right."""
    groups = any(queue.unread is not None for queue in queues)
    rows = []
    for title, queue in zip(titled(queues), queues, strict=True):
        counts = [queue.count(name) for name in ("ready", "in_flight", "scheduled", "retrying", "dead")]
        receivers = NONE if queue.receivers is None else str(queue.receivers)
        if groups:
            counts.insert(1, NONE if queue.unread is None else str(queue.unread))
        rows.append([title, *counts, receivers, age(queue.oldest_age), queue.state])
    titles = [title for title in _TITLES if groups or title != "LAG"]
    return titles, rows, titles[1:-1]


def status_object(queue: Figures) -> dict[str, Any]:
    """For JSON. The names are stable: programs read them."""
    return {
        "database": queue.name.database,
        "queue": queue.name.table,
        **queue.counts,
        "unread": queue.unread,
        "receivers": queue.receivers,
        "oldest_ready_age_seconds": queue.oldest_age,
        "exact": queue.exact,
        "paused": queue.paused,
        "alarms": queue.alarms,
        "totals": dict(queue.totals or {}),
        "problem": queue.problem,
    }
