"""HTTP connections with bounds that uvicorn does not set: how many, and how long one may say nothing or read nothing.

A request's head has HEAD_SECONDS, also the second of a connection; a connection between two requests rests for
uvicorn's `timeout_keep_alive`; a request with its answer has REQUEST_SECONDS, a stranger's STRANGER_SECONDS. Of too
many connections a stranger's goes, the oldest first, whatever it has said, so that a newcomer always gets in; then
one of somebody who is logged in that rests (`proxy.listen.unknown_clients`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from proxy.listen.admission import source_of
from proxy.listen.unknown_clients import Crowd

CONNECTIONS_MAX = 256
OF_ADDRESS_MAX = 128  # a browser has six; where a proxy is before the console, one address has all
HEAD_SECONDS = 10.0
HEAD_MAX_BYTES = 16 * 1024
STRANGER_SECONDS = 20.0  # for a login, which waits for the proxy's answer
REQUEST_SECONDS = 60.0  # longer than any page takes, bodies and slow readers included
KEEP_ALIVE_SECONDS = 30


class BoundedHttp(H11Protocol):
    """See the module. The crowd is that of the server's state, which all connections share."""

    _timer: asyncio.TimerHandle | None = None
    _head_since_rest = False
    _known = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        crowd = _crowd_of(self.server_state)
        peer = transport.get_extra_info("peername")
        one_too_many = crowd.add(self, source_of(str(peer[0])) if peer else "")
        if one_too_many is not None:
            crowd.discard(one_too_many)
            one_too_many.transport.abort()
        self._abort_after(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        _crowd_of(self.server_state).discard(self)
        self._cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        if not self._in_request and not self._head_since_rest:
            self._head_since_rest = True
            self._abort_after(HEAD_SECONDS)
        super().data_received(data)
        self._look(before)

    def on_response_complete(self) -> None:
        before = self.cycle
        self._cancel()
        self._head_since_rest = False
        super().on_response_complete()
        self._look(before)

    @property
    def rank(self) -> int:
        """How late it has to make room for others."""
        if not self._known:
            return 0
        return 2 if self._in_request else 1

    @property
    def _in_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _look(self, before: Any) -> None:
        """A request has begun: from now on it has its own time."""
        if self.cycle is not before and self._in_request:
            self._known = self._known or _crowd_of(self.server_state).knows(dict(self.cycle.scope))
            self._abort_after(REQUEST_SECONDS if self._known else STRANGER_SECONDS)

    def _abort_after(self, seconds: float) -> None:
        self._cancel()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class KnownCrowd(Crowd[BoundedHttp]):
    """All connections of one server. `knows`: whether a request comes from who is logged in."""

    def __init__(self, of_address: int, knows: Callable[[Scope], bool]) -> None:
        super().__init__(CONNECTIONS_MAX, of_address, lambda connection: connection.rank)
        self.knows = knows


def _crowd_of(state: Any) -> KnownCrowd:
    """The connections of one server."""
    crowd: KnownCrowd = state.crowd
    return crowd
