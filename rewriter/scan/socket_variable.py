"""The path of the database's socket, which clients of the proxy must not get.

Rust's `mysql` and `mysql_async` query @@socket of a server on the same machine and continue over that socket, not
through the proxy: no queue statement works there. An empty path means that there is none.
"""

from __future__ import annotations

import re

_MAX_BYTES = 256  # longer than any list of variables that a driver reads when it connects
_VARIABLE = r"@@(?:(?:global|session|local)\.)?\w+(?:\s+as\s+`?\w+`?)?"
_VARIABLES = re.compile(rf"\s*select\s+{_VARIABLE}(?:\s*,\s*{_VARIABLE})*\s*;?\s*", re.IGNORECASE)
_SOCKET = re.compile(r"(@@(?:global\.)?socket)\b(\s+as\s)?", re.IGNORECASE)
_ASKS = re.compile(rb"@@(?:global\.)?socket\b")


def reads_socket(lowered: bytes) -> bool:
    """Whether a statement in lower case may be a driver's query of it."""
    return len(lowered) <= _MAX_BYTES and _ASKS.search(lowered) is not None


def without_socket(sql: str) -> str | None:
    """The same query with an empty path in the answer; None: it is another query."""
    if not reads_socket(sql.lower().encode("utf-8", "surrogatepass")) or _VARIABLES.fullmatch(sql) is None:
        return None
    return _SOCKET.sub(lambda match: f"''{match[2] or f' AS `{match[1]}`'}", sql)
