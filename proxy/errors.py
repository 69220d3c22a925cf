"""Errors that the proxy itself raises, and the one table from MySQL error number to SQLSTATE.

Rules: every number the proxy sends of its own accord stands in `SQLSTATES`. A `ProxyError` is the client's to read and
is answered with an ERR packet; `fatal` ones end the connection after it, as in MySQL. Losing a peer is not an error of
the protocol and is a `StreamClosed`. Messages never quote payloads or secrets.
"""

from __future__ import annotations

from collections.abc import Mapping

from mysql_mimic.errors import MysqlError
from mysql_mimic.stream import ConnectionClosed

SQLSTATES: Mapping[int, str] = {
    1040: "08004",  # ER_CON_COUNT_ERROR
    1043: "08S01",  # ER_HANDSHAKE_ERROR
    1044: "42000",  # ER_DBACCESS_DENIED_ERROR
    1045: "28000",  # ER_ACCESS_DENIED_ERROR
    1046: "3D000",  # ER_NO_DB_ERROR
    1047: "08S01",  # ER_UNKNOWN_COM_ERROR
    1049: "42000",  # ER_BAD_DB_ERROR
    1053: "08S01",  # ER_SERVER_SHUTDOWN
    1064: "42000",  # ER_PARSE_ERROR
    1065: "42000",  # ER_EMPTY_QUERY
    1094: "HY000",  # ER_NO_SUCH_THREAD
    1095: "HY000",  # ER_KILL_DENIED_ERROR
    1104: "42000",  # ER_TOO_BIG_SELECT
    1105: "HY000",  # ER_UNKNOWN_ERROR
    1115: "42000",  # ER_UNKNOWN_CHARACTER_SET
    1129: "HY000",  # ER_HOST_IS_BLOCKED
    1142: "42000",  # ER_TABLEACCESS_DENIED_ERROR
    1146: "42S02",  # ER_NO_SUCH_TABLE
    1153: "08S01",  # ER_NET_PACKET_TOO_LARGE
    1156: "08S01",  # ER_NET_PACKETS_OUT_OF_ORDER
    1157: "08S01",  # ER_NET_UNCOMPRESS_ERROR
    1159: "08S01",  # ER_NET_READ_INTERRUPTED
    1203: "42000",  # ER_TOO_MANY_USER_CONNECTIONS
    1210: "HY000",  # ER_WRONG_ARGUMENTS
    1218: "08S01",  # ER_CONNECT_TO_MASTER: a server that does not reach the server after it
    1235: "42000",  # ER_NOT_SUPPORTED_YET
    1243: "HY000",  # ER_UNKNOWN_STMT_HANDLER
    1251: "08004",  # ER_NOT_SUPPORTED_AUTH_MODE
    1264: "22003",  # ER_WARN_DATA_OUT_OF_RANGE
    1290: "HY000",  # ER_OPTION_PREVENTS_STATEMENT
    1292: "22007",  # ER_TRUNCATED_WRONG_VALUE
    1295: "HY000",  # ER_UNSUPPORTED_PS
    1300: "HY000",  # ER_INVALID_CHARACTER_STRING
    1317: "70100",  # ER_QUERY_INTERRUPTED
    1366: "HY000",  # ER_TRUNCATED_WRONG_VALUE_FOR_FIELD
    1421: "HY000",  # ER_STMT_HAS_NO_OPEN_CURSOR
    1461: "42000",  # ER_MAX_PREPARED_STMT_COUNT_REACHED
    1637: "HY000",  # ER_TOO_MANY_CONCURRENT_TRXS
    1698: "28000",  # ER_ACCESS_DENIED_NO_PASSWORD_ERROR
    1835: "HY000",  # ER_MALFORMED_PACKET
    3024: "HY000",  # ER_QUERY_TIMEOUT
    3159: "HY000",  # ER_SECURE_TRANSPORT_REQUIRED
    4031: "HY000",  # ER_CLIENT_INTERACTION_TIMEOUT
}
"""SQLSTATE of each error number; names from MySQL's server error reference."""

UNREACHABLE = 1218
_CLIENTS_OWN = range(2000, 3000)


def server_number(errno: int) -> int:
    """The number that a client is sent. 2000 to 2999 are client libraries' own: libmariadb takes an ERR packet that has
    one for a malformed packet (2027). A driver of ours says such a number where it has lost the database."""
    return UNREACHABLE if errno in _CLIENTS_OWN else errno


def sqlstate_of(errno: int) -> str:
    """The SQLSTATE that belongs to an error number; HY000 (general error) for those not in the table."""
    return SQLSTATES.get(errno, "HY000")


class ProxyError(MysqlError):  # type: ignore[misc]  # mysql-mimic ships no type information
    """Something the proxy refuses. mysql-mimic's own handlers know it by its base class."""

    fatal = False
    """Whether the connection ends after this error: the protocol's state is lost, or trust is."""

    def __init__(self, errno: int, message: str, sqlstate: str | None = None) -> None:
        super().__init__(message, errno)
        self.errno = errno
        self.sqlstate = sqlstate or sqlstate_of(errno)
        self.message = message


class MalformedPacket(ProxyError):
    """A packet that ends too early, or whose lengths lie."""

    def __init__(self, what: str) -> None:
        super().__init__(1835, f"Malformed communication packet: {what}")


class FatalProtocolError(ProxyError):
    """What cannot be recovered from: the byte stream's framing is lost."""

    fatal = True


class PacketTooLarge(FatalProtocolError):
    """A packet above the limit, refused at its header: its payload is never held."""

    def __init__(self, max_packet_bytes: int) -> None:
        super().__init__(1153, f"Got a packet bigger than 'max_allowed_packet' bytes ({max_packet_bytes})")


class PacketsOutOfOrder(FatalProtocolError):
    """A sequence id that does not follow."""

    def __init__(self, expected: int, got: int) -> None:
        super().__init__(1156, f"Got packets out of order (expected sequence id {expected}, got {got})")


class NotUncompressed(FatalProtocolError):
    """Where a compressed packet was due came something else."""

    def __init__(self) -> None:
        super().__init__(1157, "Couldn't uncompress communication packet")


class ReadTimeout(FatalProtocolError):
    """A packet was begun and not finished in time."""

    def __init__(self) -> None:
        super().__init__(1159, "Got timeout reading communication packets")


LOST = "backend connection lost: "


class BackendLost(ProxyError):
    """The line to the database broke, or was none that could be used."""

    def __init__(self, reason: str) -> None:
        super().__init__(1105, f"{LOST}{reason}", "08S01")
        self.reason = reason


class SessionLost(BackendLost):
    """The line broke and the client's session with it. No client is sent this: its connection is closed, as the server
    itself would have done, by which drivers and pools know that it is of no more use. The number is the one that a
    client library says then. Whether the command took effect is unknown."""

    def __init__(self, reason: str) -> None:
        ProxyError.__init__(self, 2013, f"Lost connection to MySQL server during query ({reason})", "08S01")
        self.reason = reason


class CannotConnect(BackendLost):
    """The database did not answer."""

    def __init__(self, where: str, reason: str) -> None:
        ProxyError.__init__(self, UNREACHABLE, f"Can't connect to MySQL server on '{where}' ({reason})")
        self.reason = f"{where}: {reason}"


class BackendUnreachable(ProxyError):
    """There is no line to be had: nothing of the statement was carried out, and the client's session goes on."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            UNREACHABLE, f"Can't connect to the database ({reason}); nothing was executed, this session goes on"
        )


class BackendRefused(ProxyError):
    """The database would not let the proxy's own account in; with its number, SQLSTATE and text."""


class LoginFailed(ProxyError):
    """The login came to nothing. The client has been told and its connection is closed; there is nothing to do."""

    fatal = True


class RefusedByServer(LoginFailed):
    """The server said no, and the client has been told. What becomes of the connection is the server's decision."""


class InternalFault(ProxyError):
    """A defect of the proxy itself, which its log describes. The connection ends, which the SQLSTATE tells pools."""

    fatal = True

    def __init__(self) -> None:
        super().__init__(1105, "Internal error of the proxy; its log says more", "08S01")


class StreamClosed(ConnectionClosed):  # type: ignore[misc]  # no type information, as above
    """The peer is gone."""
