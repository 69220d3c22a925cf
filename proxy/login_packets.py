"""The packets of a login: the server's greeting, the client's response, COM_CHANGE_USER. Pure, no I/O.

What a client sends is parsed as MySQL parses it and written anew, so that the database is told exactly what the proxy
has understood and nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mysql_mimic.types import str_len

from proxy.capabilities import CONNECT_ATTRS, CONNECT_WITH_DB, LENENC_AUTH, PLUGIN_AUTH, SECURE_CONNECTION, SSL
from proxy.errors import MalformedPacket
from proxy.reader import PayloadReader

NONCE_BYTES = 20


@dataclass(frozen=True, slots=True)
class Greeting:
    """A server's first packet, as far as the proxy uses it."""

    server_version: str
    connection_id: int
    capabilities: int
    charset: int
    status: int
    nonce: bytes = b""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who a client says it is. Strings are as sent, in its character set; `capabilities` are what both sides have."""

    user: bytes
    auth: bytes
    database: bytes | None
    plugin: bytes | None
    capabilities: int
    charset: int
    max_packet_bytes: int = 0
    attributes: Mapping[bytes, bytes] | None = field(default=None)


def parse_greeting(payload: bytes) -> Greeting:
    """A protocol 10 greeting.

    Raises:
        MalformedPacket: it is something else.
    """
    return _read_greeting(payload)[0]


def _read_greeting(payload: bytes) -> tuple[Greeting, int]:
    """The greeting, and where its lower capability flags stand."""
    reader = PayloadReader(payload, "the server's greeting")
    if reader.u8() != 10:
        raise MalformedPacket("the server's greeting is not protocol 10")
    version = reader.null_bytes().decode(errors="replace")
    connection_id = reader.u32()
    nonce = reader.take(9)[:8]
    position = len(payload) - reader.remaining
    lower, charset, status, upper = reader.u16(), reader.u8(), reader.u16(), reader.u16()
    reader.take(11)
    nonce += reader.rest()[: NONCE_BYTES - len(nonce)]
    return Greeting(version, connection_id, lower | upper << 16, charset, status, nonce), position


def masked_greeting(payload: bytes, mask: int) -> tuple[bytes, Greeting]:
    """The same greeting without the capabilities that are not in `mask`, and without MariaDB's own further ones."""
    greeting, position = _read_greeting(payload)
    kept = greeting.capabilities & mask
    masked = bytearray(payload)
    masked[position : position + 2] = struct.pack("<H", kept & 0xFFFF)
    masked[position + 5 : position + 7] = struct.pack("<H", kept >> 16)
    # Reserved bytes; MariaDB keeps its extended capabilities in the last four.
    masked[position + 8 : position + 18] = bytes(10)
    return bytes(masked), replace(greeting, capabilities=kept)


def parse_response(payload: bytes, offered: int) -> Credentials:
    """A HandshakeResponse41. Flags that were not offered count as not set, as they do for MySQL.

    Raises:
        MalformedPacket: no such response.
    """
    reader = PayloadReader(payload, "the handshake response")
    capabilities = reader.u32() & offered
    max_packet_bytes, charset = reader.u32(), reader.u8()
    reader.take(23)
    user = reader.null_bytes()
    auth = _read_auth(reader, capabilities)
    database = _optional(reader, capabilities & CONNECT_WITH_DB)
    plugin = _optional(reader, capabilities & PLUGIN_AUTH)
    attributes = _read_attributes(reader) if capabilities & CONNECT_ATTRS and reader.remaining else None
    return Credentials(user, auth, database, plugin, capabilities, charset, max_packet_bytes, attributes)


def wants_tls(payload: bytes) -> bool:
    """Whether a first response asks to continue encrypted."""
    return len(payload) >= 4 and bool(int.from_bytes(payload[:4], "little") & SSL)


def encode_tls_request(credentials: Credentials) -> bytes:
    """The short first response that asks the server to continue encrypted."""
    return struct.pack("<IIB23x", credentials.capabilities | SSL, credentials.max_packet_bytes, credentials.charset)


def encode_response(credentials: Credentials, *, tls: bool = False) -> bytes:
    """A HandshakeResponse41."""
    flags = credentials.capabilities | (SSL if tls else 0)
    parts = [struct.pack("<IIB23x", flags, credentials.max_packet_bytes, credentials.charset)]
    parts += [credentials.user, b"\x00", _encode_auth(credentials)]
    parts += [part + b"\x00" for part in (credentials.database, credentials.plugin) if part is not None]
    parts.append(_encode_attributes(credentials.attributes))
    return b"".join(parts)


def parse_change_user(body: bytes, capabilities: int, charset: int) -> Credentials:
    """A COM_CHANGE_USER behind its command byte; `charset` holds on where it names none.

    Raises:
        MalformedPacket: no such packet.
    """
    reader = PayloadReader(body, "COM_CHANGE_USER")
    user = reader.null_bytes()
    auth = reader.take(reader.u8()) if capabilities & SECURE_CONNECTION else reader.null_bytes()
    database = reader.null_bytes()
    if reader.remaining >= 2:
        charset = reader.u16()
    plugin = _optional(reader, capabilities & PLUGIN_AUTH)
    attributes = _read_attributes(reader) if capabilities & CONNECT_ATTRS and reader.remaining else None
    return Credentials(user, auth, database, plugin, capabilities, charset, attributes=attributes)


def encode_change_user(credentials: Credentials) -> bytes:
    """A COM_CHANGE_USER, command byte included."""
    secure = credentials.capabilities & SECURE_CONNECTION
    auth = bytes((len(credentials.auth),)) + credentials.auth if secure else credentials.auth + b"\x00"
    parts = [b"\x11", credentials.user, b"\x00", auth, credentials.database or b"", b"\x00"]
    parts.append(struct.pack("<H", credentials.charset))
    if credentials.plugin is not None:
        parts.append(credentials.plugin + b"\x00")
        parts.append(_encode_attributes(credentials.attributes))
    return b"".join(parts)


def _read_auth(reader: PayloadReader, capabilities: int) -> bytes:
    if capabilities & LENENC_AUTH:
        return reader.lenenc_bytes()
    if capabilities & SECURE_CONNECTION:
        return reader.take(reader.u8())
    return reader.null_bytes()


def _encode_auth(credentials: Credentials) -> bytes:
    if credentials.capabilities & LENENC_AUTH:
        return bytes(str_len(credentials.auth))
    if credentials.capabilities & SECURE_CONNECTION:
        return bytes((len(credentials.auth),)) + credentials.auth
    return credentials.auth + b"\x00"


def _optional(reader: PayloadReader, present: int) -> bytes | None:
    """Some clients leave the last strings out although the flags announce them."""
    return reader.null_bytes() if present and reader.remaining else None


def _read_attributes(reader: PayloadReader) -> dict[bytes, bytes]:
    pairs = PayloadReader(reader.lenenc_bytes(), "connection attributes")
    attributes: dict[bytes, bytes] = {}
    while pairs.remaining:
        name = pairs.lenenc_bytes()
        attributes[name] = pairs.lenenc_bytes()
    return attributes


def _encode_attributes(attributes: Mapping[bytes, bytes] | None) -> bytes:
    if attributes is None:
        return b""
    return bytes(str_len(b"".join(str_len(name) + str_len(value) for name, value in attributes.items())))
