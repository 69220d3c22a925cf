"""Defaults of a queue's own columns that a client sends back as text.

Row forms (Adminer, phpMyAdmin and others) fill a new row with what SHOW COLUMNS prints as each column's default, and
send it as a string. For a default that is an expression no server understands that. In these columns, which hold
numbers, such a string can only mean the default.
"""

from __future__ import annotations

import re

_IN_SHOWN_DEFAULTS = re.compile(rb"timestampdiff\(|'\(?`?time_scheduled`?\)?'", re.IGNORECASE)
_DECORATION = re.compile(r"[\s()`\\]|_[0-9a-z]+(?=\\?')")  # MySQL writes _utf8mb4\'1970-01-01\'
_NOW = "timestampdiffmicrosecond,'1970-01-01',utc_timestamp6*1000"
_TEXTS = {"time_scheduled": _NOW, "time_created": _NOW, "time_next": "time_scheduled"}


def may_show_defaults(sql: bytes) -> bool:
    """Whether the text may have such a value: a cheap check."""
    return b"time_" in sql.lower() and _IN_SHOWN_DEFAULTS.search(sql) is not None


def is_shown_default(column: str, text: str) -> bool:
    """Whether a string for this column is its default as a server prints it."""
    expected = _TEXTS.get(column.lower())
    return expected is not None and _DECORATION.sub("", text.lower()) == expected
