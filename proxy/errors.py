"""Errors that the proxy itself raises.

Rules: every number has its SQLSTATE in engine.model.sqlstates. A `ProxyError` is the client's to read and
is answered with an ERR packet; `fatal` ones end the connection after it, as in MySQL. Losing a peer is not an error of
the protocol and is a `StreamClosed`. Messages never quote payloads or secrets.
"""

from __future__ import annotations

from mysql_mimic.errors import MysqlError
from mysql_mimic.stream import ConnectionClosed

from engine.model.sqlstates import sqlstate_of

UNREACHABLE = 1218
_CLIENTS_OWN = range(2000, 3000)


def server_number(errno: int) -> int:
    """The number that a client is sent. 2000 to 2999 are client libraries' own: libmariadb takes an ERR packet that has
    one for a malformed packet (2027). The proxy's own driver uses such a number where it has lost the database."""
    return UNREACHABLE if errno in _CLIENTS_OWN else errno


class ProxyError(MysqlError):  # type: ignore[misc]  # mysql-mimic ships no type information
    """Something the proxy refuses. mysql-mimic's own handlers recognise it by its base class."""

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
    """A packet above the limit, refused at its header: its payload is never buffered."""

    def __init__(self, max_packet_bytes: int) -> None:
        super().__init__(1153, f"Got a packet bigger than 'max_allowed_packet' bytes ({max_packet_bytes})")


class PacketsOutOfOrder(FatalProtocolError):
    """A sequence id that does not follow."""

    def __init__(self, expected: int, got: int) -> None:
        super().__init__(1156, f"Got packets out of order (expected sequence id {expected}, got {got})")


class NotUncompressed(FatalProtocolError):
    """Something else came where a compressed packet was due."""

    def __init__(self) -> None:
        super().__init__(1157, "Couldn't uncompress communication packet")


class ReadTimeout(FatalProtocolError):
    """A packet was begun and not finished in time."""

    def __init__(self) -> None:
        super().__init__(1159, "Got timeout reading communication packets")


LOST = "backend connection lost: "


class BackendLost(ProxyError):
    """The connection to the database broke, or was none that could be used."""

    def __init__(self, reason: str) -> None:
        super().__init__(1105, f"{LOST}{reason}", "08S01")
        self.reason = reason


class SessionLost(BackendLost):
    """The connection broke and the client's session with it. No client is sent this: its connection is closed, as the
    server itself would have done, by which drivers and pools see that it is unusable. The number is the one that
    a client library reports then. Whether the command took effect is unknown."""

    def __init__(self, reason: str) -> None:
        ProxyError.__init__(self, 2013, f"Lost connection to MySQL server during query ({reason})", "08S01")
        self.reason = reason


class CannotConnect(BackendLost):
    """The database did not answer."""

    def __init__(self, where: str, reason: str) -> None:
        ProxyError.__init__(self, UNREACHABLE, f"Can't connect to MySQL server on '{where}' ({reason})")
        self.reason = f"{where}: {reason}"


class BackendUnreachable(ProxyError):
    """There is no connection to be had: nothing of the statement was carried out, and the client's session goes on."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            UNREACHABLE, f"Can't connect to the database ({reason}); nothing was executed, this session goes on"
        )


class BackendRefused(ProxyError):
    """The database would not let the proxy's own account in; with its number, SQLSTATE and text."""


class LoginFailed(ProxyError):
    """The login failed. The client has been sent the error and its connection is closed; there is nothing to
    do."""

    fatal = True


class RefusedByServer(LoginFailed):
    """The server refused, and the client has been sent its error. The server decides what happens to the
    connection."""


class InternalFault(ProxyError):
    """A defect of the proxy itself, which its log describes. The connection ends, which pools see by the SQLSTATE."""

    fatal = True

    def __init__(self) -> None:
        super().__init__(1105, "Internal error of the proxy; its log says more", "08S01")


class StreamClosed(ConnectionClosed):  # type: ignore[misc]  # no type information, as above
    """The peer is gone."""
