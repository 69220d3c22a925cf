"""What the server's OK does not show: whether it authenticated the client by a property of the proxy's own connection.

Two properties that a server reads from the connection itself, which is the proxy's:

- The user of the operating system at the other end of a unix socket. It is the proxy's, so an account that logs in by
  it (unix_socket, auth_socket) would let in every client that knows its name.
- Whether the connection is encrypted. An account that requires TLS is not to be served over a client's clear-text
  connection only because the proxy's to the server is encrypted.

In these two situations, and only there, the session that was just opened is asked about its own account before the
client gets the OK. Every account may see its own definition.
"""

from __future__ import annotations

import re

from mysql_client.packets import MalformedAnswer
from mysql_wire import requests
from mysql_wire.answer_walker import AnswerWalker
from mysql_wire.collected_answer import decode_result
from mysql_wire.errors import MalformedPacket, ProxyError
from mysql_wire.packets import frame
from proxy.errors import BackendLost
from proxy.login.password_bridge import SOCKET_ACCOUNT
from proxy.transport.backend_socket import BackendSocket
from proxy.transport.client_socket import ClientSocket

_QUESTION = b"SHOW CREATE USER CURRENT_USER()"
_ANSWER_MAX_BYTES = 64 * 1024  # a definition is some hundred bytes
_BY_SOCKET = re.compile(rb"\b(unix_socket|auth_socket)\b", re.IGNORECASE)
_BY_TLS = re.compile(rb"\bREQUIRE\s+(SSL|X509|ISSUER|SUBJECT|CIPHER)\b", re.IGNORECASE)
_COM_QUERY = 0x03

_UNKNOWN_ACCOUNT = (
    "Access denied: the database does not show how this account logs in, so the proxy cannot make sure that it is not"
    " by the proxy's own user of the operating system; connect to the database itself"
)
_NEEDS_TLS = (
    "Connections using insecure transport are prohibited: the account requires TLS (REQUIRE SSL, X509 and the like),"
    " and this connection is not encrypted"
)


async def check_account(client: ClientSocket, backend: BackendSocket, capabilities: int) -> None:
    """Refuse an account that was let in by the connection and not by the client. The link's login is over.

    A name or a comment that contains these words is refused, too: no real one does, and so nothing has to be unquoted.

    Raises:
        ProxyError: it must not be served.
        BackendLost: the server gave no answer.
    """
    if backend.local:
        definition = await _definition(backend, capabilities)
        if definition is None or _BY_SOCKET.search(definition):
            raise ProxyError(1698, _UNKNOWN_ACCOUNT if definition is None else SOCKET_ACCOUNT)
    elif backend.encrypted and not client.encrypted:
        definition = await _definition(backend, capabilities)
        if definition is not None and _BY_TLS.search(definition):
            raise ProxyError(3159, _NEEDS_TLS)


async def _definition(backend: BackendSocket, capabilities: int) -> bytes | None:
    """What the database answers; None: it refuses to, as to an account whose password has expired."""
    walker = AnswerWalker(capabilities)
    walker.begin(_COM_QUERY)
    backend.seq = 0
    backend.write_packet(requests.query_payload(_QUESTION, capabilities))
    answer = bytearray()
    try:
        while not walker.done:
            seq = backend.seq
            packet = frame(await backend.read_packet(), seq)
            answer += packet
            walker.feed(packet)
            if len(answer) > _ANSWER_MAX_BYTES:
                raise BackendLost("the server shows an account of more than 64 KiB")
        backend.seq = 0
        result = decode_result(bytes(answer), capabilities, encoding="utf-8")
    except (MalformedAnswer, MalformedPacket) as error:
        raise BackendLost(f"the server's answer about the account makes no sense: {error}") from error
    return b" ".join(value for row in result.rows for value in row if value is not None) if result else None
