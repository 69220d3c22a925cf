"""A password on its way between two connections, one of which is more private than the other. Decides; does no I/O.

Most plugins send proofs, which may be carried anywhere. Two send the password itself: as it is where the connection is
private (TLS, a unix socket), and under the other side's RSA key where it is not. Each side goes by its own connection,
so where only one connection is private neither can read the other, and the proxy is the server of the one and the
client of the other. It has the password for that moment and stores nothing.

The first rule: what a client sent in clear on a private connection never goes in clear to an open one. Plugins that
always send it so, and unknown plugins, are refused where that would happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from mysql_wire.errors import FatalProtocolError, MalformedPacket, ProxyError
from mysql_wire.login import NONCE_BYTES
from proxy.errors import BackendLost
from proxy.login.password_key import is_clear

CACHING_SHA2, SHA256 = b"caching_sha2_password", b"sha256_password"
_PROOF_BYTES = 32  # of caching_sha2_password
_KEY_REQUESTS = {CACHING_SHA2: b"\x02", SHA256: b"\x01"}

_IN_CLEAR = frozenset((b"mysql_clear_password", b"dialog"))
_PROOFS = frozenset(
    (
        b"",  # the answer to a switch that names nothing: the plugin of MySQL 3
        b"mysql_old_password",
        b"mysql_native_password",
        b"client_ed25519",
        b"parsec",
        b"auth_gssapi_client",
        b"authentication_kerberos_client",
        b"authentication_ldap_sasl_client",
        b"authentication_windows_client",
        b"authentication_webauthn_client",
        b"authentication_fido_client",
    )
)
_BY_SYSTEM_USER = frozenset((b"unix_socket", b"auth_socket"))

_FULL_AUTHENTICATION = b"\x01\x04"
_NO_PASSWORD = (b"", b"\x00")
_SWITCH, _NEXT_FACTOR = 0xFE, 0x02

SOCKET_ACCOUNT = (
    "Access denied: an account that logs in by the operating system's user (unix_socket, auth_socket) cannot be used"
    " through the proxy, whose own user the database would see; give it a password, or connect to the database itself"
)


@dataclass(frozen=True, slots=True)
class Privacy:
    """Of one connection. `private`: passwords are sent on it as they are. `confined`: private, or within this
    machine."""

    private: bool
    confined: bool


class Step(Enum):
    """What to do with a packet."""

    CARRY = "pass it on as it is"
    SEND_KEY = "answer the client with our public key"
    DECRYPT = "take the password from under our key, and pass it on"
    REQUEST_KEY = "keep the password, and ask the server for its key"
    ENCRYPT = "put the password that was kept under the key which this is, and send it to the server"


class PasswordBridge:
    """See the module. Follows one login; `nonce` is the one in force."""

    def __init__(self, client: Privacy, server: Privacy, plugin: bytes, nonce: bytes) -> None:
        self.nonce = nonce
        self._client = client
        self._server = server
        self._plugin = plugin
        self._client_turn = False  # whether the client sends next, with a plugin that sends passwords
        self._password_next = False
        self._key_next = False
        self.sent_in_clear = False
        """Whether a password was not taken for that."""

    def begins(self, auth: bytes) -> Step:
        """What to do with the first thing that the client sends, unasked, for the plugin it chose itself.

        Raises:
            ProxyError: it must not go on.
        """
        if self._plugin in _BY_SYSTEM_USER:
            return Step.CARRY  # reveals nothing about the account
        if auth not in _NO_PASSWORD:
            self._check_plugin()
        self._client_turn, self._password_next = True, self._plugin == SHA256
        return self.from_client(auth)

    def from_client(self, payload: bytes) -> Step:
        """What to do with the client's packet. Raises ProxyError."""
        if self._plugin not in _KEY_REQUESTS:
            return Step.CARRY
        in_clear = self._password_next and not self._client.private and is_clear(payload)
        self.sent_in_clear = in_clear and not self._client.confined
        taken = in_clear and self._client.confined  # it has not left the machine
        if self._client.private == self._server.private and not taken:
            return Step.CARRY
        if not self._client_turn:
            # It might be a password, sent ahead, which then would be taken for something else.
            raise FatalProtocolError(1156, "Got packets out of order (the client spoke without being asked)")
        password, self._password_next, self._client_turn = self._password_next, False, False
        if payload in _NO_PASSWORD:
            return Step.CARRY
        if not password:
            if len(payload) != _PROOF_BYTES:
                raise MalformedPacket("a proof of another length than caching_sha2_password has")
            return Step.CARRY
        if len(self.nonce) != NONCE_BYTES:
            raise BackendLost("the server sent no nonce for the password")
        if taken and self._server.private:
            return Step.CARRY
        if self._client.private or taken:
            self._key_next = True
            return Step.REQUEST_KEY
        if payload == self.key_request:
            self._client_turn = self._password_next = True
            return Step.SEND_KEY
        return Step.DECRYPT

    def from_server(self, payload: bytes) -> Step:
        """What to do with the server's packet, which is not its verdict. Raises ProxyError."""
        if payload[:1] and payload[0] in (_SWITCH, _NEXT_FACTOR):
            self._switched(payload)
        elif self._key_next and payload.startswith(b"\x01"):
            self._key_next = False
            return Step.ENCRYPT
        elif self._plugin == CACHING_SHA2 and payload == _FULL_AUTHENTICATION:
            self._client_turn = self._password_next = True
        return Step.CARRY

    @property
    def key_request(self) -> bytes:
        """How the server is asked for its key."""
        return _KEY_REQUESTS[self._plugin]

    def _switched(self, payload: bytes) -> None:
        self._plugin, _, challenge = payload[1:].partition(b"\x00")
        self._key_next = False
        self.nonce = challenge[:NONCE_BYTES]
        if self._plugin in _BY_SYSTEM_USER:
            raise ProxyError(1698, SOCKET_ACCOUNT)
        self._check_plugin()
        self._client_turn, self._password_next = True, self._plugin == SHA256

    def _check_plugin(self) -> None:
        """Refuse what would have a password go over an open connection as it is."""
        name = self._plugin.decode("ascii", "replace")
        if self._plugin in _IN_CLEAR and not (self._client.confined and self._server.confined):
            insecure_link = "to the database" if self._client.confined else "from the client"
            raise ProxyError(
                3159,
                f"Connections using insecure transport are prohibited: {name} sends the password itself, and the line"
                f" {insecure_link} is not encrypted",
            )
        supported = self._plugin in _PROOFS or self._plugin in _KEY_REQUESTS or self._plugin in _IN_CLEAR
        if not supported and self._client.private and not self._server.confined:
            raise ProxyError(
                3159,
                f"Connections using insecure transport are prohibited: {name} may send the password itself where the"
                " client's line is encrypted, and the line to the database is not",
            )
