"""In what order mode=tail reads: that of the ids (ById), or that of the numbers of a topic's messages (ByNumber).

An Order says what the offset is, where a query begins, how far may be read, and what went missing. All else is the same
for both, and TailSource's.
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
class Look:
    """What a look found beyond an offset, and what of it may be read."""

    now: int  # ns, by the database's clock, before the look
    rows: Sequence[Row]
    readable: Readable
    complete: bool  # there was no more


@dataclass(frozen=True)
class Loss:
    """Messages that are not there although they were to be read: how many, and what is said of them."""

    count: int
    what: str


class Order(Protocol):
    """See the module. Methods that take a client send statements by it, and raise pymysql's errors."""

    @property
    def by(self) -> By:
        """What the offsets are."""

    @property
    def queue(self) -> Queue:
        """What is read."""

    @property
    def settings(self) -> tuple[str, ...]:
        """What each connection that reads begins with."""

    @property
    def holds_back(self) -> bool:
        """Whether `end` saw messages that are committed and cannot be read yet."""

    def begin(self, client: Client, starting: Starting, time: int | None) -> tuple[int, int]:
        """The offset after which a query begins, and the largest there is. `time`: ns, in the place of `starting`.
        Raises QueueError."""

    def end(self, client: Client) -> tuple[int, int | None]:
        """The time (ns, by the database's clock) and the largest offset, None where nothing is there. It is all that an
        idle query asks, and comes before each look."""

    def look(self, client: Client, since: int, most: int, until: int | None) -> Look:
        """The first messages beyond an offset, up to so many, and none beyond `until`."""

    def behind(self, client: Client, since: int, most: int) -> int:
        """How many messages are there beyond an offset, counted up to so many."""

    def lost(self, client: Client, offset: TailOffset, seen: int, rows: Sequence[Row], now: int) -> Loss | None:
        """What is missing before these messages, the first beyond an offset. `seen`: as in TailOffset."""


def given(queue: Queue, starting: int, largest: int) -> int:
    """The offset after which a reader of a topic begins with that one, which is not beyond the end. Raises
    QueueError."""
    if starting > largest + 1:
        raise QueueError(f"option startingOffsets is {starting}, and the last message of {queue.called} is {largest}")
    return max(0, starting - 1)
