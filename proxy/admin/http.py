"""HTTP for the admin port: one request for each connection, parsed by h11, on the event loop.

Its clients are trusted no more than others. At most CONNECTIONS_MAX at a time and OF_ADDRESS_MAX of one address; one
more takes the place of another: of one that has not sent a request, else of one that does not take its answer, else of
one that waits for its answer. A request's head has HEAD_SECONDS and HEAD_MAX_BYTES, its answer WRITE_SECONDS to be
taken. Bodies are not read. So a client that sends nothing, too much, or reads nothing costs the others nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

import h11

from proxy.listen.admission import source_of
from proxy.listen.bounded_connections import BoundedConnections

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 64
OF_ADDRESS_MAX = 32  # scrapers poll once in some seconds; half is left to other addresses
HEAD_SECONDS = 5.0
HEAD_MAX_BYTES = 16 * 1024
ANSWER_SECONDS = 20.0  # an answer that takes longer to make helps no scraper
WRITE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Response:
    """What is answered."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Answer = Callable[[str], Awaitable[Response]]
"""Answers a GET of a path, which has no query."""


def bounded_connections() -> BoundedConnections[AdminConnection]:
    """For all connections of a process."""
    return BoundedConnections(CONNECTIONS_MAX, OF_ADDRESS_MAX, lambda connection: connection.rank)


class AdminConnection(asyncio.Protocol):
    """See the module. `open_ones`: all connections of this process, in which it registers itself."""

    def __init__(self, answer: Answer, open_ones: BoundedConnections[AdminConnection]) -> None:
        self._answer = answer
        self._open_ones = open_ones
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_MAX_BYTES)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        evicted = self._open_ones.add(self, source_of(str(peer[0])) if peer else "")
        if evicted is not None:
            self._open_ones.discard(evicted)
            evicted.abort()
        self._abort_after(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_ones.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    @property
    def rank(self) -> int:
        """How late it has to make room for others."""
        if self._task is None:
            return 0
        return 1 if self._task.done() else 2

    def data_received(self, data: bytes) -> None:
        if self._task is not None or self._transport is None or self._transport.is_closing():
            return  # only one request; what follows is not read
        try:
            self._http.receive_data(data)
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            self._send(Response(error.error_status_hint, b"this is not a request that can be answered\n"))
            return
        if isinstance(event, h11.Request):
            self._task = asyncio.get_running_loop().create_task(self._respond(event))
        elif event is not h11.NEED_DATA:
            self._transport.abort()

    def abort(self) -> None:
        """Cut it off."""
        if self._transport is not None:
            self._transport.abort()

    def _abort_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    async def _respond(self, request: h11.Request) -> None:
        self._abort_after(ANSWER_SECONDS + WRITE_SECONDS)
        if request.method not in (b"GET", b"HEAD"):
            self._send(Response(405, b"only GET is answered here\n"))
            return
        path = request.target.decode("ascii", "replace").partition("?")[0]
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                response = await self._answer(path)
        except TimeoutError:
            response = Response(503, b"the answer takes too long\n")
        except Exception:
            log.exception("an admin request failed", extra={"path": path[:64]})
            response = Response(500, b"the answer failed by a defect; see the log\n")
        self._send(response, body=request.method == b"GET")

    def _send(self, response: Response, *, body: bool = True) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        headers = [
            ("content-type", response.content_type),
            ("content-length", str(len(response.body))),
            ("connection", "close"),
            ("cache-control", "no-store"),
        ]
        head = self._http.send(h11.Response(status_code=response.status, headers=headers))
        transport.write((head or b"") + (response.body if body else b""))
        self._abort_after(WRITE_SECONDS)
        transport.close()
