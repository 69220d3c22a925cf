"""The RSA key under which clients of caching_sha2_password send a password where the line itself is not encrypted.

Made when first needed, once a process, in a thread: it takes about a tenth of a second.
"""

from __future__ import annotations

import threading
from functools import lru_cache

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

KEY_REQUEST = b"\x02"
"""How a client asks for the key."""

_KEY_BITS = 2048  # MySQL's own


class PasswordKey:
    """See the module."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
        kind = serialization.PublicFormat.SubjectPublicKeyInfo
        self.pem = self._key.public_key().public_bytes(serialization.Encoding.PEM, kind)

    def decrypt(self, data: bytes, nonce: bytes) -> bytes:
        """What the client sent: password and NUL, masked with the nonce over and over, under OAEP. Empty where it is
        anything else. Takes a millisecond: run it in a thread."""
        if len(data) != _KEY_BITS // 8:
            return b""
        oaep = padding.OAEP(mgf=padding.MGF1(hashes.SHA1()), algorithm=hashes.SHA1(), label=None)
        try:
            masked = self._key.decrypt(data, oaep)
        except ValueError:
            return b""
        mask = nonce * (len(masked) // len(nonce) + 1)
        return bytes(a ^ b for a, b in zip(masked, mask, strict=False))


_make_once = lru_cache(maxsize=1)(PasswordKey)
_making = threading.Lock()


def password_key() -> PasswordKey:
    """The process's key. May be called from any thread, and must not be from the event loop's: see the module."""
    with _making:
        return _make_once()
