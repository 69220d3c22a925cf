"""An INSERT of one message, written so that the message is born as leased: three columns more, and their values.

Only the plainest form is read: one row of literals, with the names of its columns. Every other INSERT stays as it is. A
text is read once up to its values, and most of an application's differ only in these. Pure.
"""

from __future__ import annotations

import re

from engine.model.lease_token import TOKEN_COLUMN
from engine.model.queue import SYSTEM_COLUMNS
from rewriter.text.strict_reader import StrictReader, Unreadable, end_of_row

_HEAD_MAX = 4096
_HEADS_MAX = 1000  # known at once: an application has some dozens
_VALUES = re.compile(rb"\bVALUES?\s*+(?=\()", re.IGNORECASE)
_COLUMNS = f", epoch, time_next, {TOKEN_COLUMN}".encode()
_UNSURE = (b"\\", b'"', b"'", b"#", b"--", b"/*")
_OWN = frozenset(SYSTEM_COLUMNS) - {"priority"}


class LeasedInserts:
    """For one catalog. `_heads`: by the text up to the values, where the further columns go; None: it is of another
    form."""

    def __init__(self) -> None:
        self._heads: dict[bytes, int | None] = {}

    def leased(self, sql: bytes, until_ns: int, token: int, *, backslash_escapes: bool) -> bytes | None:
        """The statement with a lease that ends at `until_ns`; None where it is of another form. `sql` is known to be a
        plain INSERT into a queue."""
        before = _VALUES.search(sql, 0, _HEAD_MAX)
        if before is None:
            return None
        start = before.end()
        head = sql[:start]
        try:
            place = self._heads[head]
        except KeyError:
            place = self._add(head)
        if place is None:
            return None
        end = end_of_row(sql, start, backslash_escapes=backslash_escapes)
        if end is None:
            return None
        values = b", 1, %d, %d" % (until_ns, token)
        return b"".join((sql[:place], _COLUMNS, sql[place:end], values, sql[end:]))

    def _add(self, head: bytes) -> int | None:
        if len(self._heads) >= _HEADS_MAX:
            self._heads.clear()
        place = self._heads[head] = _place_of(head)
        return place


def _place_of(head: bytes) -> int | None:
    """Where the list of columns ends, if it has none of the queue's own but `priority`."""
    # Without a backslash or a double quote, no setting of the session changes how it is read. The values begin where it
    # ends only if no comment is in it.
    if any(mark in head for mark in _UNSURE):
        return None
    reader = StrictReader(head)
    try:
        reader.take("INSERT")
        reader.accept("INTO")
        reader.take_name()
        if reader.accept_symbol(b"."):
            reader.take_name()
        reader.take_symbol(b"(")
        names = [reader.take_name().lower()]
        while reader.accept_symbol(b","):
            names.append(reader.take_name().lower())
        place = reader.place
        reader.take_symbol(b")")
        if not reader.accept_any("VALUES", "VALUE") or not reader.ended:
            return None
    except Unreadable:
        return None
    return None if _OWN.intersection(names) else place
