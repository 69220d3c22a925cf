"""How lines to the server are encrypted, by the URL's `ssl`."""

from __future__ import annotations

import ssl

import pytest

from engine.backend.url import BackendUrl, SslMode
from proxy.gateway import backend_tls


@pytest.mark.parametrize("mode", ["disabled", "preferred"])
def test_plain_unless_asked_for(mode: str) -> None:
    assert backend_tls(BackendUrl.parse(f"mysql://u@db/x?ssl={mode}")) is None


def test_required_encrypts_and_trusts_any_certificate() -> None:
    tls = backend_tls(BackendUrl.parse("mysql://u@db/x?ssl=required"))
    assert tls is not None and tls.required
    assert (tls.context.verify_mode, tls.context.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize(("mode", "checks_name"), [(SslMode.VERIFY_CA, False), (SslMode.VERIFY_IDENTITY, True)])
def test_verifying_modes_verify(mode: SslMode, checks_name: bool) -> None:
    tls = backend_tls(BackendUrl(embedded=False, host="db", ssl=mode))  # no file given: the system's authorities
    assert tls is not None and tls.required
    assert (tls.context.verify_mode, tls.context.check_hostname) == (ssl.CERT_REQUIRED, checks_name)
    assert tls.server_hostname == "db"
