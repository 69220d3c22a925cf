"""Certificates for clients' lines: what is accepted, what is refused with which words, renewal; the configuration."""

from __future__ import annotations

import logging
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from certificates import Authority

from engine.backend.url import BackendUrl
from proxy.config import Config, ConfigError, load
from proxy.login.backend_tls import RenewedBackendTls, backend_tls_mistake
from proxy.login.client_tls import ClientTls, InvalidCertificate, TlsMode, load_certificate, untimely


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def configured(tmp_path: Path, **tls: Any) -> Config:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump({"tls": tls}))
    return load(file, environment={})


def mistakes(tmp_path: Path, **tls: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, **tls)
    return caught.value.mistakes


# --- files


@pytest.mark.parametrize("together", [True, False])
def test_key_in_a_file_of_its_own_or_in_the_certificates(authority: Authority, together: bool) -> None:
    certificate, key = authority.issue("server", "127.0.0.1", together=together)
    context, leaf = load_certificate(str(certificate), None if together else str(key))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_NONE
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert leaf.subject.rfc4514_string() == "CN=server"


def test_what_cannot_be_used_is_refused_by_name(authority: Authority, tmp_path: Path) -> None:
    certificate, key = (str(path) for path in authority.issue("server"))
    other = str(authority.issue("other")[1])
    locked = str(authority.issue("locked", password=b"secret")[1])
    rubbish, empty, broken = tmp_path / "rubbish", tmp_path / "empty", tmp_path / "broken"
    rubbish.write_bytes(b"\x00\xff" * 100)
    empty.write_bytes(b"")
    broken.write_text(Path(certificate).read_text()[:200] + "\n-----END CERTIFICATE-----\n")
    cases = [
        ((str(tmp_path / "none"), key), "certificate: {tmp}/none: No such file or directory"),
        ((str(tmp_path), key), "certificate: {tmp}: Is a directory"),
        ((str(rubbish), key), "certificate: {tmp}/rubbish: holds no PEM certificate"),
        ((str(broken), key), "certificate: {tmp}/broken: the certificate cannot be read"),
        ((certificate, str(tmp_path / "none")), "key: {tmp}/none: No such file or directory"),
        ((certificate, str(empty)), "key: {tmp}/empty: holds no PEM private key"),
        ((certificate, None), "key: not given, and {tmp}/server.pem holds none either"),
        ((certificate, other), "key: {tmp}/other.key: the private key does not belong to the certificate"),
        ((certificate, locked), "key: {tmp}/locked.key: the private key is encrypted"),
    ]
    for (first, second), expected in cases:
        given = {"certificate": first, **({} if second is None else {"key": second})}
        found = mistakes(tmp_path, **given)
        assert len(found) == 1
        assert found[0].startswith("tls." + expected.format(tmp=tmp_path)), found
        assert "\n" not in found[0] and "secret" not in found[0]


def test_a_file_that_is_no_certificate_at_all_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(InvalidCertificate, match="larger than a megabyte"):
        load_certificate(str(tmp_path / "large"))


def test_dates(authority: Authority) -> None:
    leaf = load_certificate(str(authority.issue("server", days=30, together=True)[0]))[1]
    now = datetime.now(UTC)
    assert untimely(leaf, now) is None
    assert str(untimely(leaf, now + timedelta(31))).startswith("has expired on 20")
    assert str(untimely(leaf, now - timedelta(401))).startswith("is not valid before 20")


def test_an_expired_certificate_serves_with_a_warning(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    certificate, _ = authority.issue("old", days=-3, together=True)
    assert configured(authority.directory, certificate=str(certificate)).tls.load().offered is not None
    [record] = caplog.records
    assert record.levelno == logging.WARNING and "has expired" in record.getMessage()


# --- renewal


def test_a_renewed_certificate_is_for_logins_to_come(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    certificate, _ = authority.issue("server", together=True)
    tls = ClientTls(TlsMode.REQUIRED, str(certificate))
    first = tls.offered
    assert first is not None and first.required
    authority.issue("server", together=True)
    tls.reload()
    second = tls.offered
    assert second is not None and second.required and second.context is not first.context
    certificate.write_text("half a")
    tls.reload()
    assert tls.offered is second
    certificate.unlink()
    tls.reload()
    assert tls.offered is second
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [str(record.__dict__["reason"]).rpartition(": ")[2] for record in errors] == [
        "holds no PEM certificate",
        "No such file or directory",
    ]


def test_replaced_files_of_the_backend_url(authority: Authority) -> None:
    """Those that are in use count: a client's own login has no certificate of the proxy."""
    certificate, key = authority.issue("own")
    url = BackendUrl.parse(f"mysql://u@db/d?ssl_ca={authority.ca}&ssl_cert={certificate}&ssl_key={key}")
    own, of_client = RenewedBackendTls(url, own=True), RenewedBackendTls(url)
    before, clients = own.current(), of_client.current()
    assert own.current() is before
    certificate.write_text("half a")
    assert own.current() is before
    authority.issue("own")
    assert own.current() is not before and of_client.current() is clients
    authority.ca.write_bytes(Authority(authority.directory, "another").ca.read_bytes())
    assert of_client.current() is not clients


def test_nothing_to_renew() -> None:
    tls = ClientTls()
    tls.reload()
    assert tls.offered is None


# --- configuration


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"certificate": True}, False),
        ({"mode": "offered", "certificate": True}, False),
        ({"mode": "required", "certificate": True}, True),
        ({"mode": "off", "certificate": True}, None),
        ({"mode": False, "certificate": True}, None),  # what YAML makes of a bare `off`
        ({"mode": "off"}, None),
    ],
)
def test_mode(authority: Authority, given: dict[str, Any], expected: bool | None) -> None:
    if "certificate" in given:
        given = {**given, "certificate": str(authority.issue("server", together=True)[0])}
    offered = configured(authority.directory, **given).tls.load().offered
    assert (None if offered is None else offered.required) is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"mode": "required"}, "tls.mode: required needs tls.certificate"),
        ({"mode": "offered"}, "tls.mode: offered needs tls.certificate"),
        ({"key": "/x"}, "tls.key: given without tls.certificate"),
        ({"mode": True}, "tls.mode: is none of off, offered, required"),
        ({"mode": "preferred"}, "tls.mode: is none of off, offered, required"),
        ({"ca": "/x"}, "tls.ca: unknown key; allowed: mode, certificate, key"),
        ({"certificate": 3}, "tls.certificate: must be text; quote it if it looks like a number"),
    ],
)
def test_mistakes_of_the_section(tmp_path: Path, given: dict[str, Any], expected: str) -> None:
    assert mistakes(tmp_path, **given) == [expected]


def test_files_of_the_backend_url(authority: Authority) -> None:
    certificate, key = authority.issue("own")
    locked = authority.issue("locked", password=b"secret")[1]

    def mistake(options: str) -> str | None:
        url = load(None, {"backend": f"mysql://u@h/d?{options}"}, {}).backend
        return backend_tls_mistake(url)

    assert mistake(f"ssl_ca={authority.ca}&ssl_cert={certificate}&ssl_key={key}") is None
    for options, expected in {
        "ssl_ca=/none": "backend: ssl_ca=/none: No such file or directory",
        f"ssl_ca={key}": f"backend: ssl_ca={key}: ",
        f"ssl=required&ssl_cert={certificate}": f"backend: ssl_cert={certificate}: ",
        f"ssl=required&ssl_cert={certificate}&ssl_key={locked}": f"backend: ssl_cert={certificate}: ",
    }.items():
        with pytest.raises(ConfigError) as caught:
            mistake(options)
        assert len(caught.value.mistakes) == 1 and caught.value.mistakes[0].startswith(expected)
