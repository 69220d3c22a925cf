"""How clients' connections to the MySQL server are encrypted, by the backend URL's `ssl`.

A client certificate (`ssl_cert`) is for connections of the proxy's own account only. On a connection where the client
itself logs in it would vouch for someone it does not know: an account that requires one would be open to everybody who
can reach the proxy.
"""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass

from engine.backend.url import BackendUrl, SslMode


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
