"""Sweeper: checks all clients once a second for what causes no event. It costs the clients' commands nothing.

- A client that sent more than is buffered is not read any further, so its hang-up would show only at the next write to
  it, which in a stream may be hours away: the kernel is queried. (Only where it sent so much that its own kernel
  buffers part of it, ours does not know either, until a write, or until its kernel gives up.)
- A client whose machine gives no sign any more while something is to be sent to it: keepalive does not apply then, and
  TCP_USER_TIMEOUT would also cut off one that is alive and reads nothing for a while.
- A client idle for longer than it may be (MySQL's wait_timeout) is sent an error and disconnected. Its last activity
  is read from the kernel, too, and only once it may be too long ago; a client that runs a statement or receives a
  stream is not idle, however silent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from engine.model.sqlstates import sqlstate_of
from mysql_wire import replies
from mysql_wire.flags import PROTOCOL_41
from proxy.transport import kernel
from proxy.transport.client_socket import ClientSocket

log = logging.getLogger(__name__)

PERIOD_SECONDS = 1.0  # timeouts are in whole seconds; a lost receiver's messages may wait a second for another one
_BATCH = 500  # clients checked in one step, about a quarter of a millisecond
UNANSWERED_MAX = 7
"""Sent again so often, and no sign: 25 s at least, for the kernel's patience begins at 0.2 s and doubles each time."""

_VANISHED_CHECK_EVERY = (
    5  # sweeps: the kernel is queried for each client, and half a minute needs no precision of a second
)
_INACTIVE = 4031
_DEFAULT_MESSAGE = (
    "The client was disconnected by the server because of inactivity."
    " See wait_timeout and interactive_timeout for configuring this behavior."
)


@dataclass(eq=False, slots=True)
class _Watched:
    """`active_at`: the latest time at which it is known to have been active."""

    client: ClientSocket
    idle_seconds: Callable[[], float]
    active_at: float
    message: Callable[[], str | None]


class Sweeper:
    """See the module."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._clients: dict[ClientSocket, _Watched] = {}
        self._sweeps = 0
        self._task = self._loop.create_task(self._run())

    def add(
        self,
        client: ClientSocket,
        idle_seconds: Callable[[], float],
        message: Callable[[], str | None] | None = None,
    ) -> None:
        """Watch this client. `idle_seconds`: how long it may be idle; 0 for ever. Called again and again.
        `message`: the error's text instead of the default, if any."""
        self._clients[client] = _Watched(client, idle_seconds, self._loop.time(), message or (lambda: None))

    def discard(self, client: ClientSocket) -> None:
        """It is closed."""
        self._clients.pop(client, None)

    def close(self) -> None:
        """Stop."""
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            for _ in self.sweep():
                await asyncio.sleep(0)

    def sweep(self) -> Iterator[None]:
        """Check all clients once; yields where other tasks may run."""
        self._sweeps += 1
        for number, watched in enumerate(list(self._clients.values()), self._sweeps):
            try:
                if number % _VANISHED_CHECK_EVERY or not self._vanished(watched.client):
                    self._check(watched)
            except Exception:
                log.exception("a client could not be looked at", extra={"peer": watched.client.peername})
            if number % _BATCH == 0:
                yield

    def _vanished(self, client: ClientSocket) -> bool:
        if kernel.unanswered(client.socket) < UNANSWERED_MAX:
            return False
        log.info("client disconnected: its machine gives no sign", extra={"peer": client.peername})
        client.abort()
        return True

    def _check(self, watched: _Watched) -> None:
        client = watched.client
        if client.flow.paused and kernel.hung_up(client.socket):
            client.eof_received()
        allowed = watched.idle_seconds()
        if allowed and self._loop.time() - watched.active_at >= allowed and client.idle:
            silent = kernel.silent_seconds(client.socket)
            watched.active_at = self._loop.time() - silent
            if silent >= allowed:
                self._disconnect(client, watched.message() or _DEFAULT_MESSAGE)

    def _disconnect(self, client: ClientSocket, message: str) -> None:
        log.info("client disconnected because of inactivity", extra={"peer": client.peername})
        client.write_many([replies.err_packet(PROTOCOL_41, _INACTIVE, sqlstate_of(_INACTIVE), message)])
        client.close()
