"""From where a reader of a topic begins, and up to where it reads: EARLIEST, LATEST, OFFSET n, TIMESTAMP '...'."""

from __future__ import annotations

import re
from datetime import datetime

from engine.model.errors import InvalidOption
from engine.model.option_values import OptionValue
from engine.model.queue import Start
from rewriter.errors import UnsupportedSql
from rewriter.grammar.statements import Beginning
from rewriter.text.tokens import Kind, TokenCursor, string_value

_DIGITS_MAX = 18  # below 2^63
_MOMENT = re.compile(r"\d{4}-\d\d?-\d\d?(?:[ T]\d\d?:\d\d?(?::\d\d?(?:\.\d{1,6})?)?)?", re.ASCII)
_YEARS = (1971, 2037)
_BEGINNINGS = "EARLIEST, LATEST, OFFSET n or TIMESTAMP '2026-05-01 12:00:00'"


def moment(text: str) -> str | None:
    """A date, or a date and a time, of the years 1971 to 2037, which all servers read alike; None where it is none."""
    if _MOMENT.fullmatch(text) is None:
        return None
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    try:
        read = datetime(*numbers[:3], *numbers[3:6])  # type: ignore[arg-type]
    except ValueError:
        return None
    return text if _YEARS[0] <= read.year <= _YEARS[1] else None


def take_beginning(cursor: TokenCursor) -> Beginning:
    """One of the four."""
    if cursor.accept_words("EARLIEST"):
        return Beginning(Start.EARLIEST)
    if cursor.accept_words("LATEST"):
        return Beginning(Start.LATEST)
    if cursor.accept_words("OFFSET"):
        number = cursor.accept_kind(Kind.NUMBER)
        if number is None or not number.text.isdecimal() or len(number.text) > _DIGITS_MAX:
            raise cursor.error("OFFSET takes a whole number")
        return Beginning(Start.OFFSET, int(number.text))
    if cursor.accept_words("TIMESTAMP") or (cursor.token is not None and cursor.token.kind is Kind.STRING):
        text = cursor.accept_kind(Kind.STRING)
        if text is None:
            raise cursor.error("TIMESTAMP takes a quoted date and time")
        if (when := moment(string_value(text.text))) is None:
            raise InvalidOption(
                f"TIMESTAMP {text.text} is not a date and time of 1971 to 2037; write '2026-05-01 12:00:00'"
            )
        return Beginning(Start.TIMESTAMP, moment=when)
    if cursor.token is not None and cursor.token.kind is Kind.PARAMETER:
        raise UnsupportedSql("? is not supported there; write the value")
    raise cursor.error(f"a beginning is {_BEGINNINGS}")


def read_beginning(option: str, value: OptionValue) -> Beginning:
    """A beginning as the option of a stream: 'earliest', 'latest', an offset, or a date and time.

    Raises:
        InvalidOption: it is none of these.
    """
    text = str(value).strip()
    if text.lower() in ("earliest", "latest"):
        return Beginning(Start(text.lower()))
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX:
        return Beginning(Start.OFFSET, int(text))
    if (when := moment(text)) is not None:
        return Beginning(Start.TIMESTAMP, moment=when)
    raise InvalidOption(
        f"{option}: '{text}' is none of 'earliest', 'latest', an offset, or a time such as '2026-05-01 12:00:00'"
    )
