"""Where the database's socket is, which is not for clients of the proxy to know.

Rust's `mysql` and `mysql_async` ask a server on the same machine for @@socket and go on over that, around the proxy: no
queue statement works there. An empty name says that there is none.
"""

from __future__ import annotations

import re

_MAX_BYTES = 256  # longer than any list of variables that a driver asks for when it connects
_VARIABLE = r"@@(?:(?:global|session|local)\.)?\w+(?:\s+as\s+`?\w+`?)?"
_VARIABLES = re.compile(rf"\s*select\s+{_VARIABLE}(?:\s*,\s*{_VARIABLE})*\s*;?\s*", re.IGNORECASE)
_SOCKET = re.compile(r"(@@(?:global\.)?socket)\b(\s+as\s)?", re.IGNORECASE)
_ASKS = re.compile(rb"@@(?:global\.)?socket\b")


def asks_socket(lowered: bytes) -> bool:
    """Whether a statement in lower case may be a driver's question for it."""
    return len(lowered) <= _MAX_BYTES and _ASKS.search(lowered) is not None


def without_socket(sql: str) -> str | None:
    """The same question with an empty name in the answer; None: it is another question."""
    if not asks_socket(sql.lower().encode("utf-8", "surrogatepass")) or _VARIABLES.fullmatch(sql) is None:
        return None
    return _SOCKET.sub(lambda found: f"''{found[2] or f' AS `{found[1]}`'}", sql)
