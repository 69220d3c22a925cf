"""A NUL in a text, which ends it for MySQL and MariaDB: nothing may come after it, and then it is not there."""

from __future__ import annotations

import re

# Each runs to the end of the text where it is not closed, so that nothing is read twice.
_QUOTED_OR_COMMENT = re.compile(
    r"'(?>(?:[^'\\]++|\\.|'')*)(?:'|\\?\Z)"
    r'|"(?>(?:[^"\\]++|\\.|"")*)(?:"|\\?\Z)'
    r"|`[^`]*+(?:`|\Z)"
    r"|/\*.*?(?:\*/|\Z)"
    r"|(?:\#|--(?=[\x00-\x20]))[^\n]*+",
    re.DOTALL,
)
_END = "\0 \t\r\n\f\v;"


def cut_at_nul(sql: str) -> tuple[str, int | None]:
    """The text without NULs at its end, and the position of another one outside of strings, names and comments; None
    where there is none."""
    if "\0" not in sql:
        return sql, None
    sql = sql.rstrip(_END)
    at = _QUOTED_OR_COMMENT.sub(lambda match: "x" * len(match[0]), sql).find("\0")
    return sql, None if at < 0 else at
