"""The explicit ids of an INSERT, and how high they may be where the database numbers a queue's messages.

An id at the end of its type's range would leave the database no next id, and no constraint can be put on such a column
(MariaDB 1901, MySQL 3818). So half of the type's range is for explicit ids, and the other half follows them. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engine.model.identity import highest_explicit_id
from engine.model.queue import QueueSpec
from engine.model.sharded import gives_ids_over_shards, no_id_of_choice
from rewriter.errors import IncorrectId, UnsupportedSql
from rewriter.text.strict_reader import StrictReader, Unreadable

_PLAIN = re.compile(rb"[+-]?\s*\d+|'[+-]?\d+'|\"[+-]?\d+\"")
_NONE = (b"NULL", b"DEFAULT", b"''")
_DIGITS_MAX = 40


@dataclass(frozen=True, slots=True)
class ExplicitIds:
    """`numbers`: those in the text. `parameters`: at which `?` of `parameter_count` the others are. `other`: a value
    that is neither, for example an expression."""

    numbers: tuple[int, ...] = ()
    parameters: tuple[int, ...] = ()
    parameter_count: int = 0
    other: str = ""


def check_explicit_id(number: object, queue: QueueSpec) -> None:
    """Raises IncorrectId for an id beyond that, and for a value that is no whole number."""
    highest = highest_explicit_id(queue)
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


def check_explicit_ids(sql: bytes, queue: QueueSpec, *, strict: bool, backslash_escapes: bool = True) -> ExplicitIds:
    """Check the ids in an INSERT's text; returns those to check at execution. `strict`: every id must be one that can
    be checked. Raises IncorrectId, UnsupportedSql."""
    over_shards = gives_ids_over_shards(queue)
    if highest_explicit_id(queue) is None and not over_shards:
        return ExplicitIds()
    columns = [column.name.lower() for column in queue.columns]
    try:
        ids = explicit_ids(sql, columns, backslash_escapes=backslash_escapes)
    except Unreadable:
        ids = ExplicitIds(other="this statement" if strict or (over_shards and re.search(rb"(?i)\bid\b", sql)) else "")
    if over_shards and (ids.numbers or ids.parameters or ids.other):
        raise UnsupportedSql(no_id_of_choice(queue))
    for number in ids.numbers:
        check_explicit_id(number, queue)
    if strict and ids.other:
        raise IncorrectId(
            f"The id of a message of queue '{queue.name.table}' is given as a whole number or ?, not by {ids.other};"
            " or leave it out"
        )
    return ids


def explicit_ids(sql: bytes, columns: Sequence[str], id_: str = "id", *, backslash_escapes: bool = True) -> ExplicitIds:
    """The values for the column `id_` in an INSERT or REPLACE of rows. `columns`: the table's. Raises Unreadable."""
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
        values.assignments(id_)
        return values.result
    named = (_names(reader) if reader.accept_symbol(b"(") else []) or list(columns)
    if id_ in named and not reader.accept_any("VALUES", "VALUE"):
        raise Unreadable
    values.rows(named.index(id_) if id_ in named else None)
    return values.result


def _names(reader: StrictReader) -> list[str]:
    names: list[str] = []
    while not reader.accept_symbol(b")"):
        name = reader.take_name().lower()
        if not reader.accept_symbol(b"."):
            names.append(name)
        reader.accept_symbol(b",")
    return names


class _Values:
    """Reads values, and collects those of the id."""

    def __init__(self, reader: StrictReader, sql: bytes) -> None:
        self._reader, self._sql = reader, sql
        self._numbers: list[int] = []
        self._parameters: list[int] = []
        self._parameter_count = 0
        self._other = ""

    @property
    def result(self) -> ExplicitIds:
        return ExplicitIds(tuple(self._numbers), tuple(self._parameters), self._parameter_count, self._other)

    def rows(self, place: int | None) -> None:
        """`place`: of the id in each row; None: there is none."""
        while place is not None and self._reader.accept_symbol(b"("):
            number = 0
            while not self._reader.accept_symbol(b")"):
                self._value(is_id=number == place)
                number += 1
                self._reader.accept_symbol(b",")
            if not self._reader.accept_symbol(b","):
                return

    def assignments(self, id_: str) -> None:
        """`column = value, ...`."""
        while True:
            name = self._reader.take_name().lower()
            self._reader.take_symbol(b"=")
            self._value(is_id=name == id_)
            if not self._reader.accept_symbol(b","):
                return

    def _value(self, *, is_id: bool) -> None:
        """One expression, up to a comma or the end of the parentheses around it."""
        reader, start, parameter_count, depth = self._reader, self._reader.place, self._parameter_count, 0
        while not (depth == 0 and (reader.at_symbol(b",") or reader.at_symbol(b")"))) and not reader.ended:
            if reader.accept_symbol(b"("):
                depth += 1
            elif depth and reader.accept_symbol(b")"):
                depth -= 1
            elif reader.at_symbol(b"?"):
                self._parameter_count += 1
                reader.accept_scalar()
            elif not ((depth and reader.accept_symbol(b",")) or reader.accept_scalar() or reader.accept_comparison()):
                if not depth and reader.word in ("ON", "RETURNING"):
                    break
                reader.take_name()
        if reader.place == start:
            raise Unreadable
        if is_id:
            self._add_id(self._sql[start : reader.place].strip(), parameter_count)

    def _add_id(self, text: bytes, parameter_count: int) -> None:
        if text == b"?":
            self._parameters.append(parameter_count)
        elif _PLAIN.fullmatch(text) and len(text) <= _DIGITS_MAX:
            self._numbers.append(int(b"".join(text.strip(b"'\"").split())))
        elif text.upper() not in _NONE:
            self._other = text[:64].decode("utf-8", "replace")
