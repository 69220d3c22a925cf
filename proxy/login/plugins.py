"""The server's side of both password plugins, as mysql-mimic's AuthPlugin: driven by `proxy.login.own_accounts`, no I/O
of their own.

caching_sha2_password is implemented here: mysql-mimic has none, and clients of MySQL 9 know no other. The client proves
that it knows the password without sending it (fast) if SHA256(SHA256(password)) is at hand here. Where only a salted
hash is, the first login sends the password itself: inside TLS as it is, otherwise under our RSA key. So does, as in
MySQL, every later login whose proof is not right. A password in clear text on an open connection is never accepted.
mysql_native_password is mysql-mimic's, with comparisons in constant time.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import MutableMapping
from dataclasses import dataclass
from hashlib import sha1, sha256

from mysql_mimic.auth import AuthInfo, AuthPlugin, AuthState, Forbidden, NativePasswordAuthPlugin, Success, User
from mysql_mimic.utils import nonce as new_nonce

from mysql_wire.login import NONCE_BYTES
from proxy.login.accounts import CACHING_SHA2, NATIVE, Account
from proxy.login.password_key import KEY_REQUEST, SENT_IN_CLEAR, is_clear, password_key

FAST_SUCCESS, FULL_AUTHENTICATION = b"\x03", b"\x04"
"""The server's codes in AuthMoreData. The client does not answer the first."""

_PASSWORD_MAX_BYTES = 256  # MySQL's own bound
_NO_DIGEST = bytes(32)  # of which no password is known
_NO_PASSWORD = (b"", b"\x00")  # clients send either form


@dataclass
class EmbeddedUser(User):  # type: ignore[misc]  # mysql-mimic ships no type information
    """mysql-mimic's user with the account behind it."""

    account: Account | None = None


@dataclass
class LoginInfo(AuthInfo):  # type: ignore[misc]  # as above
    """mysql-mimic's view of a login, and whether no one can listen on its connection, or no one on another machine."""

    private: bool = False
    confined: bool = False


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


class NativePlugin(NativePasswordAuthPlugin):  # type: ignore[misc]  # as above
    """mysql_native_password."""

    def password_matches(self, user: EmbeddedUser, scramble: bytes, nonce: bytes) -> bool:
        """XOR(SHA1(password), SHA1(nonce + SHA1(SHA1(password)))) is what the client sends."""
        account = user.account
        assert account is not None and account.native is not None
        if account.passwordless:
            return scramble in _NO_PASSWORD
        mask = sha1(nonce + account.native).digest()
        digest = _xor(scramble, mask) if len(scramble) == len(mask) else mask
        return hmac.compare_digest(sha1(digest).digest(), account.native) and account.exists


class CachingSha2PasswordAuthPlugin(AuthPlugin):  # type: ignore[misc]  # as above
    """caching_sha2_password."""

    name = CACHING_SHA2
    client_plugin_name = CACHING_SHA2

    def __init__(self) -> None:
        self._digests: MutableMapping[str, bytes] = {}  # of accounts that logged in in full; as many as are configured

    async def auth(self, auth_info: LoginInfo | None = None) -> AuthState:
        """See AuthPlugin: yields what to send, then the decision."""
        if auth_info is not None and auth_info.handshake_plugin_name == self.name and auth_info.handshake_auth_data:
            nonce = auth_info.handshake_auth_data[:NONCE_BYTES]
        else:
            nonce = new_nonce(NONCE_BYTES)
            auth_info = yield nonce + b"\x00"
        account = auth_info.user.account
        digest = account.sha2 or self._digests.get(account.name) or _NO_DIGEST
        if auth_info.data in _NO_PASSWORD:
            yield _decided(account, account.passwordless)
        elif proves(auth_info.data, digest, nonce) and account.exists and not account.passwordless:
            yield FAST_SUCCESS
            yield _decided(account, True)
        elif account.salted is None or account.passwordless:
            yield Forbidden()
        else:  # after a first login as before it: no packet shows whether there was one, or such an account
            auth_info = yield FULL_AUTHENTICATION
            if not auth_info.private and auth_info.data == KEY_REQUEST:
                auth_info = yield (await asyncio.to_thread(password_key)).pem
            decided = _decided(account, await self._in_full(account, auth_info, nonce))
            in_clear = not auth_info.confined and is_clear(auth_info.data)
            yield Forbidden(SENT_IN_CLEAR) if in_clear and isinstance(decided, Forbidden) else decided

    async def _in_full(self, account: Account, info: LoginInfo, nonce: bytes) -> bool:
        """The client has sent the password itself. Slow work runs in a thread."""
        sent = info.data
        if not info.private:
            sent = await asyncio.to_thread(lambda: password_key().decrypt(info.data, nonce))
            if not sent and info.confined and is_clear(info.data):
                sent = info.data
        password = sent[:-1] if sent.endswith(b"\x00") else b""
        if account.salted is None or not 0 < len(password) <= _PASSWORD_MAX_BYTES:
            return False
        if not await asyncio.to_thread(account.salted.matches, password):
            return False
        self._digests[account.name] = sha256(sha256(password).digest()).digest()
        return True


def proves(proof: bytes, digest: bytes, nonce: bytes) -> bool:
    """Whether XOR(SHA256(password), SHA256(SHA256(SHA256(password)) + nonce)) was sent; `digest` is SHA256 twice."""
    mask = sha256(digest + nonce).digest()
    once = _xor(proof, mask) if len(proof) == len(mask) else mask
    return hmac.compare_digest(sha256(once).digest(), digest)


def _decided(account: Account, right: bool) -> Success | Forbidden:
    return Success(account.name) if right and account.exists else Forbidden()


def plausible(plugin: str, data: bytes) -> bool:
    """Whether the client computed this for that plugin: others send another's, or nothing yet, and await a switch."""
    return len(data) == {NATIVE: 20, CACHING_SHA2: 32}.get(plugin, -1) or (plugin == CACHING_SHA2 and data == b"\x00")
