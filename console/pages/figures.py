"""What SHOW QUEUE STATUS says of a queue, as a value, and what is wrong with it, in words. Pure."""

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
        """Whether its messages are dead letters, as far as its name says it: what is ready waits for a person."""
        return self.queue.table.endswith(_DEAD_LETTERS)

    @property
    def later(self) -> int | None:
        """Messages that wait for a time: their own, or a retry's."""
        return None if self.scheduled is None or self.retrying is None else self.scheduled + self.retrying


def figures(row: Mapping[str, Any]) -> Figures:
    """Of one row of SHOW QUEUE STATUS."""
    known = {key.lower(): value for key, value in row.items()}
    oldest = known["oldest_ready_age"]
    numbers = {
        name: None if known[name] is None else int(known[name])
        for name in ("ready", "in_flight", "scheduled", "retrying", "parked", "unmatched", "acked", "dead")
    }
    return Figures(
        queue=QueueName(known["database"], known["queue"]),
        **numbers,
        receivers=None if known["receivers"] is None else int(known["receivers"]),
        oldest_age=None if oldest is None else float(oldest),
        exact=known["counted"] != "at least",
        paused=bool(known["paused"]),
        alarms=int(known["alarms"] or 0),
        unread=None if known["unread"] is None else int(known["unread"]),
        totals={
            key.removesuffix(_TOTAL): int(value)
            for key, value in known.items()
            if key.endswith(_TOTAL) and value is not None
        },
        problem=known["problem"],
    )


_WAITS_LONG_SECONDS = 60.0  # below it receivers that work are simply busy


def problems(of: Figures) -> tuple[str, ...]:
    """What somebody should look at, the worst first."""
    said = []
    if of.problem:
        said.append(of.problem)
    if of.paused:
        said.append("paused: it accepts messages and delivers none")
    if of.alarms:
        said.append(f"{of.alarms} leased for longer than alarm_after")
    unserved = not of.receivers and not of.in_flight
    if of.ready and unserved and of.dead_letters:
        said.append("dead letters wait for somebody to redrive or discard them")
    elif of.ready and unserved and not of.paused:
        said.append("messages are ready, and nobody receives")
    elif of.ready and of.receivers and (of.oldest_age or 0) > _WAITS_LONG_SECONDS and not of.paused:
        said.append("the oldest ready message waits for more than a minute: the receivers do not keep up")
    if of.unmatched:
        said.append(f"{of.unmatched} ready fit the WHERE of no open stream")
    if of.parked:
        said.append(f"{of.parked} set aside")
    if of.dead:
        said.append(f"{of.dead} in the dead-letter queue")
    return tuple(said)
