"""The ids that an INSERT gives by hand, and how high they may be where the database numbers a queue's messages.

An id at the end of its type would leave the database none to go on with, and no constraint can be put on such a column
(MariaDB 1901, MySQL 3818). So half of the type's numbers are for ids that are given, and the other half follows them.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engine.model.identity import highest_given
from engine.model.queue import QueueSpec
from rewriter.errors import IncorrectId
from rewriter.rights.reader import StrictReader, Unreadable

_PLAIN = re.compile(rb"[+-]?\s*\d+|'[+-]?\d+'|\"[+-]?\d+\"")
_NONE = (b"NULL", b"DEFAULT", b"''")
_DIGITS_MAX = 40


@dataclass(frozen=True, slots=True)
class GivenIds:
    """`numbers`: those that the text says. `parameters`: at which `?` of `marks` the others are. `other`: a value that
    is neither, an expression say."""

    numbers: tuple[int, ...] = ()
    parameters: tuple[int, ...] = ()
    marks: int = 0
    other: str = ""


def check_given(number: object, queue: QueueSpec) -> None:
    """Raises IncorrectId for an id beyond that, and for what is no whole number."""
    highest = highest_given(queue)
    if highest is None or number is None:
        return
    text = number.decode("latin-1") if isinstance(number, bytes) else str(number)
    if isinstance(number, float) and number.is_integer():
        text = str(int(number))
    if not re.fullmatch(r"\s*[+-]?\d{1,40}\s*", text):
        raise IncorrectId(f"Incorrect integer value: '{text[:64]}' for column 'id' of queue '{queue.name.table}'")
    if int(text) > highest:
        raise IncorrectId(
            f"Out of range value: '{text.strip()}' for column 'id' of queue '{queue.name.table}': an id that is given"
            f" may be at most {highest}, so that there are ids after it; leave id out, and the database gives one"
        )


def check_text(sql: bytes, queue: QueueSpec, *, strict: bool, backslash_escapes: bool = True) -> GivenIds:
    """Check the ids in an INSERT's text; what is left to check at execution. `strict`: every id must be one that can be
    checked. Raises IncorrectId."""
    if highest_given(queue) is None:
        return GivenIds()
    columns = [column.name.lower() for column in queue.columns]
    try:
        given = given_ids(sql, columns, backslash_escapes=backslash_escapes)
    except Unreadable:
        given = GivenIds(other="this statement" if strict else "")
    for number in given.numbers:
        check_given(number, queue)
    if strict and given.other:
        raise IncorrectId(
            f"The id of a message of queue '{queue.name.table}' is given as a whole number or ?, not by {given.other};"
            " or leave it out"
        )
    return given


def given_ids(sql: bytes, columns: Sequence[str], *, backslash_escapes: bool = True) -> GivenIds:
    """The values for `id` in an INSERT or REPLACE of rows. `columns`: the table's. Raises Unreadable."""
    reader = StrictReader(sql, backslash_escapes=backslash_escapes)
    if not (reader.accept("INSERT") or reader.accept("REPLACE")):
        raise Unreadable
    while reader.accept_any("LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "IGNORE", "INTO"):
        pass
    reader.take_name()
    if reader.accept_symbol(b"."):
        reader.take_name()
    values = _Values(reader, sql)
    if reader.accept("SET"):
        values.assignments()
        return values.found
    named = list(columns)
    if reader.accept_symbol(b"("):
        named = _names(reader)
    if not reader.accept_any("VALUES", "VALUE"):
        raise Unreadable
    values.rows(named.index("id") if "id" in named else None)
    return values.found


def _names(reader: StrictReader) -> list[str]:
    names: list[str] = []
    while not reader.accept_symbol(b")"):
        names.append(reader.take_name().lower())
        while reader.accept_symbol(b"."):
            names[-1] = reader.take_name().lower()
        reader.accept_symbol(b",")
    return names


class _Values:
    """Reads values, and keeps those of the id."""

    def __init__(self, reader: StrictReader, sql: bytes) -> None:
        self._reader, self._sql = reader, sql
        self._numbers: list[int] = []
        self._parameters: list[int] = []
        self._marks = 0
        self._other = ""

    @property
    def found(self) -> GivenIds:
        return GivenIds(tuple(self._numbers), tuple(self._parameters), self._marks, self._other)

    def rows(self, place: int | None) -> None:
        """`place`: of the id in each row; None: it is not given."""
        if place is None:
            return
        while self._reader.accept_symbol(b"("):
            number = 0
            while not self._reader.accept_symbol(b")"):
                self._value(kept=number == place)
                number += 1
                self._reader.accept_symbol(b",")
            if not self._reader.accept_symbol(b","):
                return

    def assignments(self) -> None:
        """`column = value, ...`."""
        while True:
            name = self._reader.take_name().lower()
            self._reader.take_symbol(b"=")
            self._value(kept=name == "id")
            if not self._reader.accept_symbol(b","):
                return

    def _value(self, *, kept: bool) -> None:
        """One expression, up to a comma or the end of what it stands in."""
        reader, start, marks, depth = self._reader, self._reader.place, self._marks, 0
        while not (depth == 0 and (reader.at_symbol(b",") or reader.at_symbol(b")"))) and not reader.ended:
            if reader.accept_symbol(b"("):
                depth += 1
            elif depth and reader.accept_symbol(b")"):
                depth -= 1
            elif reader.at_symbol(b"?"):
                self._marks += 1
                reader.accept_scalar()
            elif not ((depth and reader.accept_symbol(b",")) or reader.accept_scalar() or reader.accept_comparison()):
                if not depth and reader.word in ("ON", "RETURNING"):
                    break
                reader.take_name()
        if reader.place == start:
            raise Unreadable
        if kept:
            self._keep(self._sql[start : reader.place].strip(), marks)

    def _keep(self, text: bytes, marks: int) -> None:
        if text == b"?":
            self._parameters.append(marks)
        elif _PLAIN.fullmatch(text) and len(text) <= _DIGITS_MAX:
            self._numbers.append(int(text.strip(b"'\"").replace(b" ", b"")))
        elif text.upper() not in _NONE:
            self._other = text[:64].decode("utf-8", "replace")
