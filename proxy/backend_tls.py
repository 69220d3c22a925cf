"""How clients' lines to the MySQL server are encrypted, as the backend URL's `ssl` says."""

from __future__ import annotations

import ipaddress
import ssl

from engine.backend.url import BackendUrl, SslMode
from proxy.handshake import BackendTls


def backend_tls(url: BackendUrl) -> BackendTls | None:
    """What `carry_authentication` is to do; None: the line stays open.

    `preferred` encrypts wherever the server offers it, except towards this machine, where nobody listens in and every
    statement would pay for it.
    """
    if url.ssl is SslMode.DISABLED or url.socket is not None:
        return None
    if url.ssl is SslMode.PREFERRED and _loopback(url.host):
        return None
    context = ssl.create_default_context(cafile=url.ssl_ca)
    context.check_hostname = url.ssl is SslMode.VERIFY_IDENTITY
    if url.ssl in (SslMode.PREFERRED, SslMode.REQUIRED):
        context.verify_mode = ssl.CERT_NONE  # as MySQL's own clients: these modes encrypt and do not verify
    name = url.host if url.ssl is SslMode.VERIFY_IDENTITY else None
    return BackendTls(context, name, required=url.ssl is not SslMode.PREFERRED)


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
