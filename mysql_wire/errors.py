"""Errors of the protocol, which clients are sent as ERR packets.

Rules: every number has its SQLSTATE in engine.model.sqlstates. A `ProxyError` is the client's to read; `fatal` ones end
the connection after it, as in MySQL. Messages never quote payloads or secrets.
"""

from __future__ import annotations

from mysql_mimic.errors import MysqlError

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
