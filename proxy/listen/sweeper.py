"""Sweeper: one look a second over all clients, for what no event tells. It costs the clients' commands nothing.

- A client that sent more than we hold is not read any further, so its hang-up would show only at the next write to
  it, which in a stream may be hours away: the kernel is asked. (Only where it sent so much that its own kernel holds
  part of it does ours not know either, until a write, or until its kernel gives up.)
- A client whose machine gives no sign any more while something is to be sent to it: keepalive does not look then, and
  TCP_USER_TIMEOUT would also cut off one that is alive and reads nothing for a while.
- A client at rest for longer than it may be (MySQL's wait_timeout) is sent an error and disconnected. Its last activity
  is asked of the kernel too, and only once it may be too long ago; whoever runs a statement or receives a stream is
  not at rest, however silent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from engine.model.sqlstates import sqlstate_of
from proxy.transport import kernel
from proxy.transport.client_socket import ClientSocket
from proxy.wire import replies
from proxy.wire.flags import PROTOCOL_41

log = logging.getLogger(__name__)

PERIOD_SECONDS = 1.0  # timeouts are in whole seconds; a lost receiver's messages may wait a second for another one
_BATCH = 500  # clients looked at in one go, about a quarter of a millisecond
UNANSWERED_MAX = 7
"""Sent again so often, and no sign: 25 s at least, for the kernel's patience begins at 0.2 s and doubles each time."""

_VANISHED_EVERY = 5  # looks: the kernel is asked for each client, and half a minute is no matter of a second
_INACTIVE = 4031
_WORDS = (
    "The client was disconnected by the server because of inactivity."
    " See wait_timeout and interactive_timeout for configuring this behavior."
)


@dataclass(eq=False, slots=True)
class _Watched:
    """`active_at`: the latest time at which it is known to have been active."""

    client: ClientSocket
    idle_seconds: Callable[[], float]
    active_at: float
    words: Callable[[], str | None]


class Sweeper:
    """See the module."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._clients: dict[ClientSocket, _Watched] = {}
        self._looks = 0
        self._task = self._loop.create_task(self._run())

    def add(
        self,
        client: ClientSocket,
        idle_seconds: Callable[[], float],
        words: Callable[[], str | None] | None = None,
    ) -> None:
        """Look after this client. `idle_seconds`: how long it may rest; 0 for ever. Asked again and again.
        `words`: the error's text instead of the usual, if anything."""
        self._clients[client] = _Watched(client, idle_seconds, self._loop.time(), words or (lambda: None))

    def discard(self, client: ClientSocket) -> None:
        """It is gone."""
        self._clients.pop(client, None)

    def close(self) -> None:
        """Look no more."""
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            for _ in self.sweep():
                await asyncio.sleep(0)

    def sweep(self) -> Iterator[None]:
        """One look; pauses where others may have their turn."""
        self._looks += 1
        for number, watched in enumerate(list(self._clients.values()), self._looks):
            try:
                if number % _VANISHED_EVERY or not self._vanished(watched.client):
                    self._look(watched)
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

    def _look(self, watched: _Watched) -> None:
        client = watched.client
        if client.reading_paused and kernel.hung_up(client.socket):
            client.eof_received()
        allowed = watched.idle_seconds()
        if allowed and self._loop.time() - watched.active_at >= allowed and client.resting:
            silent = kernel.silent_seconds(client.socket)
            watched.active_at = self._loop.time() - silent
            if silent >= allowed:
                self._disconnect(client, watched.words() or _WORDS)

    def _disconnect(self, client: ClientSocket, words: str) -> None:
        log.info("client disconnected because of inactivity", extra={"peer": client.peername})
        client.write_many([replies.err_packet(PROTOCOL_41, _INACTIVE, sqlstate_of(_INACTIVE), words)])
        client.close()
