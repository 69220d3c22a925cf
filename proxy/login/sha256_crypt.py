"""SHA-256 crypt as MySQL stores caching_sha2_password: the well-known `$5$` scheme with a salt of 20 bytes.

Written here because the C library cuts the salt at 16. Slow on purpose (5000 rounds, some milliseconds): run it in a
thread.
"""

from __future__ import annotations

from hashlib import sha256

_ALPHABET = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# The digest's bytes as the scheme takes them, three at a time: each triple is the last one, rotated and moved on.
_ORDER = tuple((n * 21 % 30, (n * 21 + 10) % 30, (n * 21 + 20) % 30) for n in range(10))


def sha256_crypt(password: bytes, salt: bytes, rounds: int) -> bytes:
    """The digest's 43 characters."""
    size = len(password)
    digest = _first_digest(password, salt)
    p = _stretched(sha256(password * size).digest(), size)
    s = _stretched(sha256(salt * (16 + digest[0])).digest(), len(salt))
    for number in range(rounds):
        odd = number & 1
        parts = (p if odd else digest, s if number % 3 else b"", p if number % 7 else b"", digest if odd else p)
        digest = sha256(b"".join(parts)).digest()
    return _encoded(digest)


def _first_digest(password: bytes, salt: bytes) -> bytes:
    size = len(password)
    other = sha256(password + salt + password).digest()
    text = password + salt + _stretched(other, size)
    for bit in range(size.bit_length()):
        text += other if size >> bit & 1 else password
    return sha256(text).digest()


def _stretched(digest: bytes, size: int) -> bytes:
    return (digest * (size // len(digest) + 1))[:size]


def _encoded(digest: bytes) -> bytes:
    out = bytearray()
    for a, b, c in _ORDER:
        _append(out, digest[a] << 16 | digest[b] << 8 | digest[c], 4)
    _append(out, digest[31] << 8 | digest[30], 3)
    return bytes(out)


def _append(out: bytearray, value: int, count: int) -> None:
    for _ in range(count):
        out.append(_ALPHABET[value & 63])
        value >>= 6
