"""How two proxies authenticate each other, and how their records are sealed afterwards. Pure, no I/O.

The one with the higher number (the later one) dials. Three packets of fixed sizes, then sealed records:

    dialer   -> listener  HELLO: magic, the dialer's number, the listener's number, a nonce
    listener -> dialer    magic, a nonce, the listener's proof
    dialer   -> listener  the dialer's proof

A proof is an HMAC over all of this under both rows' secrets (and the configuration's own, where there is one): so a
client that cannot read both rows of `queuegate_proxies` has no proof, and a recorded one is of no use. From the same
values come two keys, one for each direction, with which every record is encrypted and numbered (AES-GCM): what is
changed, left out, repeated or put in between is no record, and ends the link.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from proxy.cluster.messages import BODY_MAX_BYTES

MAGIC = b"qgp1"
NONCE_BYTES, PROOF_BYTES = 32, 32
HELLO_BYTES = len(MAGIC) + 16 + NONCE_BYTES
REPLY_BYTES = len(MAGIC) + NONCE_BYTES + PROOF_BYTES
RECORD_MAX_BYTES = BODY_MAX_BYTES + 64  # a message's header and the record's tag

_HELLO = struct.Struct(">4sQQ32s")
_LENGTH = struct.Struct(">I")


class PeerError(Exception):
    """The received bytes are not what a peer sends."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The first packet: the dialer, the listener, and a nonce."""

    dialer: int
    listener: int
    nonce: bytes

    @classmethod
    def make(cls, dialer: int, listener: int) -> Hello:
        return cls(dialer, listener, secrets.token_bytes(NONCE_BYTES))

    @classmethod
    def read(cls, data: bytes) -> Hello:
        """Raises PeerError."""
        magic, dialer, listener, nonce = _HELLO.unpack(data)
        if magic != MAGIC:
            raise PeerError("not a proxy's greeting")
        return cls(dialer, listener, nonce)

    def data(self) -> bytes:
        return _HELLO.pack(MAGIC, self.dialer, self.listener, self.nonce)


@dataclass(frozen=True, slots=True)
class Keys:
    """What both ends have once they know both nonces."""

    listener_proof: bytes
    dialer_proof: bytes
    to_listener: bytes
    to_dialer: bytes

    @classmethod
    def derive(cls, hello: Hello, nonce: bytes, secret_of_dialer: str, secret_of_listener: str, shared: str) -> Keys:
        """From the packets exchanged and the secrets, which need no further bounds: their digests are taken."""
        parts = (secret_of_dialer, secret_of_listener, shared)
        key = hashlib.sha256(b"".join(hashlib.sha256(part.encode()).digest() for part in parts)).digest()
        master = hmac.digest(key, hello.data() + nonce, "sha256")

        def made(what: bytes) -> bytes:
            return hmac.digest(master, what, "sha256")

        return cls(made(b"listener"), made(b"dialer"), made(b"to listener"), made(b"to dialer"))


def reply(nonce: bytes, keys: Keys) -> bytes:
    """The listener's packet."""
    return MAGIC + nonce + keys.listener_proof


def nonce_of(data: bytes) -> bytes:
    """The nonce in the listener's packet. Raises PeerError."""
    if data[: len(MAGIC)] != MAGIC:
        raise PeerError("not a proxy's answer")
    return data[len(MAGIC) : len(MAGIC) + NONCE_BYTES]


def check(received: bytes, expected: bytes) -> None:
    """Raises PeerError where a proof is wrong."""
    if not hmac.compare_digest(received, expected):
        raise PeerError("it does not know the secrets in queuegate_proxies")


class Seal:
    """Makes records."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._count = 0

    def close(self, data: bytes) -> bytes:
        """One record."""
        sealed = self._cipher.encrypt(_nonce(self._count), data, None)
        self._count += 1
        return _LENGTH.pack(len(sealed)) + sealed


class Unseal:
    """Cuts a stream of bytes into records and opens them."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._count = 0
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What the records that are whole now hold. Raises PeerError."""
        self._buffer += data
        at = 0
        try:
            while len(self._buffer) - at >= _LENGTH.size:
                (size,) = _LENGTH.unpack_from(self._buffer, at)
                if size > RECORD_MAX_BYTES:
                    raise PeerError(f"a record of {size} bytes")
                end = at + _LENGTH.size + size
                if len(self._buffer) < end:
                    return
                sealed = bytes(self._buffer[at + _LENGTH.size : end])
                at = end
                yield self._open(sealed)
        finally:
            del self._buffer[:at]

    def _open(self, sealed: bytes) -> bytes:
        try:
            opened = self._cipher.decrypt(_nonce(self._count), sealed, None)
        except InvalidTag:
            raise PeerError("a record that was not sealed by it") from None
        self._count += 1
        return opened


def _nonce(count: int) -> bytes:
    return count.to_bytes(12, "big")
