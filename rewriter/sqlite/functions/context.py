"""What a running statement's functions know of their session, and what they tell it back."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import TypeVar

T = TypeVar("T")


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
    number, `locks` the database's named locks; the counters are the functions' report."""

    zone: tzinfo = UTC
    owner: int = 0
    locks: object = None
    matched: int = 0
    changed: int = 0
    seen: int = 0
    touched_id: int | None = None
    numbers: RowNumbers = field(default_factory=RowNumbers)
    last_insert_id: int | None = None
    killed: bool = False
    wake: threading.Event | None = None

    def kill(self) -> None:
        """End a SLEEP that is running or about to; called from another thread."""
        self.killed = True
        if self.wake is not None:
            self.wake.set()

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
