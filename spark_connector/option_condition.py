"""The text of the option `where`: one condition that stays within the parentheses around it."""

from __future__ import annotations

from spark_connector.errors import OptionError

OPTION = "option where is one condition on the columns, as after WHERE in SQL"
_QUOTES = "'\"`"


def insist_on_one(text: str) -> None:
    """That a text stays within the parentheses around it: quotes end, parentheses match, no comment, no semicolon. So
    it can bound what is read and nothing else. Raises OptionError."""
    depth, place = 0, 0
    while place < len(text):
        character = text[place]
        if character in _QUOTES:
            place = _end_of_quotes(text, place)
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth < 0:
                raise OptionError(f"{OPTION}: {text[:80]!r} closes a parenthesis that it did not open")
        elif character in ";#" or text.startswith(("--", "/*"), place):
            raise OptionError(f"{OPTION}, without comments and semicolons: {text[:80]!r}")
        place += 1
    if depth:
        raise OptionError(f"{OPTION}: {text[:80]!r} leaves a parenthesis open")


def _end_of_quotes(text: str, place: int) -> int:
    """Where the quotes end that begin there. A backslash at their end is refused: whether it escapes, sql_mode says."""
    quote = text[place]
    end = text.find(quote, place + 1)
    if end < 0:
        raise OptionError(f"{OPTION}: {text[:80]!r} leaves a quote open")
    if quote != "`" and text[end - 1] == "\\":
        raise OptionError(f"{OPTION}: write a quote within quotes twice, without a backslash, in {text[:80]!r}")
    return end
