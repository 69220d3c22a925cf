"""The profile of the database, as far as clients see it without a connection of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mysql_wire.flags import (
    CARRIED,
    COMPRESS,
    CONNECT_ATTRS,
    CONNECT_WITH_DB,
    LENENC_AUTH,
    PLUGIN_AUTH,
    PROTOCOL_41,
    SECURE_CONNECTION,
)
from proxy.login.as_client import OF_THE_LOGIN, ServerLogin

_OFFERED = CARRIED & ~OF_THE_LOGIN
_OF_THE_RELAY = PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH | LENENC_AUTH | CONNECT_WITH_DB | CONNECT_ATTRS | COMPRESS


@dataclass(frozen=True, slots=True)
class Collation:
    name: str
    charset: str


@dataclass(slots=True)
class BackendProfile:
    """Learned when the proxy starts, and again with every connection: a server that was upgraded is greeted for again.

    `collations` are those that clients name by their ids when they log in.
    """

    server_version: str
    capabilities: int
    charset: int
    greeting_status: int
    session_status: int
    collations: Mapping[int, Collation] = field(default_factory=dict)
    _charsets: frozenset[str] = frozenset()
    _pairs: frozenset[Collation] = frozenset()

    def __post_init__(self) -> None:
        self._pairs = frozenset(self.collations.values())
        self._charsets = frozenset(collation.charset for collation in self._pairs)

    @classmethod
    def of(cls, login: ServerLogin, collations: Mapping[int, Collation]) -> BackendProfile:
        """What a login shows, and `collations`."""
        greeting = login.greeting
        return cls(
            greeting.server_version, greeting.capabilities, greeting.charset, greeting.status, login.status, collations
        )

    def learn(self, login: ServerLogin) -> None:
        """What another login shows."""
        greeting = login.greeting
        self.server_version, self.capabilities = greeting.server_version, greeting.capabilities
        self.charset, self.greeting_status, self.session_status = greeting.charset, greeting.status, login.status

    @property
    def offered(self) -> int:
        """The capabilities that clients are offered: those that the server and the relay have, and our own login's."""
        return self.capabilities & _OFFERED | _OF_THE_RELAY

    def charset_of(self, collation: int) -> str | None:
        """The character set of a collation's id; None where the server would take one of its own choice instead."""
        collation_entry = self.collations.get(collation)
        return None if collation_entry is None else collation_entry.charset

    def supports(self, charset: str, collation: str | None = None) -> bool:
        """Whether the server has that character set and, if given, that collation for it."""
        return charset in self._charsets if collation is None else Collation(collation, charset) in self._pairs
