"""How a client proves a password to a MySQL server, plugin by plugin, with PyMySQL's functions. Pure; stores nothing.

For lines that are opened without PyMySQL, which knows no asyncio: the packets between are their owner's business.
"""

from __future__ import annotations

from mysql_client.driver import password_functions

NONCE_BYTES = 20  # of native, caching_sha2 and sha256; ed25519 has 32

NATIVE, CACHING_SHA2 = "mysql_native_password", "caching_sha2_password"
SHA256, ED25519 = "sha256_password", "client_ed25519"
KNOWN = (CACHING_SHA2, NATIVE, ED25519, SHA256)
"""The plugins that can be spoken, the best first."""


def native(password: bytes, nonce: bytes) -> bytes:
    """mysql_native_password."""
    return bytes(password_functions.scramble_native_password(password, nonce[:NONCE_BYTES]))


def caching_sha2(password: bytes, nonce: bytes) -> bytes:
    """caching_sha2_password, its fast form."""
    return bytes(password_functions.scramble_caching_sha2(password, nonce[:NONCE_BYTES]))


def ed25519(password: bytes, nonce: bytes) -> bytes:
    """MariaDB's client_ed25519: a signature under a key made of the password."""
    return bytes(password_functions.ed25519_password(password, nonce))
