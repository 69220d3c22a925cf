"""The columns of the proxy's own result sets, and the patterns of names in SHOW. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from engine.model.queue import ColumnMeta, TextValue
from mysql_wire.errors import ProxyError
from proxy.rights.account_rights import Wildcard, fits

_LONGLONG, _VAR_STRING = 8, 253
_BINARY, _UTF8MB4 = 63, 45

Row = tuple[TextValue, ...]


def text_column(name: str, length: int = 256) -> ColumnMeta:
    """A column of text."""
    return ColumnMeta(name, _VAR_STRING, _UTF8MB4, length * 4)


def number_column(name: str) -> ColumnMeta:
    """A column of whole numbers."""
    return ColumnMeta(name, _LONGLONG, _BINARY, 21)


PATTERN_MAX = 4096  # characters of a pattern for names, which have 64

WARNINGS_COLUMNS = (text_column("Level", 7), number_column("Code"), text_column("Message", 512))


def like_pattern(pattern: str) -> Callable[[str], bool]:
    """A test of names against a LIKE pattern (%, _, backslash escapes), compared without case."""
    if len(pattern) > PATTERN_MAX:
        raise ProxyError(1235, f"A LIKE pattern for names may have {PATTERN_MAX} characters; shorten it")
    pieces = re.findall(r"\\.|[^\\]|\\", pattern.lower(), re.DOTALL)
    parts = [Wildcard.MANY if p == "%" else Wildcard.ONE if p == "_" else p[-1] for p in pieces]
    return lambda name: fits(name.lower(), parts)
