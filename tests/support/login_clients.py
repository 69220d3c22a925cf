"""Accounts, a certificate, and a client that speaks packets by hand: for the suites that log in."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from wire_peers import packet

from mysql_wire.flags import CACHE_METADATA, COMPRESS, CONNECT_ATTRS, CONNECT_WITH_DB, OPTIONAL_METADATA
from mysql_wire.login import Credentials, encode_response, parse_greeting
from proxy.login.accounts import CACHING_SHA2, Account

# HEX(authentication_string) of a MySQL 8 account IDENTIFIED WITH caching_sha2_password BY 'foobar'.
FOOBAR = bytes.fromhex(
    "24412430303524031A69251C34295C4B35167C7F1E5A7B63091349"
    "503974624D34504B5A424679354856336868686F52485A736E4A733368786E427575516C73446469496537"
)
# What SELECT PASSWORD('geheim') prints.
GEHEIM = "*" + sha1(sha1(b"geheim").digest()).hexdigest().upper()


def accounts() -> tuple[Account, ...]:
    return (
        Account.with_password("plain", "geheim"),
        Account.with_hash("native", GEHEIM),
        Account.with_hash("salted", FOOBAR),
        Account.with_password("open", ""),
    )


def certificate(directory: Path) -> Path:
    """A self-signed one for 127.0.0.1, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    no_secret = serialization.NoEncryption()
    pem += key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, no_secret)
    path = directory / "server.pem"
    path.write_bytes(pem)
    return path


class RawClient:
    """Speaks packets by hand."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.file = self.socket.makefile("rb")
        self.seq = 0
        self.greeting = self.receive()

    def receive(self) -> bytes:
        header = self.file.read(4)
        if len(header) < 4:
            return b""
        self.seq = header[3] + 1
        return self.file.read(int.from_bytes(header[:3], "little"))

    def send(self, payload: bytes, seq: int | None = None) -> None:
        self.socket.sendall(packet(payload, self.seq if seq is None else seq))

    def login(self, user: str, auth: bytes, plugin: str = CACHING_SHA2) -> bytes:
        further = CONNECT_WITH_DB | CONNECT_ATTRS | OPTIONAL_METADATA | CACHE_METADATA | COMPRESS
        capabilities = parse_greeting(self.greeting).capabilities & ~further
        self.send(encode_response(Credentials(user.encode(), auth, None, plugin.encode(), capabilities, 45)))
        return self.receive()

    def close(self) -> None:
        self.file.close()
        self.socket.close()
