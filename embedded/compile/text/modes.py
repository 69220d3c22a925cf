"""The settings of a session under which its statements are read."""

from __future__ import annotations

from dataclasses import dataclass


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
