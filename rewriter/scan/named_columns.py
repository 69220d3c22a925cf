"""Which columns an INSERT names, as far as the scanner needs it."""

from __future__ import annotations

import re

from engine.model.queue import SEQUENCE_COLUMN
from rewriter.text.lexis import IDENTIFIER, SPACE, WORD_END, WORDS

NUMBERS = SEQUENCE_COLUMN.encode()
"""The column of a topic's numbers."""

_SEARCH_MAX = 65536  # 64 KiB from the beginning, and as many from the end: longer statements hold values
_SETS_ID = re.compile(SPACE + rb"SET" + WORD_END + rb".*?(?:\bid\b|`id`)" + SPACE + rb":?=", re.I | re.S)
_SETS_NUMBER = re.compile(NUMBERS + rb"[`\"]?" + SPACE + rb":?=", re.IGNORECASE)
_COLUMNS = re.compile(SPACE + rb"\(((?>(?:" + IDENTIFIER + rb"|[,.]|(?=[\s\x00#/*-])" + SPACE + rb")*))\)")
_PLAIN_VALUES = re.compile(rb"\s*+\(((?>(?:\s*+`?[\w$]++`?\s*+,)*)\s*+`?[\w$]++`?\s*+)\)\s*+VALUES?\b", re.IGNORECASE)

_OWN_COLUMNS = frozenset((b"id", b"state", b"time_scheduled", b"time_created", b"time_next"))


def sets_id(sql: bytes, place: int) -> bool:
    """Whether an INSERT whose table's name ends there names the column id, or that of numbers: in its list of columns,
    or as one that it sets."""
    if names_column(sql, place, b"id") or _SETS_ID.match(sql, place, place + _SEARCH_MAX) is not None:
        return True
    numbers = NUMBERS in sql[place : place + _SEARCH_MAX].lower() or NUMBERS in sql[-_SEARCH_MAX:].lower()
    return numbers and (names_column(sql, place, NUMBERS) or _SETS_NUMBER.search(sql, place) is not None)


def values_of_own_columns(sql: bytes, place: int) -> bool:
    """Whether an INSERT whose table's name ends there may fill a column of the queue that has to be looked at. False:
    it has VALUES for listed columns, and these are others. (ON DUPLICATE KEY UPDATE may still set them.)"""
    columns = _PLAIN_VALUES.match(sql, place)
    return columns is None or not _OWN_COLUMNS.isdisjoint(WORDS.findall(columns[1].lower()))


def names_column(sql: bytes, place: int, column: bytes) -> bool:
    """Whether the list of columns that begins there has this one."""
    columns = _COLUMNS.match(sql, place)
    return columns is not None and column in WORDS.findall(columns[1].lower())
