"""A row of SHOW QUEUE STATUS as a value, and its problems as text. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.model.queue import QueueName, default_dead_letter

_TOTAL = "_total"
_DEAD_LETTERS = default_dead_letter("")  # what the name ends in


@dataclass(frozen=True, slots=True)
class Figures:
    """One queue. Counts are None where they are not known; they are at least so many where they are not `exact`.

    `oldest_age`: seconds since the oldest ready message fell due. `totals`: counters since the proxy was started.
    `unread`: messages of its topic that a consumer group has not been fed, at most; None for other queues.
    """

    queue: QueueName
    ready: int | None = None
    in_flight: int | None = None
    scheduled: int | None = None
    retrying: int | None = None
    parked: int | None = None
    unmatched: int | None = None
    acked: int | None = None
    dead: int | None = None
    receivers: int | None = None
    oldest_age: float | None = None
    exact: bool = True
    paused: bool = False
    alarms: int = 0
    unread: int | None = None
    totals: Mapping[str, int] | None = None
    problem: str | None = None

    @property
    def dead_letters(self) -> bool:
        """Whether its messages are dead letters, as far as its name shows: ready ones wait for an operator."""
        return self.queue.table.endswith(_DEAD_LETTERS)

    @property
    def later(self) -> int | None:
        """Messages that wait for a time: their own, or a retry's."""
        return None if self.scheduled is None or self.retrying is None else self.scheduled + self.retrying


def figures(row: Mapping[str, Any]) -> Figures:
    """Of one row of SHOW QUEUE STATUS."""
    columns = {key.lower(): value for key, value in row.items()}
    oldest = columns["oldest_ready_age"]
    numbers = {
        name: None if columns[name] is None else int(columns[name])
        for name in ("ready", "in_flight", "scheduled", "retrying", "parked", "unmatched", "acked", "dead")
    }
    return Figures(
        queue=QueueName(columns["database"], columns["queue"]),
        **numbers,
        receivers=None if columns["receivers"] is None else int(columns["receivers"]),
        oldest_age=None if oldest is None else float(oldest),
        exact=columns["counted"] != "at least",
        paused=bool(columns["paused"]),
        alarms=int(columns["alarms"] or 0),
        unread=None if columns["unread"] is None else int(columns["unread"]),
        totals={
            key.removesuffix(_TOTAL): int(value)
            for key, value in columns.items()
            if key.endswith(_TOTAL) and value is not None
        },
        problem=columns["problem"],
    )


_WAITS_LONG_SECONDS = 60.0  # below it receivers that work are simply busy


def problems(of: Figures) -> tuple[str, ...]:
    """What needs attention, the worst first."""
    texts = []
    if of.problem:
        texts.append(of.problem)
    if of.paused:
        texts.append("paused: it accepts messages and delivers none")
    if of.alarms:
        texts.append(f"{of.alarms} leased for longer than alarm_after")
    unserved = not of.receivers and not of.in_flight
    if of.ready and unserved and of.dead_letters:
        texts.append("dead letters wait to be redriven or discarded")
    elif of.ready and unserved and not of.paused:
        texts.append("messages are ready, and there is no receiver")
    elif of.ready and of.receivers and (of.oldest_age or 0) > _WAITS_LONG_SECONDS and not of.paused:
        texts.append("the oldest ready message has waited for more than a minute: the receivers are too slow")
    if of.unmatched:
        texts.append(f"{of.unmatched} ready messages match the WHERE of no open stream")
    if of.parked:
        texts.append(f"{of.parked} parked")
    if of.dead:
        texts.append(f"{of.dead} in the dead-letter queue")
    return tuple(texts)
