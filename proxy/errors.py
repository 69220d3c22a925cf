"""Errors of what the proxy does beyond the protocol: its database, logins, and defects of its own.

A `ProxyError` (mysql_wire.errors) is answered with an ERR packet. Losing a peer is no error of the protocol, but a
`StreamClosed`.
"""

from __future__ import annotations

from mysql_mimic.stream import ConnectionClosed

from mysql_wire.errors import UNREACHABLE, ProxyError

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
