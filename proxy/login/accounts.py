"""The accounts of the embedded backend, and what is stored of their passwords: digests only, never shown.

A plain password is digested at once for both plugins. A hash serves only the plugin that made it.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha1, sha256

from proxy.login.sha256_crypt import sha256_crypt

NATIVE = "mysql_native_password"
CACHING_SHA2 = "caching_sha2_password"

_NATIVE_HASH = re.compile(r"\*[0-9A-Fa-f]{40}", re.ASCII)
_SHA2_HASH = re.compile(rb"\$A\$([0-9A-Fa-f]{3})\$(.{20})([./0-9A-Za-z]{43})", re.DOTALL)
_ROUNDS_UNIT = 1000  # the number in the hash counts thousands
_ROUNDS_MAX = 100_000  # each login in full costs this many digests; MySQL itself writes 5000


class InvalidPasswordHash(ValueError):
    """The text is no hash that MySQL prints."""


@dataclass(frozen=True, slots=True)
class SaltedHash:
    """The parts of MySQL's authentication_string of caching_sha2_password."""

    salt: bytes
    rounds: int
    digest: bytes = field(repr=False)

    def matches(self, password: bytes) -> bool:
        """Slow: run it in a thread."""
        return hmac.compare_digest(sha256_crypt(password, self.salt, self.rounds), self.digest)


@dataclass(frozen=True, slots=True)
class Account:
    """An account. `native` is SHA1(SHA1(password)), `sha2` SHA256(SHA256(password)); `salted` replaces `sha2`
    until the first login. `exists` is false for those made up for unknown names."""

    name: str
    native: bytes | None = field(default=None, repr=False)
    sha2: bytes | None = field(default=None, repr=False)
    salted: SaltedHash | None = field(default=None, repr=False)
    passwordless: bool = False
    exists: bool = True

    @classmethod
    def with_password(cls, name: str, password: str) -> Account:
        """An account whose password is known; an empty one lets anyone in who sends none."""
        plain = password.encode()
        native, sha2 = sha1(sha1(plain).digest()).digest(), sha256(sha256(plain).digest()).digest()
        return cls(name, native, sha2, passwordless=not plain)

    @classmethod
    def with_hash(cls, name: str, text: str | bytes) -> Account:
        """An account of a MySQL password hash: `*` and 40 hex digits, or `$A$005$` with salt and digest.

        Raises:
            InvalidPasswordHash: it is neither.
        """
        if isinstance(text, str) and _NATIVE_HASH.fullmatch(text):
            return cls(name, native=bytes.fromhex(text[1:]))
        match = _SHA2_HASH.fullmatch(text.encode() if isinstance(text, str) else text)
        if match is None:
            raise InvalidPasswordHash("not '*' and 40 hex digits, and not '$A$005$' with a salt and a digest")
        rounds = int(match[1], 16) * _ROUNDS_UNIT
        if not 0 < rounds <= _ROUNDS_MAX:
            raise InvalidPasswordHash(f"{rounds} rounds; at most {_ROUNDS_MAX} are accepted")
        return cls(name, salted=SaltedHash(match[2], rounds, match[3]))

    @property
    def plugins(self) -> tuple[str, ...]:
        """The plugins it can log in with, the better one first."""
        sha2 = (CACHING_SHA2,) if self.sha2 is not None or self.salted is not None else ()
        return (*sha2, NATIVE) if self.native is not None else sha2

    @property
    def kind(self) -> tuple[tuple[str, ...], int]:
        """What a client can find out without its password: the plugins, and what a login in full costs; 0: fast."""
        return self.plugins, 0 if self.salted is None else self.salted.rounds


class Accounts:
    """All accounts. Unknown names get an account too, of a kind that some real one has, whose password no one knows:
    so a wrong name costs the same packets and the same work as a wrong password. Which kind it is follows from the name
    and the configured passwords: it is the same at all workers and after a restart, as it is for a real name."""

    def __init__(self, accounts: Iterable[Account]) -> None:
        self._accounts = {account.name: account for account in accounts}
        kinds = {account.kind: account for account in self._accounts.values()}
        self._kinds = tuple(kinds[kind] for kind in sorted(kinds)) or (Account.with_password("", "-"),)
        secret = sha256()
        for _, account in sorted(self._accounts.items()):
            salted = account.salted.digest if account.salted is not None else b""
            for part in (account.name.encode(errors="surrogatepass"), account.native, account.sha2, salted):
                secret.update(sha256(part or b"").digest())
        self._secret = secret.digest()

    def find(self, name: str) -> Account:
        """The account of that name, or one that does not exist."""
        account = self._accounts.get(name)
        return self._made_up(name) if account is None else account

    def _made_up(self, name: str) -> Account:
        seed = hmac.digest(self._secret, name.encode(errors="surrogatepass"), "sha256")
        kind = self._kinds[int.from_bytes(seed[:8], "little") % len(self._kinds)]
        return replace(
            kind,
            name=name,
            native=seed[:20] if kind.native is not None else None,
            sha2=seed if kind.sha2 is not None else None,
            salted=kind.salted and replace(kind.salted, digest=seed + seed[:11]),
            passwordless=False,
            exists=False,
        )
