"""DELAY and AT, with which an INSERT into a queue or topic may end: when its messages are due.

INSERT ... DELAY duration       from now on: seconds, or '500ms', '30s', '5m', '2h', '1d'; NULL is none
INSERT ... AT 'date and time'   in the session's time zone

The scanner searches them at the very end of a statement, and so does this: there they have no other meaning in SQL.
"""

from __future__ import annotations

import re
from datetime import datetime

from engine.model.errors import InvalidOption
from engine.model.option_values import parse_duration
from rewriter.errors import RewriteError
from rewriter.grammar.statements import Bound, Due
from rewriter.text.literals import string_literal
from rewriter.text.tokens import Kind, Token, TokenCursor, string_value

_DELAY_VALUES = (Kind.NUMBER, Kind.STRING, Kind.PARAMETER)
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?", re.ASCII)
_STEP_NS = 1000  # of the databases' clocks
_FIRST_YEAR, _LAST_YEAR = 2001, 2037  # in some time zones 2000 begins in 1999, for which a queue takes no time
"""Beyond these a server may take a time for none (UNIX_TIMESTAMP of many is a number of 32 bits)."""


def cut_due(cursor: TokenCursor) -> Due | Bound | None:
    """Take the clause off the end of the tokens and of the text; None where there is none."""
    tokens = cursor.tokens
    end = len(tokens)
    while end and tokens[end - 1].kind is Kind.SYMBOL and tokens[end - 1].text == ";":
        end -= 1
    if end < 3 or not _is_clause(*tokens[end - 3 : end]):
        return None
    word, value = tokens[end - 2 : end]
    due = _read(word.word, value)
    if due is not Bound.PARAMETER:  # whose text is needed as it is
        cursor.sql = cursor.sql[: word.start].rstrip()
    del tokens[end - 2 :]
    return due


def has_due(sql: str) -> bool:
    """Whether a statement ends with such a clause."""
    try:
        return cut_due(TokenCursor(sql)) is not None
    except RewriteError:
        return False


def _is_clause(before: Token, word: Token, value: Token) -> bool:
    if before.word == "SELECT" or (before.kind is Kind.SYMBOL and before.text in (",", ".")):
        return False  # a column of that name, and its alias
    if word.word == "DELAY":
        return value.kind in _DELAY_VALUES or _is_null(value)
    return word.word == "AT" and value.kind in (Kind.STRING, Kind.PARAMETER)


def _is_null(value: Token) -> bool:
    return value.kind is Kind.WORD and value.word == "NULL"


def _read(word: str, value: Token) -> Due | Bound:
    if value.kind is Kind.PARAMETER:
        return Bound.PARAMETER
    if _is_null(value):
        return Due(False, "0")
    return Due(word == "AT", string_value(value.text) if value.kind is Kind.STRING else value.text)


def due_sql(due: Due, now_sql: str) -> str:
    """The time in nanoseconds, whole microseconds. Raises InvalidOption: it is no duration, or no date and time."""
    if due.at:
        return f"UNIX_TIMESTAMP({string_literal(_moment(due.text))}) * 1000000000"
    delay_ns = parse_duration("INSERT ... DELAY", due.text)
    return f"{now_sql} + {delay_ns - delay_ns % _STEP_NS}"


def _moment(text: str) -> str:
    """The same as every server reads it, with microseconds."""
    try:
        if _MOMENT.fullmatch(text.strip()) is None:
            raise ValueError
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidOption(
            f"INSERT ... AT: '{text}' is not a date and time; give '2026-12-24 18:00:00', in the session's time zone"
        ) from None
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise InvalidOption(f"INSERT ... AT: '{text}' is not between the years {_FIRST_YEAR} and {_LAST_YEAR}")
    return moment.isoformat(" ", "microseconds")
