"""The packets of a login: the server's greeting, the client's response, COM_CHANGE_USER. Pure, no I/O.

What a client sends is parsed as MySQL parses it and written again, so that the database is sent exactly what the proxy
has understood and nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mysql_mimic.types import str_len

from mysql_wire.errors import MalformedPacket
from mysql_wire.flags import (
    CONNECT_ATTRS,
    CONNECT_WITH_DB,
    EXTENDED_SHIFT,
    LENENC_AUTH,
    LONG_PASSWORD,
    PLUGIN_AUTH,
    SECURE_CONNECTION,
    SSL,
)
from mysql_wire.packet_reader import PayloadReader

NONCE_BYTES = 20
TLS_REQUEST_BYTES = 32
_GREETING = struct.Struct("<I8sxHBHH7xI")  # after the version: id, nonce, flags, charset, status, flags, more flags
_FLAGS_OFFSET = 13
_SHORT_MAX = 250  # the longest string whose length is one byte

LOGIN_PACKET_MAX_BYTES = 64 * 1024
"""Of any packet of a login: a response is some hundred bytes, connection attributes may add to it, and the largest of
the server's is a public key."""


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
    """A client's login. Strings are as sent, in its character set; `capabilities` are what both sides have."""

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
    """The greeting, and the position of its lower capability flags."""
    if not payload.startswith(b"\x0a"):
        raise MalformedPacket("the server's greeting is not protocol 10")
    end = payload.find(b"\x00", 1)
    if end < 0 or len(payload) < end + 1 + _GREETING.size:
        raise MalformedPacket("the server's greeting ends too early")
    number, nonce, lower, charset, status, upper, extended = _GREETING.unpack_from(payload, end + 1)
    capabilities = lower | upper << 16
    if not capabilities & LONG_PASSWORD:
        capabilities |= extended << EXTENDED_SHIFT
    rest = end + 1 + _GREETING.size
    nonce += payload[rest : rest + NONCE_BYTES - len(nonce)]
    version = payload[1:end].decode(errors="replace")
    return Greeting(version, number, capabilities, charset, status, nonce), end + 1 + _FLAGS_OFFSET


def greeting_plugin(payload: bytes) -> str:
    """The plugin that a greeting names; empty if none. Some servers leave out the NUL after it."""
    if not parse_greeting(payload).capabilities & PLUGIN_AUTH:
        return ""
    return payload.removesuffix(b"\x00").rpartition(b"\x00")[2].decode("ascii", "replace")


def encode_greeting(greeting: Greeting, plugin: str) -> bytes:
    """A protocol 10 greeting of our own. Its nonce has NONCE_BYTES."""
    flags, nonce = greeting.capabilities, greeting.nonce
    return b"".join(
        (
            b"\x0a",
            greeting.server_version.encode() + b"\x00",
            struct.pack("<I", greeting.connection_id & 0xFFFFFFFF),
            nonce[:8] + b"\x00",
            struct.pack("<HBHH", flags & 0xFFFF, greeting.charset, greeting.status, flags >> 16 & 0xFFFF),
            struct.pack("<B6xI", NONCE_BYTES + 1, flags >> EXTENDED_SHIFT),
            nonce[8:] + b"\x00",
            plugin.encode() + b"\x00",
        )
    )


def masked_greeting(payload: bytes, mask: int, *, offers_tls: bool = False) -> tuple[bytes, Greeting]:
    """The same greeting without the capabilities that are not in `mask`. `offers_tls`: as it is sent, with TLS."""
    greeting, position = _read_greeting(payload)
    common = greeting.capabilities & mask
    masked = bytearray(payload)
    masked[position : position + 2] = struct.pack("<H", common & 0xFFFF)
    masked[position + 5 : position + 7] = struct.pack("<H", common >> 16 & 0xFFFF)
    masked[position + 8 : position + 18] = struct.pack("<6xI", common >> EXTENDED_SHIFT)
    if offers_tls:
        masked[position + 1] |= SSL >> 8
    return bytes(masked), replace(greeting, capabilities=common)


def parse_response(payload: bytes, offered: int) -> Credentials:
    """A HandshakeResponse41. Flags that were not offered count as not set, as they do for MySQL.

    LONG_PASSWORD is taken as it comes: unset, it announces that the client supports MariaDB's extended capabilities.

    Raises:
        MalformedPacket: no such response.
    """
    reader = PayloadReader(payload, "the handshake response")
    capabilities = reader.u32()
    max_packet_bytes, charset = reader.u32(), reader.u8()
    reader.take(19)
    extended = reader.u32()
    if not capabilities & LONG_PASSWORD:
        capabilities |= extended << EXTENDED_SHIFT
    capabilities &= offered | LONG_PASSWORD
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
    return _response_head(credentials, tls=True)


def _response_head(credentials: Credentials, *, tls: bool) -> bytes:
    flags = credentials.capabilities | (SSL if tls else 0)
    return struct.pack(
        "<IIB19xI",
        flags & 0xFFFFFFFF,
        credentials.max_packet_bytes,
        credentials.charset,
        flags >> EXTENDED_SHIFT,
    )


def encode_response(credentials: Credentials, *, tls: bool = False) -> bytes:
    """A HandshakeResponse41."""
    parts = [_response_head(credentials, tls=tls)]
    parts += [credentials.user, b"\x00", _encode_auth(credentials)]
    parts += [part + b"\x00" for part in (credentials.database, credentials.plugin) if part is not None]
    parts.append(_encode_attributes(credentials.attributes))
    return b"".join(parts)


def parse_change_user(body: bytes, capabilities: int, charset: int) -> Credentials:
    """A COM_CHANGE_USER after its command byte; `charset` stays where it names none.

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
    data = reader.lenenc_bytes()
    strings: list[bytes] = []
    position, size = 0, len(data)
    while position < size:
        length = data[position]
        if length > _SHORT_MAX:
            return _read_long_attributes(data)
        start, position = position + 1, position + 1 + length
        strings.append(data[start:position])
    if position > size or len(strings) % 2:
        raise MalformedPacket("connection attributes ends too early")
    return dict(zip(strings[::2], strings[1::2], strict=True))


def _read_long_attributes(data: bytes) -> dict[bytes, bytes]:
    """With a string of more than 250 bytes among them, whose length takes more than one."""
    pairs = PayloadReader(data, "connection attributes")
    attributes: dict[bytes, bytes] = {}
    while pairs.remaining:
        name = pairs.lenenc_bytes()
        attributes[name] = pairs.lenenc_bytes()
    return attributes


def _encode_attributes(attributes: Mapping[bytes, bytes] | None) -> bytes:
    if attributes is None:
        return b""
    return bytes(str_len(b"".join(str_len(name) + str_len(value) for name, value in attributes.items())))
