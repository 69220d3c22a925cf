"""What of a client's connection is bounded by time: the progress of a packet that has begun, and the connection's end.

Invariant: while a packet has begun, or the connection is closing, a timer runs that ends it; afterwards none does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mysql_wire.errors import ReadTimeout
from proxy.transport import tcp

STALL_SECONDS = 30.0  # MySQL's net_read_timeout: how long a begun packet may make no progress
LINGER_SECONDS = 2.0  # time for an error message to arrive before the socket is torn down
QUIET_SECONDS = 0.1  # silence by which a client on TLS has read it; half a TLS connection cannot be closed
CLOSE_SECONDS = 10.0  # time for the last bytes to leave; a client that reads nothing must not occupy a socket for ever


class ClientTimers:
    """See the module. `received` counts chunks, to distinguish progress from a stall."""

    __slots__ = ("_close", "_loop", "_quiet", "_stall", "received")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.received = 0
        self._loop = loop
        self._stall: asyncio.TimerHandle | None = None
        self._close: asyncio.TimerHandle | None = None
        self._quiet: asyncio.TimerHandle | None = None

    def watch_progress(self, on_stall: Callable[[ReadTimeout], object]) -> None:
        """A packet has begun; `on_stall` is called once nothing more of it comes."""
        if self._stall is None:
            self._stall = self._loop.call_later(STALL_SECONDS, self._check_progress, self.received, on_stall)

    def _check_progress(self, received: int, on_stall: Callable[[ReadTimeout], object]) -> None:
        self._stall = None
        self.watch_progress(on_stall) if self.received != received else on_stall(ReadTimeout())

    def cancel_stall(self) -> None:
        """The packet is whole, or no one waits for it."""
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def begin_end(self, transport: asyncio.Transport, *, lingers: bool) -> None:
        """Close once what was written has left, or, if it `lingers`, once the client has had time to read it."""
        if not lingers:
            transport.close()
        elif transport.can_write_eof():
            transport.write_eof()
        else:
            self._await_quiet(transport, -1)
        self._close = self._loop.call_later(LINGER_SECONDS if lingers else CLOSE_SECONDS, transport.abort)

    def _await_quiet(self, transport: asyncio.Transport, received: int) -> None:
        if self.received == received:
            tcp.close_once(transport)
        else:
            self._quiet = self._loop.call_later(QUIET_SECONDS, self._await_quiet, transport, self.received)

    def cancel(self) -> None:
        """The connection is lost."""
        self.cancel_stall()
        for timer in (self._close, self._quiet):
            if timer is not None:
                timer.cancel()
