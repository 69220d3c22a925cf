"""HTTP connections with bounds that uvicorn does not set: how many, and how long one may send nothing or read nothing.

A request's head has HEAD_SECONDS, also the second of a connection; a connection between two requests may be idle for
uvicorn's `timeout_keep_alive`; a request with its answer has REQUEST_SECONDS, without a login
UNAUTHENTICATED_SECONDS. Of too many connections one without a login is closed, the oldest first, whatever it has sent,
so that a new connection is always accepted; then an idle one of a session (`proxy.listen.bounded_connections`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from proxy.listen.admission import source_of
from proxy.listen.bounded_connections import BoundedConnections

CONNECTIONS_MAX = 256
OF_ADDRESS_MAX = 128  # a browser has six; where a proxy is before the console, one address has all
HEAD_SECONDS = 10.0
HEAD_MAX_BYTES = 16 * 1024
UNAUTHENTICATED_SECONDS = 20.0  # for a login, which waits for the proxy's answer
REQUEST_SECONDS = 60.0  # longer than any page takes, bodies and slow readers included
KEEP_ALIVE_SECONDS = 30


class BoundedHttp(H11Protocol):
    """See the module. All connections of the server are in its state."""

    _timer: asyncio.TimerHandle | None = None
    _head_started = False
    _logged_in = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connections = _connections_of(self.server_state)
        peer = transport.get_extra_info("peername")
        evicted = connections.add(self, source_of(str(peer[0])) if peer else "")
        if evicted is not None:
            connections.discard(evicted)
            evicted.transport.abort()
        self._abort_after(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        _connections_of(self.server_state).discard(self)
        self._cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        if not self._in_request and not self._head_started:
            self._head_started = True
            self._abort_after(HEAD_SECONDS)
        super().data_received(data)
        self._on_request(before)

    def on_response_complete(self) -> None:
        before = self.cycle
        self._cancel()
        self._head_started = False
        super().on_response_complete()
        self._on_request(before)

    @property
    def rank(self) -> int:
        """A lower rank is closed first."""
        if not self._logged_in:
            return 0
        return 2 if self._in_request else 1

    @property
    def _in_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _on_request(self, before: Any) -> None:
        """A request has begun: from now on it has its own time."""
        if self.cycle is not before and self._in_request:
            self._check_login()
            if self._logged_in:
                self._abort_after(REQUEST_SECONDS)
            else:
                self._cancel()
                self._timer = self.loop.call_later(UNAUTHENTICATED_SECONDS, self._abort_unless_logged_in)

    def _check_login(self) -> None:
        self._logged_in = self._logged_in or _connections_of(self.server_state).is_logged_in(dict(self.cycle.scope))

    def _abort_unless_logged_in(self) -> None:
        """A program logs in with its request, which then has the time of others."""
        self._check_login()
        if self._logged_in:
            self._abort_after(REQUEST_SECONDS - UNAUTHENTICATED_SECONDS)
        else:
            self.transport.abort()

    def _abort_after(self, seconds: float) -> None:
        self._cancel()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class HttpConnections(BoundedConnections[BoundedHttp]):
    """All connections of one server. `is_logged_in`: whether a request comes from a session."""

    def __init__(self, of_address: int, is_logged_in: Callable[[Scope], bool]) -> None:
        super().__init__(CONNECTIONS_MAX, of_address, lambda connection: connection.rank)
        self.is_logged_in = is_logged_in


def _connections_of(state: Any) -> HttpConnections:
    """The connections of one server."""
    connections: HttpConnections = state.http_connections
    return connections
