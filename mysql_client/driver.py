"""What we need besides PyMySQL's interface: what it keeps for itself, its errors' numbers, names in back-quotes. Each
access to one of its attributes with an underscore is in this module.

PyMySQL logs in, encrypts, prepares, and makes Python values. It has no interface to read an answer's bytes, to close a
socket without a word, or to change a timeout. `tests/mysql_client/test_driver.py` names what a new PyMySQL lacks.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pymysql import _auth
from pymysql.constants import CR
from pymysql.err import OperationalError

Connection = Any
"""PyMySQL's; its type information leaves out what is used here."""

password_functions: Any = _auth
"""How each plugin proves a password, for connections that are opened without PyMySQL."""

OWN_SESSION = (
    "SET sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', completion_type = 'NO_CHAIN', sql_safe_updates = 0,"
    " sql_big_selects = 1, sql_select_limit = 9223372036854775807"
)
"""First statement of a session that has no statements of a user: they mean the same at every server. The limit is the
largest that vtgate takes."""

CONNECTION_LOST = frozenset(
    {2000, 2002, 2003, 2006, 2013, 2014, 2055}  # of client libraries
    | {1040, 1042, 1043, 1129, 1203, 1218}  # no connection for now; 1218: a proxy does not reach its server
    | {1053, 1077, 1079, 1152, 1184, 1927, 3169, 4031}  # a server that ends, a session that was killed or idle
    | {1156, 1157, 1158, 1159, 1160, 1161}  # packets that did not arrive as they were sent
)
"""MySQL's numbers of errors after which a connection cannot be used any more, or cannot be had for now."""


def error_number(error: BaseException, none: int = 0) -> int:
    """MySQL's number of an error; `none` where it has none, as an OSError."""
    value = error.args[0] if error.args and not isinstance(error, OSError) else none
    return value if isinstance(value, int) else none


def error_text(error: BaseException) -> str:
    """The number and the text."""
    number = error_number(error, -1)
    return f"error {number}: {error.args[1]}" if number >= 0 and len(error.args) > 1 else str(error) or repr(error)


def quoted(*names: str) -> str:
    """A quoted name, qualified if several are given."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def escaped(*names: str) -> str:
    """The same for a statement with placeholders: `%` is doubled."""
    return quoted(*names).replace("%", "%%")


def name_parts(name: str) -> list[str]:
    """The database, if it is named, and the table, of `table` or `database.table`; a part with a point or a back-quote
    stands in back-quotes. Raises ValueError."""
    parts = re.findall(r"`((?:[^`\0]|``)+)`(?:\.|$)|([^`.\0]+)(?:\.|$)", name)
    plain = [back.replace("``", "`") if back else bare for back, bare in parts]
    rebuilt = ".".join(f"`{back}`" if back else bare for back, bare in parts)
    if not 1 <= len(plain) <= 2 or rebuilt != name or not is_utf_8(name):
        raise ValueError(f"{name!r} is no name of a queue; it is `queue` or `database.queue`")
    return plain


def is_utf_8(text: str) -> bool:
    """Not what Python makes of other bytes in a command line."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def socket_of(connection: Connection) -> Any:
    """Its socket; None once it is closed."""
    return connection._sock


def is_encrypted(connection: Connection) -> bool:
    """Whether TLS is in use."""
    return isinstance(connection._sock, ssl.SSLSocket)


def set_read_timeout(connection: Connection, seconds: float) -> None:
    """How long to wait for an answer from now on."""
    connection._read_timeout = seconds


def send_command(connection: Connection, command: int, argument: str | bytes) -> None:
    """Send a command; its answer is read by `receive` or `read_payload`. Raises pymysql's errors."""
    connection._execute_command(command, argument)


def read_payload(connection: Connection) -> bytes:
    """The next packet's payload. Raises pymysql's errors, also that of an ERR packet."""
    payload: bytes = connection._read_packet().get_all_data()
    return payload


def receive(connection: Connection, most: int) -> bytes:
    """What the socket brings next, at least one byte. Raises OperationalError, and then the connection is closed."""
    try:
        if connection._sock.gettimeout() != connection._read_timeout:
            connection._sock.settimeout(connection._read_timeout)
            connection._current_timeout = connection._read_timeout  # PyMySQL remembers it
        data: bytes = connection._sock.recv(most)
    except OSError as error:
        connection._force_close()
        raise lost_connection(f" ({error})") from error
    except BaseException:
        connection._force_close()
        raise
    if not data:
        connection._force_close()
        raise lost_connection()
    return data


def receive_available(connection: Connection, most: int) -> bytes | None:
    """What the socket has, without waiting; None: nothing. Not with TLS. Raises OperationalError."""
    sock = connection._sock
    try:
        if sock.gettimeout() != connection._read_timeout:
            sock.settimeout(connection._read_timeout)  # one with a time limit never blocks in a system call
            connection._current_timeout = connection._read_timeout
        data = os.read(sock.fileno(), most)
    except BlockingIOError:
        return None
    except OSError as error:
        raise lost_connection(f" ({error})") from error
    if not data:
        raise lost_connection()
    return data


def close_at_once(connection: Connection) -> None:
    """Close it without COM_QUIT, which a server that is not understood would not read."""
    connection._force_close()


def close_socket(connection: Connection) -> None:
    """The same where another thread may use it, or another process has it: never raises, and never waits."""
    sock, connection._sock, connection._rfile = connection._sock, None, None
    if sock is not None:
        with suppress(OSError):
            sock.close()


class UnreadRows:
    """The rows of a SELECT, of which PyMySQL has read the column definitions and no more."""

    def __init__(self, connection: Connection, sql: str) -> None:
        """Raises pymysql's errors."""
        connection.query(sql, unbuffered=True)
        self._result = connection._result
        self.file = connection._rfile
        """The buffered reader of the socket; what it has buffered comes first."""

    def release(self) -> None:
        """The rows have been read, or the connection is closed: PyMySQL must not read them again."""
        self._result.unbuffered_active, self._result.connection = False, None


def column_definitions(cursor: Any) -> Sequence[Any]:
    """The column definitions of a cursor's result. Its `description` has no character sets."""
    return () if cursor.description is None else cursor._result.fields


def result_of(cursor: Any) -> Any:
    """What a cursor reads its rows from, by functions that convert each value; None where there is none."""
    return getattr(cursor, "_result", None)


def lost_connection(why: str = "") -> OperationalError:
    """As PyMySQL says it."""
    return OperationalError(CR.CR_SERVER_LOST, f"Lost connection to MySQL server during query{why}")


def malformed_packet(why: object) -> OperationalError:
    """As PyMySQL says it."""
    return OperationalError(CR.CR_MALFORMED_PACKET, f"Malformed packet: {why}")
