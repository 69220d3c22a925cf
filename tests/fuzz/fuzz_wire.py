"""The protocol as the fuzzer knows it: written from MySQL's documents, sharing no line with the code under test.

Packets, the numbers they are made of, a client's login, and scrambles. Kept small: it only has to judge.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from hashlib import sha1, sha256

FULL = 0xFFFFFF
HEADER = 4

LONG_PASSWORD, FOUND_ROWS, CONNECT_WITH_DB, COMPRESS = 1 << 0, 1 << 1, 1 << 3, 1 << 5
PROTOCOL_41, SSL, SECURE_CONNECTION = 1 << 9, 1 << 11, 1 << 15
MULTI_STATEMENTS, PLUGIN_AUTH, CONNECT_ATTRS, LENENC_AUTH = 1 << 16, 1 << 19, 1 << 20, 1 << 21
SESSION_TRACK, DEPRECATE_EOF, OPTIONAL_METADATA, QUERY_ATTRIBUTES = 1 << 23, 1 << 24, 1 << 25, 1 << 27
# MariaDB's, which stand where MySQL has nothing: in force where LONG_PASSWORD is not set.
PROGRESS, BULK, EXTENDED_METADATA, CACHE_METADATA, BULK_RESULTS = 1 << 32, 1 << 34, 1 << 35, 1 << 36, 1 << 37

QUIT, INIT_DB, QUERY, FIELD_LIST, STATISTICS = 0x01, 0x02, 0x03, 0x04, 0x09
PROCESS_INFO, PROCESS_KILL, DEBUG, PING, CHANGE_USER = 0x0A, 0x0C, 0x0D, 0x0E, 0x11
PREPARE, EXECUTE, LONG_DATA, STMT_CLOSE, STMT_RESET = 0x16, 0x17, 0x18, 0x19, 0x1A
SET_OPTION, FETCH, RESET_CONNECTION, BULK_EXECUTE = 0x1B, 0x1C, 0x1F, 0xFA
NO_ANSWER = (QUIT, LONG_DATA, STMT_CLOSE)


class WireError(Exception):
    """Bytes that break the protocol."""


@dataclass(frozen=True, slots=True)
class Packet:
    """One physical packet."""

    seq: int
    payload: bytes

    def encode(self) -> bytes:
        return len(self.payload).to_bytes(3, "little") + bytes((self.seq & 0xFF,)) + self.payload


def framed(payload: bytes, seq: int = 0) -> bytes:
    """A payload as packets, cut at 16 MiB."""
    out = b""
    while True:
        out += Packet(seq, payload[:FULL]).encode()
        if len(payload) < FULL:
            return out
        payload, seq = payload[FULL:], seq + 1


def packets_of(data: bytes) -> tuple[list[Packet], bytes]:
    """The whole packets of some bytes, and what is left of them."""
    found, position = [], 0
    while len(data) - position >= HEADER:
        end = position + HEADER + int.from_bytes(data[position : position + 3], "little")
        if end > len(data):
            break
        found.append(Packet(data[position + 3], data[position + HEADER : end]))
        position = end
    return found, data[position:]


def lenenc(number: int) -> bytes:
    """A length-encoded integer."""
    if number < 251:
        return bytes((number,))
    for mark, size in ((0xFC, 2), (0xFD, 3), (0xFE, 8)):
        if number < 1 << 8 * size:
            return bytes((mark,)) + number.to_bytes(size, "little")
    raise ValueError(number)


def text(data: bytes) -> bytes:
    """A length-encoded string."""
    return lenenc(len(data)) + data


class Cursor:
    """Reads a payload; raises WireError at its end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise WireError(f"{size} bytes wanted, {self.left} left")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def lenenc(self) -> int:
        first = self.number(1)
        if first < 251:
            return first
        if first not in (0xFC, 0xFD, 0xFE):
            raise WireError(f"{first:#x} is no length")
        return self.number({0xFC: 2, 0xFD: 3, 0xFE: 8}[first])

    def text(self) -> bytes:
        return self.take(self.lenenc())

    def zero_ended(self) -> bytes:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise WireError("a string without an end")
        return self.take(end - self.at + 1)[:-1]


@dataclass(frozen=True, slots=True)
class Login:
    """A HandshakeResponse41, or a COM_CHANGE_USER, as far as a server looks at it."""

    user: bytes
    auth: bytes
    capabilities: int
    plugin: bytes


def capabilities_of(response: bytes, offered: int) -> int:
    """The capability flags in force after this response to a greeting that offered those."""
    flags = int.from_bytes(response[:4], "little")
    if not flags & LONG_PASSWORD:
        flags |= int.from_bytes(response[28:32], "little") << 32
    return flags & (offered | LONG_PASSWORD)


def read_response(payload: bytes, offered: int) -> Login:
    """A client's response to the greeting."""
    cursor = Cursor(payload)
    capabilities = capabilities_of(payload, offered)
    cursor.take(32)
    user = cursor.zero_ended()
    if capabilities & LENENC_AUTH:
        auth = cursor.text()
    elif capabilities & SECURE_CONNECTION:
        auth = cursor.take(cursor.number(1))
    else:
        auth = cursor.zero_ended()
    if capabilities & CONNECT_WITH_DB and cursor.left:
        cursor.zero_ended()
    plugin = cursor.zero_ended() if capabilities & PLUGIN_AUTH and cursor.left else b""
    return Login(user, auth, capabilities, plugin)


def read_change_user(body: bytes, capabilities: int) -> Login:
    """A COM_CHANGE_USER behind its command byte."""
    cursor = Cursor(body)
    user = cursor.zero_ended()
    auth = cursor.take(cursor.number(1)) if capabilities & SECURE_CONNECTION else cursor.zero_ended()
    cursor.zero_ended()
    if cursor.left >= 2:
        cursor.take(2)
    plugin = cursor.zero_ended() if capabilities & PLUGIN_AUTH and cursor.left else b""
    return Login(user, auth, capabilities, plugin)


def nonce_of(greeting: bytes) -> bytes:
    """The 20 bytes of a protocol 10 greeting that passwords are mixed with."""
    cursor = Cursor(greeting)
    cursor.take(1)
    cursor.zero_ended()
    cursor.take(4)
    first = cursor.take(8)
    cursor.take(19)
    return first + cursor.take(12)


def offered_by(greeting: bytes) -> int:
    """The capability flags of a protocol 10 greeting."""
    cursor = Cursor(greeting)
    cursor.take(1)
    cursor.zero_ended()
    cursor.take(13)
    lower = cursor.number(2)
    cursor.take(3)
    upper = cursor.number(2)
    cursor.take(7)
    return lower | upper << 16 | (0 if lower & LONG_PASSWORD else cursor.number(4) << 32)


def native_proof(password: bytes, nonce: bytes) -> bytes:
    """What mysql_native_password sends."""
    once = sha1(password).digest()
    mask = sha1(nonce + sha1(once).digest()).digest()
    return bytes(a ^ b for a, b in zip(once, mask, strict=True))


def sha2_proof(password: bytes, nonce: bytes) -> bytes:
    """What caching_sha2_password sends first."""
    once = sha256(password).digest()
    mask = sha256(sha256(once).digest() + nonce).digest()
    return bytes(a ^ b for a, b in zip(once, mask, strict=True))


def compressed(plain: bytes, seq: int, *, store: bool = False) -> bytes:
    """Bytes in a compressed packet; short ones, and those to `store`, as they are."""
    body, size = (plain, 0) if store or len(plain) < 50 else (zlib.compress(plain, 1), len(plain))
    return len(body).to_bytes(3, "little") + bytes((seq & 0xFF,)) + size.to_bytes(3, "little") + body


def uncompressed(data: bytes) -> tuple[bytes, bytes, list[int]]:
    """The plain bytes of whole compressed packets, what is left of them, and their sequence ids."""
    plain, at, numbers = b"", 0, []
    while len(data) - at >= 7:
        end = at + 7 + int.from_bytes(data[at : at + 3], "little")
        if end > len(data):
            break
        size = int.from_bytes(data[at + 4 : at + 7], "little")
        body, fault = unpacked(data[at + 7 : end], size)
        if fault or (size and len(body) != size):
            raise WireError(f"no compressed packet: {fault or len(body)} ({size} bytes were announced)")
        plain += body
        numbers.append(data[at + 3])
        at = end
    return plain, data[at:], numbers


EARLY = "it ends early"
"""What is wrong with a compressed packet's body that may only have been cut."""


def uncompressed_so_far(data: bytes) -> tuple[bytes, bool]:
    """As much of the plain bytes as can be had, and whether a packet was wrong, or may be, not only cut.

    The gate unpacks a packet as it comes. But the last piece of one counts only when its checksum has come, and where
    that piece begins depends on how the bytes came.
    """
    plain = b""
    while len(data) >= 7:
        length, size = int.from_bytes(data[:3], "little"), int.from_bytes(data[4:7], "little")
        body, fault = unpacked(data[7 : 7 + length], size)
        if size and len(data) < 7 + length:
            all_but_the_end = len(body) >= size or fault != EARLY
            return plain + (b"" if all_but_the_end else body), all_but_the_end
        plain += body[:size] if size else body
        if fault or (size and len(body) != size):
            return plain, len(data) >= 7 + length
        data = data[7 + length :]
    return plain, False


def unpacked(body: bytes, size: int) -> tuple[bytes, str]:
    """What a compressed packet's body yields, and what is wrong with it; `size` 0: it is not compressed."""
    if not size:
        return body, ""
    inflate = zlib.decompressobj()
    try:
        plain = inflate.decompress(body)
    except zlib.error as error:
        return b"", str(error)
    if inflate.eof:
        return plain, "it goes on" if inflate.unused_data else ""
    return plain, EARLY
