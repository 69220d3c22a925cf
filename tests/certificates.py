"""Certificates for the suites: an authority of a test's own, and what it signs. All keys are P-256, made in no time."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_PEM = serialization.Encoding.PEM


class Authority:
    """A CA. `ca` is its certificate's file; `issue` makes files of certificate and key in `directory`."""

    def __init__(self, directory: Path, name: str = "test authority") -> None:
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._number = 1
        self.ca = directory / f"{name.replace(' ', '-')}.pem"
        certificate = self._builder(self._name, 365).public_key(self._key.public_key())
        certificate = certificate.add_extension(x509.BasicConstraints(True, 0), critical=True)
        self.ca.write_bytes(certificate.sign(self._key, hashes.SHA256()).public_bytes(_PEM))

    def issue(
        self, stem: str, *names: str, days: int = 30, password: bytes | None = None, together: bool = False
    ) -> tuple[Path, Path]:
        """A certificate for these host names and addresses; one that is valid for minus `days` has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, stem)])
        builder = self._builder(subject, days).public_key(key.public_key())
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), False)
        pem = builder.sign(self._key, hashes.SHA256()).public_bytes(_PEM)
        hidden = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        secret = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, hidden)
        certificate, key_file = self.directory / f"{stem}.pem", self.directory / f"{stem}.key"
        certificate.write_bytes(pem + (secret if together else b""))
        key_file.write_bytes(secret)
        return certificate, key_file

    def _builder(self, subject: x509.Name, days: int) -> x509.CertificateBuilder:
        self._number += 1
        now = datetime.now(UTC)
        begin, end = sorted((now - timedelta(400), now + timedelta(days)))
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name)
        return builder.serial_number(self._number).not_valid_before(begin).not_valid_after(end)


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
