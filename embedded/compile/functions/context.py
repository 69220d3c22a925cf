"""What a running statement's functions know of their session, and what they report to it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any, TypeVar

from embedded.compile.errors import SqlError
from embedded.compile.values.store import shown
from embedded.compile.values.temporal import parse_datetime, parse_time

T = TypeVar("T")

VALUES_MAX = 64 << 20
"""Bytes of all values that the functions of one statement have returned and that exist at the same time. SQLite, Python
and the output buffer of the client each have a copy of the largest of them."""

_SMALL = 4096  # bytes of a value that is not counted: a statement cannot have so many calls that these matter


@dataclass(slots=True)
class RowNumbers:
    """The values for the AUTO_INCREMENT column of an INSERT, from an expression or a SELECT, row by row.

    `highest` is the column's highest number before the row; `generated` the first number that the table generates
    itself; `explicit` the last one in the statement.
    """

    highest: int = 0
    explicit: int | None = None
    generated: int | None = None
    requested: int = 0

    def assign(self, number: int | None) -> None:
        """The next row's number; None requests one."""
        if number is None:
            self.requested += 1
            self.highest += 1
            self.generated = self.highest if self.generated is None else self.generated
        else:
            self.explicit = number
            self.highest = max(self.highest, number)


@dataclass(slots=True)
class CallContext:
    """One per statement that runs. `zone` is the session's time zone, `owner` its number, `locks` the database's named
    locks; the counters are the functions' report; `stored_operands` are operands of the expression that is evaluated,
    `allocated` the bytes of values by the place in the statement that returned them. `strict`: the statement is a
    change, and what loses something is an error in it."""

    zone: tzinfo = UTC
    owner: int = 0
    locks: object = None
    matched: int = 0
    changed: int = 0
    rows_read: int = 0
    touched_id: int | None = None
    numbers: RowNumbers = field(default_factory=RowNumbers)
    last_insert_id: int | None = None
    stored_operands: dict[int, Any] = field(default_factory=dict)
    allocated: dict[object, int] = field(default_factory=dict)
    allocated_bytes: int = 0
    killed: bool = False
    strict: bool = False
    wake: threading.Event | None = None

    def kill(self) -> None:
        """End a SLEEP that is running or about to; called from another thread."""
        self.killed = True
        if self.wake is not None:
            self.wake.set()

    def allocate(self, place: object, size: int) -> None:
        """The value at a place of the statement has so many bytes now; the one before is gone.

        Raises:
            SqlError: 1301 all of them together are too large.
        """
        before = self.allocated.get(place, 0)
        if size <= _SMALL and not before:
            return
        self.check_allocation(size - before)
        self.allocated[place] = size
        self.allocated_bytes += size - before

    def check_allocation(self, size: int) -> None:
        """Check that so many bytes more may be allocated.

        Raises:
            SqlError: 1301 they may not.
        """
        if size + self.allocated_bytes > VALUES_MAX:
            raise SqlError(
                1301,
                f"The values that this statement's functions make are larger than {VALUES_MAX} bytes together"
                " (max_allowed_packet): make them in the application",
            )

    def until_killed(self, items: Iterable[T]) -> Iterator[T]:
        """The items, until the statement is killed. The result does not matter then: a statement that is killed ends
        with its error as soon as the function returns."""
        for item in items:
            if self.killed:
                return
            yield item

    def sleep(self, seconds: float) -> bool:
        """Wait; True when ended early."""
        self.wake = threading.Event()
        return self.killed or self.wake.wait(seconds)

    def lose(self, errno: int, text: str) -> None:
        """A conversion loses something: NULL in a query.

        Raises:
            SqlError: it is in a strict change.
        """
        if self.strict:
            raise SqlError(errno, text)

    def moment(self, value: object) -> datetime | None:
        """An argument as a date and time."""
        moment = parse_datetime(value, self.zone)
        if moment is None:
            self.lose(1292, f"Incorrect datetime value: '{shown(value)}'")
        return moment

    def beyond(self, function: str = "datetime") -> None:
        """A date and time would lie outside of the calendar, the years 1 to 9999."""
        self.lose(1441, f"Datetime function: {function} field overflow")

    def out_of_range(self) -> None:
        """A number becomes the largest or smallest of its type."""
        self.lose(1264, "Out of range value for column '(null)'")

    def span(self, value: object) -> int | None:
        """An argument as a TIME, in microseconds."""
        microseconds = parse_time(value)
        if microseconds is None:
            self.lose(1292, f"Truncated incorrect time value: '{shown(value)}'")
        return microseconds

    def restart(self) -> None:
        """Reset the report, before a statement or a row is run."""
        self.matched = self.changed = self.rows_read = 0
        self.touched_id = None
        self.numbers = RowNumbers()
