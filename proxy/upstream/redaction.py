"""Redacts the server's own accounts and files in errors and warnings, for accounts with limits. Pure.

The database sees all connections come from one account, so where that one may not do something, the error names it.
Only errors that name an account or a file are changed: others may quote what the client itself has written.
"""

from __future__ import annotations

import re

from mysql_wire.errors import UNREACHABLE

_ACCOUNTS = frozenset(
    (1044, 1045, 1141, 1142, 1143, 1147, 1203, 1226, 1227, 1370, 1396, 1403, 1449, 1698, 1873, 3118, 3955, 4151)
)
_NO_SERVERS = range(1, 1000)  # errors of the system below it: files above all
_FILES = frozenset((*range(1004, 1037), 1085, 1086, 1105, 1126, UNREACHABLE, 1296, 1297, 1896))
# Greedy: a name may contain quotes, and a server does not escape them.
_ACCOUNT = re.compile(rb"(?<!\w)'.*'@'[^']*'", re.DOTALL)
_USER = re.compile(rb"(?<=ser )(?:'[^']*'|\S+)(?= (?:has|already|on host) )")
_FILE = re.compile(rb"(?<![\w./\\])(?:\.{0,2}/|\.{0,2}\\|[A-Za-z]:\\)[^'\"()\s]*[^'\"()\s:;,.]")
_HIDDEN = b"..."
_DENIED, _ANY = 1142, 1105
_ERR_TEXT_AT = 9  # after 0xFF, the number, `#` and the SQLSTATE


def redacted(errno: int, text: bytes) -> bytes:
    """An error's text with `...` in place of accounts, or of files."""
    if errno in _ACCOUNTS:
        text = _USER.sub(_HIDDEN, _ACCOUNT.sub(b"'%s'@'%s'" % (_HIDDEN, _HIDDEN), text))
    if errno in _FILES or errno in _NO_SERVERS:
        text = _FILE.sub(_HIDDEN, text)
    return text


def redacted_text(errno: int, text: str) -> str:
    """As `redacted`."""
    return redacted(errno, text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def redacted_problem(text: str) -> str:
    """As `redacted`, of the text of an error whose number is not known any more."""
    return redacted_text(_DENIED, redacted_text(_ANY, text))


def redacted_packet(payload: bytes) -> bytes:
    """As `redacted`, of a server's whole ERR packet."""
    at = _ERR_TEXT_AT if payload[3:4] == b"#" else 3
    return payload[:at] + redacted(int.from_bytes(payload[1:3], "little"), payload[at:])


def redacted_warning(row: tuple[bytes | None, ...]) -> tuple[bytes | None, ...]:
    """As `redacted`, of a row of SHOW WARNINGS: level, number, text."""
    match row:
        case (level, bytes() as number, bytes() as text) if number.isdigit():
            return level, number, redacted(int(number), text)
    return row
