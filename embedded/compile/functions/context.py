"""What a running statement's functions know of their session, and what they tell it back."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any, TypeVar

from embedded.compile.errors import SqlError

T = TypeVar("T")

VALUES_MAX = 64 << 20
"""Bytes of all values that the functions of one statement have made and that are there at the same time. SQLite, Python
and what is on its way to the client each have a copy of the largest of them."""

_SMALL = 4096  # bytes of a value that is not counted: a statement cannot have so many calls that these matter


@dataclass(slots=True)
class RowNumbers:
    """What an INSERT gives to its AUTO_INCREMENT column by an expression or a SELECT, row by row.

    `highest` is the column's highest number before the row; `generated` the first number that the table makes itself.
    """

    highest: int = 0
    given: int | None = None
    generated: int | None = None
    asked: int = 0

    def take(self, number: int | None) -> None:
        """The next row's number; None asks for one."""
        if number is None:
            self.asked += 1
            self.highest += 1
            self.generated = self.highest if self.generated is None else self.generated
        else:
            self.given = number
            self.highest = max(self.highest, number)


@dataclass(slots=True)
class CallContext:
    """One per statement that runs. `zone` is the session's time zone, `owner` its
    number, `locks` the database's named locks; the counters are the functions' report; `kept`
    are operands of the expression that is worked out, `held` the bytes of values by the place that made them."""

    zone: tzinfo = UTC
    owner: int = 0
    locks: object = None
    matched: int = 0
    changed: int = 0
    seen: int = 0
    touched_id: int | None = None
    numbers: RowNumbers = field(default_factory=RowNumbers)
    last_insert_id: int | None = None
    kept: dict[int, Any] = field(default_factory=dict)
    held: dict[object, int] = field(default_factory=dict)
    held_bytes: int = 0
    killed: bool = False
    wake: threading.Event | None = None

    def kill(self) -> None:
        """End a SLEEP that is running or about to; called from another thread."""
        self.killed = True
        if self.wake is not None:
            self.wake.set()

    def hold(self, place: object, size: int) -> None:
        """The value that is there at a place of the statement has so many bytes; what was there before is gone.

        Raises:
            SqlError: 1301 all of them together are too large.
        """
        before = self.held.get(place, 0)
        if size <= _SMALL and not before:
            return
        self.room(size - before)
        self.held[place] = size
        self.held_bytes += size - before

    def room(self, size: int) -> None:
        """Whether so many bytes more may be made.

        Raises:
            SqlError: 1301 they may not.
        """
        if size + self.held_bytes > VALUES_MAX:
            raise SqlError(
                1301,
                f"The values that this statement's functions make are larger than {VALUES_MAX} bytes together"
                " (max_allowed_packet): make them in the application",
            )

    def watched(self, items: Iterable[T]) -> Iterator[T]:
        """The items, until the statement is killed. What is made of those until then does not matter: a statement that
        is killed ends with its error as soon as the function returns."""
        for item in items:
            if self.killed:
                return
            yield item

    def sleep(self, seconds: float) -> bool:
        """Wait; True when ended early."""
        self.wake = threading.Event()
        return self.killed or self.wake.wait(seconds)

    def restart(self) -> None:
        """Forget the report, before a statement or a row is run."""
        self.matched = self.changed = self.seen = 0
        self.touched_id = None
        self.numbers = RowNumbers()
