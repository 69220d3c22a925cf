"""TLS towards clients: whether it is offered, with which certificate, and how a renewed one takes effect.

Rules: the context is made once and shared by all connections; `reload` makes a new one, for logins to come. A
certificate that cannot be used is refused with one line of explanation; at a reload that connection is logged and the
old one stays.
"""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from ssl import SSLContext

from cryptography import x509

log = logging.getLogger(__name__)

_FILE_MAX_BYTES = 1 << 20  # a chain of a dozen certificates takes some 30 KB; more is the wrong file


class TlsMode(Enum):
    """Whether clients may, or must, encrypt their connections."""

    OFF = "off"
    OFFERED = "offered"
    REQUIRED = "required"


class InvalidCertificate(Exception):
    """Certificate and key cannot be used; `in_key`: the key is at fault, not the certificate."""

    def __init__(self, reason: str, *, in_key: bool = False) -> None:
        super().__init__(reason)
        self.in_key = in_key


@dataclass(frozen=True, slots=True)
class OfferedTls:
    """What one login is offered. `required`: a client that goes on in clear text is refused."""

    context: SSLContext
    required: bool = False
    expires: datetime | None = None
    """The end of the certificate's time."""


class ClientTls:
    """See the module. `offered` is what the next login is to be offered; None: nothing."""

    def __init__(self, mode: TlsMode = TlsMode.OFF, certificate: str | None = None, key: str | None = None) -> None:
        """Raises InvalidCertificate."""
        self._mode = mode
        self._certificate = certificate
        self._key = key
        self.offered: OfferedTls | None = self._load()

    def reload(self) -> None:
        """Read the files again, as SIGHUP asks for."""
        try:
            self.offered = self._load()
        except InvalidCertificate as error:
            log.error("the TLS certificate was not renewed, the old one stays", extra={"reason": error})
            return
        if self.offered is None:
            log.info("nothing to reload: tls.mode is off")

    def _load(self) -> OfferedTls | None:
        if self._mode is TlsMode.OFF or self._certificate is None:
            return None
        context, leaf = load_certificate(self._certificate, self._key)
        facts = {"mode": self._mode.value, "certificate": self._certificate, "until": leaf.not_valid_after_utc}
        trouble = untimely(leaf, datetime.now(UTC))
        if trouble is None:
            log.info("TLS certificate loaded", extra=facts)
        else:
            log.warning("the TLS certificate %s: clients that verify it will refuse it", trouble, extra=facts)
        return OfferedTls(context, self._mode is TlsMode.REQUIRED, leaf.not_valid_after_utc)


def load_certificate(certificate: str, key: str | None = None) -> tuple[SSLContext, x509.Certificate]:
    """A server's context with that certificate, and the certificate itself; `key` may be inside its file.

    Raises:
        InvalidCertificate: it cannot be used.
    """
    data = _read(certificate)
    leaf = _leaf(certificate, data)
    if b"PRIVATE KEY-----" not in (data if key is None else _read(key, in_key=True)):
        where = f"not given, and {certificate} holds none either" if key is None else f"{key}: holds no PEM private key"
        raise InvalidCertificate(where, in_key=True)
    context = SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # a client could have us compute handshakes for ever
    refusal = _PassphraseRefusal()
    try:
        context.load_cert_chain(certificate, key, password=refusal)
    except OSError as error:  # ssl's own errors are OSErrors too
        raise InvalidCertificate(f"{key or certificate}: {_why(error, refusal)}", in_key=True) from error
    return context, leaf


def untimely(leaf: x509.Certificate, now: datetime) -> str | None:
    """What is wrong with the certificate's dates, if anything."""
    if now > leaf.not_valid_after_utc:
        return f"has expired on {leaf.not_valid_after_utc:%Y-%m-%d}"
    if now < leaf.not_valid_before_utc:
        return f"is not valid before {leaf.not_valid_before_utc:%Y-%m-%d}"
    return None


class _PassphraseRefusal:
    """The passphrase callback, which refuses; it records that it was called."""

    requested = False

    def __call__(self) -> str:
        self.requested = True
        return ""


def _read(path: str, *, in_key: bool = False) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(_FILE_MAX_BYTES + 1)
    except OSError as error:
        raise InvalidCertificate(f"{path}: {error.strerror}", in_key=in_key) from error
    if len(data) > _FILE_MAX_BYTES:
        raise InvalidCertificate(f"{path}: larger than a megabyte; this is no PEM file", in_key=in_key)
    return data


def _leaf(path: str, data: bytes) -> x509.Certificate:
    """The first certificate of the file, which is the server's own."""
    if b"-----BEGIN CERTIFICATE-----" not in data:
        raise InvalidCertificate(f"{path}: holds no PEM certificate")
    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError as error:
        raise InvalidCertificate(f"{path}: the certificate cannot be read") from error


def _why(error: OSError, passphrase: _PassphraseRefusal) -> str:
    if passphrase.requested:
        return "the private key is encrypted; the proxy starts without anybody to ask, give it one that is not"
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return "the private key does not belong to the certificate"
    return f"certificate and key cannot be used: {reason or error.strerror or 'not valid PEM'}"
