"""Which database servers are supported, by the version that they report. docs/servers.md has the table for users."""

from __future__ import annotations

import re

_MYSQL, _MARIADB = (8, 0, 13), (10, 6, 0)
"""SKIP LOCKED, and in MySQL expressions as defaults of columns."""

_INVISIBLE_COLUMNS = (8, 0, 23)  # of MySQL; MariaDB has them since 10.3

_NEEDED = "queuegate needs MySQL 8.0.13 or later, or MariaDB 10.6 or later"
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?", re.ASCII)
_OWN_NUMBERS = ("tidb",)  # servers whose version begins with the number of a MySQL that they resemble


def unsupported(version: str) -> str | None:
    """Why a server of this version is not supported; None where it is, or where the text is not understood."""
    kind = version.lower()
    match = _VERSION.match(version)
    if match is None or any(name in kind for name in _OWN_NUMBERS):
        return None
    mariadb = is_mariadb(version)
    number = tuple(int(part or 0) for part in match.groups())
    if number >= (_MARIADB if mariadb else _MYSQL):
        return None
    return f"the server is {'MariaDB' if mariadb else 'MySQL'} {version}, and {_NEEDED}"


def is_mariadb(version: str) -> bool:
    """Whether a server that gives this as its version is MariaDB."""
    return "mariadb" in version.lower()


def has_invisible_columns(version: str) -> bool:
    """Whether a server of this version can have columns that `SELECT *` leaves out."""
    match = _VERSION.match(version)
    if match is None or is_mariadb(version):
        return True
    return tuple(int(part or 0) for part in match.groups()) >= _INVISIBLE_COLUMNS
