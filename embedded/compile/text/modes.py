"""The settings of a session under which its statements are read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from embedded.compile.errors import unsupported

_PIPES = re.compile(r"(`(?:[^`]|``)*`)|\|\|")
_REAL = re.compile(r"`(?:[^`]|``)*`|\b(REAL)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Modes:
    """What of the session changes the meaning of a statement; part of every plan's key."""

    ansi_quotes: bool = False
    no_backslash_escapes: bool = False
    pipes_as_concat: bool = False
    real_as_float: bool = False
    no_auto_value_on_zero: bool = False
    utc: bool = True
    found_rows: bool = False
    database: str | None = "main"
    strict: bool = True


def check_modes(shape: str, modes: Modes) -> None:
    """What a definition stores is parsed again in sessions with other modes.

    Raises:
        UnsupportedSql: it contains `||` or REAL, to which this session's modes give another meaning.
    """
    if modes.pipes_as_concat and any(match[1] is None for match in _PIPES.finditer(shape)):
        raise unsupported("|| in a definition with PIPES_AS_CONCAT", "use CONCAT() or OR")
    if modes.real_as_float and any(match[1] is not None for match in _REAL.finditer(shape)):
        raise unsupported("REAL with REAL_AS_FLOAT", "write FLOAT or DOUBLE")
