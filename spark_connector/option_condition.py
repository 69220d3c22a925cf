"""The text of the option `where`: one condition that stays within the parentheses around it."""

from __future__ import annotations

from spark_connector.errors import OptionError

OPTION = "option where is one condition on the columns, as after WHERE in SQL"
_QUOTES = "'\"`"


def check_single_condition(text: str) -> None:
    """Checks that a text stays within the parentheses around it: quotes end, parentheses match, no comment, no
    semicolon. So it can restrict what is read and nothing else. Raises OptionError."""
    depth, index = 0, 0
    while index < len(text):
        character = text[index]
        if character in _QUOTES:
            index = _end_of_quotes(text, index)
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth < 0:
                raise OptionError(f"{OPTION}: {text[:80]!r} closes a parenthesis that it did not open")
        elif character in ";#" or text.startswith(("--", "/*"), index):
            raise OptionError(f"{OPTION}, without comments and semicolons: {text[:80]!r}")
        index += 1
    if depth:
        raise OptionError(f"{OPTION}: {text[:80]!r} leaves a parenthesis open")


def _end_of_quotes(text: str, index: int) -> int:
    """The end of the quotes that start there. A backslash before it is refused: whether it escapes depends on
    sql_mode."""
    quote = text[index]
    end = text.find(quote, index + 1)
    if end < 0:
        raise OptionError(f"{OPTION}: {text[:80]!r} leaves a quote open")
    if quote != "`" and text[end - 1] == "\\":
        raise OptionError(f"{OPTION}: write a quote within quotes twice, without a backslash, in {text[:80]!r}")
    return end
