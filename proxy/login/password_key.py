"""RSA keys under which passwords go over open connections, as caching_sha2_password and sha256_password do it.

The proxy's is for clients, and made when first needed, once a process, in a thread: it takes about a tenth of a second.
"""

from __future__ import annotations

import threading
from functools import lru_cache

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

KEY_REQUEST = b"\x02"
"""How a client asks for the key."""

_KEY_BITS = 2048  # MySQL's own
_KEY_BITS_MIN, _KEY_BITS_MAX = 1024, 8192  # of a server's: beneath no one is safe, above a login takes seconds
_OAEP_BYTES = 42  # what the padding takes of the key's length

SENT_IN_CLEAR = (
    "; the client sent the password in clear text over an unencrypted connection, where it is not taken: let it use TLS"
    " (tls.certificate in the proxy's configuration)"
)
"""Follows the error of a login that was refused for that."""


class UnusableKey(ValueError):
    """What the server sent is no RSA key, or one too small for the password."""


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
        try:
            return _masked(self._key.decrypt(data, _oaep()), nonce)
        except ValueError:
            return b""


def is_clear(data: bytes) -> bool:
    """Whether this is a password as it is, from a client that should have put it under a key, which has more bytes.
    MySQL's Connector/Python asks for no key (caching_sha2_password)."""
    return 1 < len(data) < _KEY_BITS_MIN // 8 and data.find(b"\x00") == len(data) - 1


def encrypt_password(password: bytes, nonce: bytes, pem: bytes) -> bytes:
    """The same as a client does it: a password with its NUL, under the server's key. Run it in a thread.

    Raises:
        UnusableKey: see there.
    """
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UnusableKey("the server sent no public key") from error
    if not isinstance(key, rsa.RSAPublicKey) or not _KEY_BITS_MIN <= key.key_size <= _KEY_BITS_MAX:
        raise UnusableKey("the server's key is not RSA of 1024 to 8192 bits")
    if len(password) > key.key_size // 8 - _OAEP_BYTES:
        raise UnusableKey(
            f"it has more than {key.key_size // 8 - _OAEP_BYTES - 1} bytes; encrypt the line to the database instead"
        )
    return key.encrypt(_masked(password, nonce), _oaep())


def _oaep() -> padding.OAEP:
    return padding.OAEP(mgf=padding.MGF1(hashes.SHA1()), algorithm=hashes.SHA1(), label=None)


def _masked(data: bytes, nonce: bytes) -> bytes:
    mask = nonce * (len(data) // len(nonce) + 1)
    return bytes(a ^ b for a, b in zip(data, mask, strict=False))


_make_once = lru_cache(maxsize=1)(PasswordKey)
_making = threading.Lock()


def password_key() -> PasswordKey:
    """The process's key. May be called from any thread, and must not be from the event loop's: see the module."""
    with _making:
        return _make_once()
