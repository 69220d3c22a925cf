"""Rows of SHOW QUEUE STATUS, SHOW TOPICS and SHOW GROUPS as values. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from engine.model.queue import SEQUENCE_COLUMN, QueueName, default_dead_letter

COUNTS = ("ready", "in_flight", "scheduled", "retrying", "parked", "unmatched", "acked", "dead")
_TOTAL = "_total"
_SEQUENCED = re.compile(r"(?:^|, )sequence = on")
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

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """Of one row of SHOW QUEUE STATUS. A proxy of version 0.1.0 has neither receivers nor what is unread."""
        columns = {key.lower(): value for key, value in row.items()}
        oldest = columns["oldest_ready_age"]
        return cls(
            queue=QueueName(columns["database"], columns["queue"]),
            **{name: whole(columns[name]) for name in COUNTS},
            receivers=whole(columns.get("receivers", columns.get("subscribers"))),
            oldest_age=None if oldest is None else float(oldest),
            exact=columns["counted"] != "at least",
            paused=bool(columns["paused"]),
            alarms=whole(columns["alarms"]) or 0,
            unread=whole(columns.get("unread")),
            totals={
                key.removesuffix(_TOTAL): int(value)
                for key, value in columns.items()
                if key.endswith(_TOTAL) and value is not None
            },
            problem=columns["problem"],
        )

    @property
    def dead_letters(self) -> bool:
        """Whether its messages are dead letters, as far as its name shows: ready ones wait for an operator."""
        return self.queue.table.endswith(_DEAD_LETTERS)

    @property
    def later(self) -> int | None:
        """Messages that wait for a time: their own, or a retry's."""
        return None if self.scheduled is None or self.retrying is None else self.scheduled + self.retrying


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """A row of SHOW TOPICS. Numbers are None where they are not known."""

    topic: QueueName
    first_offset: int | None
    last_offset: int | None
    messages: int | None
    bytes: int | None
    last_minute: int | None
    readers: int | None
    options: str
    problem: str | None

    @property
    def offset_column(self) -> str:
        """The column of its table that its offsets are in."""
        return SEQUENCE_COLUMN if _SEQUENCED.search(self.options) else "id"


@dataclass(frozen=True, slots=True)
class Group:
    """One consumer group. `queue`: its table. `offset`: up to where it has read. Numbers are None where they are not
    known; `exact`: unread messages were counted to the end."""

    name: str
    queue: QueueName
    paused: bool
    members: int
    offset: int | None
    unread: int | None
    oldest_unread_age: float | None
    holes: int
    lost: int
    ready: int | None
    waiting: int | None
    in_flight: int | None
    dead: int | None
    alarms: int
    exact: bool
    problem: str | None

    @property
    def figures(self) -> Figures:
        """Those of its queue, as far as they are known here."""
        return Figures(
            self.queue,
            ready=self.ready,
            in_flight=self.in_flight,
            dead=self.dead,
            receivers=self.members,
            exact=self.exact,
            paused=self.paused,
            alarms=self.alarms,
            unread=self.unread,
        )

    @property
    def undone(self) -> int | None:
        """What is in its queue and not done."""
        parts = (self.ready, self.waiting, self.in_flight)
        return None if None in parts else sum(part or 0 for part in parts)


def topic_figures(row: Mapping[str, Any]) -> TopicFigures:
    """Of one row of SHOW TOPICS, whose names are in lower case."""
    return TopicFigures(
        QueueName(row["database"], row["topic"]),
        first_offset=whole(row["first_offset"]),
        last_offset=whole(row["last_offset"]),
        messages=whole(row["messages"]),
        bytes=whole(row["bytes"]),
        last_minute=whole(row["last_minute"]),
        readers=whole(row["readers"]),
        options=row["options"] or "",
        problem=row["problem"] or None,
    )


def group(row: Mapping[str, Any]) -> Group:
    """Of one row of SHOW GROUPS."""
    age = row["oldest_unread_age"]
    return Group(
        name=str(row["group"]),
        queue=QueueName(row["database"], row["queue"]),
        paused=bool(row["paused"]),
        members=whole(row["members"]) or 0,
        offset=whole(row["offset"]),
        unread=whole(row["unread"]),
        oldest_unread_age=None if age is None else float(age),
        holes=whole(row["holes"]) or 0,
        lost=whole(row["lost"]) or 0,
        ready=whole(row["ready"]),
        waiting=whole(row["waiting"]),
        in_flight=whole(row["in_flight"]),
        dead=whole(row["dead"]),
        alarms=whole(row["alarms"]) or 0,
        exact=row["counted"] != "at least",
        problem=row["problem"] or None,
    )


def whole(value: Any) -> int | None:
    """A number of a row, or NULL."""
    return None if value is None else int(value)
