"""A row of SHOW QUEUE STATUS, as a value, and as a row or an object that a command prints. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from queuegate.cli.failures import ConsoleError
from queuegate.cli.names import QueueRef
from queuegate.cli.tables import NONE, age, printable

_COUNTS = ("ready", "in_flight", "scheduled", "retrying", "parked", "unmatched", "acked", "dead")
_TITLES = ("QUEUE", "READY", "LAG", "IN FLIGHT", "SCHEDULED", "RETRYING", "DEAD", "RECEIVERS", "OLDEST", "STATE")
_TOTAL = "_total"


@dataclass(frozen=True, slots=True)
class Figures:
    """One queue. Counts are None where they are not known; they are at least so many where they are not `exact`.

    `oldest_age`: seconds since the oldest ready message fell due. `unread`: messages of its topic that a consumer group
    has not been fed, at most; None for other queues. `totals`: the counters, by their names.
    """

    name: QueueRef
    counts: Mapping[str, int | None]
    receivers: int | None
    oldest_age: float | None
    exact: bool
    paused: bool
    alarms: int
    unread: int | None
    totals: Mapping[str, int]
    problem: str | None

    @property
    def later(self) -> int | None:
        """Messages that wait for a time: their own, or a retry's."""
        scheduled, retrying = self.counts["scheduled"], self.counts["retrying"]
        return None if scheduled is None or retrying is None else scheduled + retrying

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
        if self.counts["parked"]:
            labels.append(f"parked: {self.counts['parked']}")
        if self.counts["unmatched"]:
            labels.append(f"unmatched: {self.counts['unmatched']}")
        if self.problem is not None:
            labels.append(f"problem: {printable(self.problem)}")
        return ", ".join(labels)


def figures(row: Mapping[str, Any]) -> Figures:
    """Of one row of SHOW QUEUE STATUS. A proxy of version 0.1.0 has neither receivers nor what is unread."""
    columns = {key.lower(): value for key, value in row.items()}
    oldest = columns["oldest_ready_age"]
    return Figures(
        name=QueueRef(columns["queue"], columns["database"]),
        counts={name: _number(columns[name]) for name in _COUNTS},
        receivers=_number(columns.get("receivers", columns["subscribers"])),
        oldest_age=None if oldest is None else float(oldest),
        exact=columns["counted"] != "at least",
        paused=bool(columns["paused"]),
        alarms=_number(columns["alarms"]) or 0,
        unread=_number(columns.get("unread")),
        totals={
            key.removesuffix(_TOTAL): int(value)
            for key, value in columns.items()
            if key.endswith(_TOTAL) and value is not None
        },
        problem=columns["problem"],
    )


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


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
        "totals": dict(queue.totals),
        "problem": queue.problem,
    }
