"""What a client sends in the middle of an answer: the file of a LOAD DATA LOCAL, and a replica's acknowledgements."""

from __future__ import annotations

from proxy.errors import FatalProtocolError, StreamClosed
from proxy.login.carried import refuse
from proxy.transport.backend_socket import BackendSocket
from proxy.transport.client_socket import ClientSocket
from proxy.wire.packets import frame

_SEMI_SYNC_REPLY = b"\xef"  # what a semi-synchronous replica's acknowledgement begins with


async def pass_file(stream: ClientSocket, link: BackendSocket) -> bool:
    """Packets from the client to the server up to the empty one. False: the client broke off, so the line was cut: half
    a file must not be committed."""
    try:
        while payload := await stream.read():
            link.write_packet(payload)
            await link.drain()
    except FatalProtocolError as error:
        refuse(stream, error)
        link.abort("the client broke off its data")
        return False
    except StreamClosed:
        link.abort("the client broke off its data")
        return False
    link.write_packet(b"")
    return True


async def pass_replies(stream: ClientSocket, link: BackendSocket) -> None:
    """While a replica is sent events: its acknowledgements of them, and the news that it has gone. There may be no next
    event to show that."""
    try:
        while True:
            stream.seq = 0
            reply = await stream.read()
            if not reply.startswith(_SEMI_SYNC_REPLY):
                raise StreamClosed("the replica said goodbye")
            link.write(frame(reply))
            await link.drain()
    except (StreamClosed, FatalProtocolError):
        link.abort("the replica is gone")
        stream.abort()  # it said goodbye, which nobody else has heard, or makes no sense
