"""The order in which mode=tail reads: by ids (ById), or by the numbers of a topic's messages (ByNumber).

An Order defines the offset, the start of a query, how far may be read, and what is missing. Everything else is the same
for both, and in TailSource.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue
from spark_connector.errors import QueueError
from spark_connector.streaming.offsets import By, TailOffset
from spark_connector.streaming.tail import Readable, Row

Starting = Literal["earliest", "latest"] | int


@dataclass(frozen=True)
class PollResult:
    """The messages after an offset, and how many of them may be read."""

    now: int  # ns, by the database's clock, before the poll
    rows: Sequence[Row]
    readable: Readable
    complete: bool  # there was no more


@dataclass(frozen=True)
class Loss:
    """Messages that were deleted before they were read: how many, and the text for the error."""

    count: int
    what: str


class Order(Protocol):
    """See the module. Methods with a client send statements with it, and raise pymysql's errors."""

    @property
    def by(self) -> By:
        """The kind of the offsets."""

    @property
    def queue(self) -> Queue:
        """The queue or topic that is read."""

    @property
    def settings(self) -> tuple[str, ...]:
        """Initial statements of each connection that reads."""

    @property
    def holds_back(self) -> bool:
        """Whether `end` found messages that are committed but cannot be read yet."""

    def begin(self, client: Client, starting: Starting, time: int | None) -> tuple[int, int]:
        """The offset after which a query starts, and the largest existing one. `time`: ns, instead of `starting`.
        Raises QueueError."""

    def end(self, client: Client) -> tuple[int, int | None]:
        """The time (ns, by the database's clock) and the largest offset, or None. It is the only query of
        an idle stream, and precedes each poll."""

    def poll(self, client: Client, since: int, most: int, until: int | None) -> PollResult:
        """The first messages after an offset, at most `most`, none beyond `until`."""

    def behind(self, client: Client, since: int, most: int) -> int:
        """How many messages exist after an offset, counted up to `most`."""

    def lost(self, client: Client, offset: TailOffset, seen: int, rows: Sequence[Row], now: int) -> Loss | None:
        """What is missing before these messages, the first after an offset. `seen`: as in TailOffset."""


def offset_before(queue: Queue, starting: int, largest: int) -> int:
    """The offset before `starting`, after which a reader of a topic starts. Raises QueueError if it is beyond the end,
    which an empty topic does not show."""
    if 0 < largest < starting - 1:
        raise QueueError(f"option startingOffsets is {starting}, and the last message of {queue.label} is {largest}")
    return max(0, starting - 1)
