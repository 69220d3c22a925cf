"""ClientData: what a client sends in the middle of an answer: the file of a LOAD DATA LOCAL, and a replica's
acknowledgements.

Invariant: the server's bytes that come before it has been sent everything are buffered, and at most so many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mysql_wire.errors import FatalProtocolError
from mysql_wire.packets import frame
from proxy.errors import StreamClosed
from proxy.login.carried_login import refuse
from proxy.transport.backend_socket import BackendSocket
from proxy.transport.client_socket import ClientSocket
from proxy.upstream.answer_output import BUFFERED_MAX_BYTES

_SEMI_SYNC_REPLY = b"\xef"  # what a semi-synchronous replica's acknowledgement begins with


class ClientData:
    """See the module. `early` is what the server sent while the client was still sending."""

    def __init__(self, client: ClientSocket, backend: BackendSocket) -> None:
        self.early = b""
        self._client = client
        self._backend = backend
        self._file: asyncio.Task[None] | None = None
        self._replies: asyncio.Task[None] | None = None

    def buffer_early(self, chunk: bytes) -> None:
        """The server sends something before it has been sent everything."""
        self.early += chunk
        if len(self.early) > BUFFERED_MAX_BYTES:
            self._backend.abort("the server answers at length before it has been sent everything")

    def take_early(self) -> bytes:
        """What is buffered; nothing is left."""
        early, self.early = self.early, b""
        return early

    def begin_file(self, on_sent: Callable[[], None]) -> None:
        """Pass the client's file on; then call `on_sent`."""
        self._file = asyncio.get_running_loop().create_task(self._pass_file(on_sent))

    def begin_replies(self) -> None:
        """A replica is sent events."""
        self._replies = asyncio.get_running_loop().create_task(self._pass_replies())

    def end_replies(self) -> None:
        """Whatever comes next is the client's next command."""
        if self._replies is not None:
            self._replies.cancel()
            self._replies = None
            self._client.seq = 1

    def cancel(self) -> None:
        """The connection has ended, or is about to."""
        self.end_replies()
        if self._file is not None:
            self._file.cancel()
            self._file = None

    async def _pass_file(self, on_sent: Callable[[], None]) -> None:
        """Packets from the client to the server up to the empty one. The client breaks off: the connection is cut, for
        half a file must not be committed."""
        client, backend = self._client, self._backend
        try:
            while payload := await client.read():
                backend.write_packet(payload)
                await backend.drain()
        except (FatalProtocolError, StreamClosed) as error:
            if isinstance(error, FatalProtocolError):
                refuse(client, error)
            backend.abort("the client broke off its data")
            return
        backend.write_packet(b"")
        self._file = None
        on_sent()

    async def _pass_replies(self) -> None:
        """A replica's acknowledgements, and the news that it has gone. There may be no next event to show that."""
        client, backend = self._client, self._backend
        try:
            while True:
                client.seq = 0
                reply = await client.read()
                if not reply.startswith(_SEMI_SYNC_REPLY):
                    raise StreamClosed("the replica said goodbye")
                backend.write(frame(reply))
                await backend.drain()
        except (StreamClosed, FatalProtocolError):
            backend.abort("the replica is gone")
            client.abort()  # it sent COM_QUIT, which is not read elsewhere, or something invalid
