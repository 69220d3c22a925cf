"""How clients' connections to the MySQL server are encrypted, by the backend URL's `ssl`.

A client certificate (`ssl_cert`) is for connections of the proxy's own account only. On a connection where the client
itself logs in it would vouch for someone it does not know: an account that requires one would be open to everybody who
can reach the proxy.
"""

from __future__ import annotations

import ipaddress
import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

from engine.backend.url import BackendUrl, SslMode

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BackendTls:
    """How to encrypt the connection to the server. Not `required`: only if the server offers it."""

    context: ssl.SSLContext
    server_hostname: str | None = None
    required: bool = True


def backend_tls(url: BackendUrl, *, own: bool = False) -> BackendTls | None:
    """What `carry_authentication` is to do; None: the connection stays open. `own`: the proxy's own account logs in,
    with its certificate if it has one.

    `preferred` encrypts wherever the server offers it, except towards this machine, where no one listens in and every
    statement would pay for it.

    Raises:
        OSError: the CA's certificate cannot be read.
    """
    if url.ssl is SslMode.DISABLED or url.socket is not None:
        return None
    if url.ssl is SslMode.PREFERRED and _loopback(url.host):
        return None
    context = ssl.create_default_context(cafile=url.ssl_ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # a distribution's Python may leave it to the system
    context.check_hostname = url.ssl is SslMode.VERIFY_IDENTITY
    if url.ssl in (SslMode.PREFERRED, SslMode.REQUIRED):
        context.verify_mode = ssl.CERT_NONE  # as MySQL's own clients: these modes encrypt and do not verify
    if own and url.ssl_cert is not None:
        context.load_cert_chain(url.ssl_cert, url.ssl_key, password="")
    # The name is sent in every mode: some servers share one address and are selected by it.
    return BackendTls(context, url.host, required=url.ssl is not SslMode.PREFERRED)


class RenewedBackendTls:
    """`backend_tls` of a URL, for each new connection: made again once a file that the URL names was replaced. Where
    the new files cannot be used, this is logged, and the old ones stay in force."""

    def __init__(self, url: BackendUrl, *, own: bool = False) -> None:
        """Raises OSError: a file cannot be used."""
        self._url, self._own = url, own
        self._versions = self._versions_now()
        self._tls = backend_tls(url, own=own)

    def current(self) -> BackendTls | None:
        """What the next connection is to do."""
        versions = self._versions_now()
        if versions != self._versions:
            self._versions = versions
            try:
                self._tls = backend_tls(self._url, own=self._own)
            except OSError as error:  # ssl's own errors are OSErrors too
                log.error("the database's TLS files were not renewed, the old ones stay", extra={"reason": error})
            else:
                log.info("the database's TLS files were read again")
        return self._tls

    def _versions_now(self) -> list[tuple[int, int, int] | None]:
        paths = (self._url.ssl_ca, *((self._url.ssl_cert, self._url.ssl_key) if self._own else ()))
        return [_version(path) for path in paths if path is not None]


def _version(path: str) -> tuple[int, int, int] | None:
    """Differs once the file was written or replaced; None: there is none."""
    try:
        file = Path(path).stat()
    except OSError:
        return None
    return file.st_ino, file.st_size, file.st_mtime_ns


def backend_tls_mistake(url: BackendUrl) -> str | None:
    """What is wrong with the files that the URL names, if anything; without secrets."""
    for option, path in (("ssl_ca", url.ssl_ca), ("ssl_cert", url.ssl_cert)):
        if path is None:
            continue
        try:
            if option == "ssl_ca":
                ssl.create_default_context(cafile=path)
            else:
                # A passphrase would be asked for on the terminal.
                ssl.create_default_context().load_cert_chain(path, url.ssl_key, password="")
        except OSError as error:  # ssl's own errors are OSErrors too
            return f"{option}={path}: {getattr(error, 'reason', None) or error.strerror or 'not valid PEM'}"
    return None


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
