"""Errors of the operator's commands, each as the one line that is shown."""

from __future__ import annotations

import pymysql

from engine.model.sqlstates import sqlstate_of
from mysql_client.driver import error_number
from queuegate.cli.tables import printable

_CONNECTION_REFUSED = 2003
_NO_SYNTAX = 1064


class ConsoleError(Exception):
    """A command cannot be carried out. `status`: its exit code, 1, or 2 for a mistake in options."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class ServerError(ConsoleError):
    """What the server, or the way to it, answered in place of a result."""

    def __init__(self, error: pymysql.MySQLError, hint: str = "") -> None:
        super().__init__(f"{error_line(error)}{hint}")
        self.number = error_number(error)


def error_line(error: pymysql.MySQLError) -> str:
    """As the mysql client shows it: `ERROR 1146 (42S02): Table ...`."""
    number = error_number(error)
    text = str(error.args[-1]) if error.args else type(error).__name__
    if not number:
        return f"ERROR: {printable(text)}"
    state = getattr(error, "sqlstate", None) or sqlstate_of(number)  # PyMySQL before 1.2 does not have it
    return f"ERROR {number} ({state}): {printable(text)}"


def hint_for(number: int, place: str) -> str:
    """A hint, where probably no proxy listens there, or another program."""
    if number == _CONNECTION_REFUSED:
        return f": does queuegate serve at {place}?"
    return f" (what answers at {place} is not queuegate, or an older one)" if number == _NO_SYNTAX else ""
