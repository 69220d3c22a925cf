"""What a client sends in the middle of an answer: the file of a LOAD DATA LOCAL, and a replica's acknowledgements."""

from __future__ import annotations

from proxy.errors import FatalProtocolError, StreamClosed
from proxy.login.carried_login import refuse
from proxy.transport.backend_socket import BackendSocket
from proxy.transport.client_socket import ClientSocket
from proxy.wire.packets import frame

_SEMI_SYNC_REPLY = b"\xef"  # what a semi-synchronous replica's acknowledgement begins with


async def pass_file(client: ClientSocket, backend: BackendSocket) -> bool:
    """Packets from the client to the server up to the empty one. False: the client broke off, so the connection was
    cut: half a file must not be committed."""
    try:
        while payload := await client.read():
            backend.write_packet(payload)
            await backend.drain()
    except FatalProtocolError as error:
        refuse(client, error)
        backend.abort("the client broke off its data")
        return False
    except StreamClosed:
        backend.abort("the client broke off its data")
        return False
    backend.write_packet(b"")
    return True


async def pass_replies(client: ClientSocket, backend: BackendSocket) -> None:
    """While a replica is sent events: its acknowledgements of them, and the news that it has gone. There may be no next
    event to show that."""
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
