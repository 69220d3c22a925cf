"""Status flags of OK and EOF packets, as plain integers: SERVER_STATUS_flags_enum in MySQL's documentation."""

from __future__ import annotations

from mysql_mimic.types import ServerStatus

IN_TRANSACTION = int(ServerStatus.SERVER_STATUS_IN_TRANS)
AUTOCOMMIT = int(ServerStatus.SERVER_STATUS_AUTOCOMMIT)
MORE_RESULTS = int(ServerStatus.SERVER_MORE_RESULTS_EXISTS)
CURSOR_EXISTS = int(ServerStatus.SERVER_STATUS_CURSOR_EXISTS)
LAST_ROW_SENT = int(ServerStatus.SERVER_STATUS_LAST_ROW_SENT)
NO_BACKSLASH_ESCAPES = int(ServerStatus.SERVER_STATUS_NO_BACKSLASH_ESCAPES)
SESSION_STATE_CHANGED = int(ServerStatus.SERVER_SESSION_STATE_CHANGED)
ANSI_QUOTES = 0x8000
"""SERVER_STATUS_ANSI_QUOTES, which only MariaDB sets."""
