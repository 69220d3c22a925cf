"""Layers between a client's socket and its packets, begun in mid-connection: TLS, and compression.

Invariant: what the client sent before a layer begins is read by the layer, never by us as it came.
"""

from __future__ import annotations

import asyncio
import contextlib
from ssl import SSLContext

from proxy.errors import StreamClosed
from proxy.transport import tcp
from proxy.transport.client_output import WRITE_HIGH_BYTES
from proxy.transport.client_socket import ClientSocket
from proxy.transport.compressed import CompressedTransport


async def start_tls(client: ClientSocket, context: SSLContext) -> None:
    """Continue encrypted, as the server's side.

    A client begins TLS right after its request, so its first bytes may have been read already: they go to TLS,
    never to us. Clear text sent ahead in someone's name thus breaks the handshake instead of being believed.

    Raises:
        StreamClosed: the handshake failed or the connection is gone.
    """
    plain = client.transport
    if plain is None or client.closed or plain.is_closing():
        raise StreamClosed("the client closed the connection")
    early = _take_unread(client)
    plain.pause_reading()  # from here on nothing may reach `data_received` but what was encrypted
    loop = asyncio.get_running_loop()
    client.waiting_since, client.encrypting = loop.time(), True
    handshake = loop.create_task(loop.start_tls(plain, client, context, server_side=True))
    try:
        for _ in range(2):
            await asyncio.sleep(0)  # the TLS protocol has taken our place, then is connected; it reads only then
        if early and not handshake.done():
            tcp.feed(plain.get_protocol(), early)
        transport = await handshake
        if transport is None:  # how asyncio reports that the connection was lost without an error
            raise ConnectionResetError("the connection was lost")
    except BaseException as error:
        handshake.cancel()
        with contextlib.suppress(OSError, RuntimeError):
            client.abort()
        client.connection_lost(None)  # in mid-handshake the TLS protocol does not report it
        if isinstance(error, (OSError, RuntimeError)):
            raise StreamClosed(f"the TLS handshake failed: {error}") from error
        raise
    finally:
        client.waiting_since, client.encrypting = None, False
    client.use(transport, tcp.by_records(transport.write), encrypted=True)
    transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)


def start_compression(client: ClientSocket, capabilities: int) -> None:
    """The client has received its OK: from now on packets are inside compressed ones. `capabilities`: what it and
    we have agreed on."""
    plain = client.transport
    if plain is None or plain.is_closing():
        return
    client.push()
    early = _take_unread(client)
    compressed = CompressedTransport(plain, client, serving=True, capabilities=capabilities, on_fault=client.fail)
    client.use(compressed, compressed.write, encrypted=client.encrypted)
    compressed.data_received(early)


def _take_unread(client: ClientSocket) -> bytes:
    unread = client.commands.take_all()
    client.forget_unread()
    client.flow.resume(client.transport)
    return unread
