"""Backend URLs: what they mean, what is refused, and that a password is never shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backend.url import BackendUrl, InvalidBackendUrl, SslMode


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("sqlite:///queue.db", "queue.db"),
        ("sqlite:////var/lib/queue.db", "/var/lib/queue.db"),
        ("sqlite:///a%20b/%3F.db", "a b/?.db"),
        ("sqlite:///:memory:", ":memory:"),
    ],
)
def test_sqlite(text, path):
    url = BackendUrl.parse(text)
    assert url.embedded and url.path == path


def test_mysql_in_full():
    url = BackendUrl.parse(
        "mysql://us%40er:p%3Aa%2Fss%25@db.example:3307/sh%20op?ssl=verify_identity&ssl_ca=/etc/ca.pem"
    )
    assert (url.embedded, url.user, url.password, url.host, url.port, url.database) == (
        False, "us@er", "p:a/ss%", "db.example", 3307, "sh op",
    )  # fmt: skip
    assert (url.ssl, url.ssl_ca, url.socket) == (SslMode.VERIFY_IDENTITY, "/etc/ca.pem", None)


def test_mysql_client_certificate_and_proxy_protocol():
    url = BackendUrl.parse("mysql://u@h/d?ssl_ca=/ca&ssl_cert=/own.pem&ssl_key=/own.key&proxy_protocol=true")
    assert (url.ssl, url.ssl_cert, url.ssl_key) == (SslMode.VERIFY_CA, "/own.pem", "/own.key")
    assert url.proxy_protocol
    assert not BackendUrl.parse("mysql://u@h/d?proxy_protocol=false").proxy_protocol
    assert not BackendUrl.parse("mysql://u@h/d").proxy_protocol


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mysql://root@127.0.0.1", ("root", "", "127.0.0.1", 3306, None)),
        ("mariadb://root:@[::1]:3307/", ("root", "", "::1", 3307, None)),
        ("mysql://root@localhost/db?socket=/run/my.sock", ("root", "", "localhost", 3306, "db")),
    ],
)
def test_mysql_defaults(text, expected):
    url = BackendUrl.parse(text)
    assert (url.user, url.password, url.host, url.port, url.database) == expected
    assert url.ssl is SslMode.PREFERRED


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a URL"),
        ("queue.db", "not a URL"),
        ("postgres://u:s3cret@h/db", "is no kind of database"),
        ("sqlite://queue.db", "three slashes"),
        ("sqlite:///", "path of a file"),
        ("sqlite:///dir/", "path of a file"),
        ("sqlite:///q.db?mode=ro", "no options"),
        ("mysql:/root@127.0.0.1/db", "'//' comes after 'mysql:'"),
        ("mysql:///db", "host is missing"),
        ("mysql://h/db", "user is missing"),
        ("mysql://u:s3cret@h:99999/db", "port"),
        ("mysql://u:s3cret@h:0/db", "port"),
        ("mysql://u:s3cret@h:port/db", "port"),
        ("mysql://u:s3c@ret@h/db", "%40"),
        ("mysql://u:s3c/ret@h/db", "written %40 %3A %2F"),
        ("mysql://u:4321/s3cret@127.0.0.1:3306/db", "written %40 %3A %2F"),
        ("mysql://u:p@s/s3cret@h/db", "written %40 %3A %2F"),
        ("mysql://u:s3c[ret@h/db", "written %40 .* %5B"),
        ("mysql://u:p?s3cret@h/db", "written %40 .* %3F"),
        ("mysql://u:p?s3cret=1@h/db", "written %40 .* %3F"),
        ("mysql://u:p@s?s3cret=1@h/db", "written %40 .* %3F"),
        ("mysql://u:p?ssl=s3cret@h/db", "written %40 .* %3F"),
        ("mysql://u:s3c#ret@h/db", "%23"),
        ("mysql://u:s3cret@h/a/b", "more than a database"),
        ("mysql://u:s3cret@h/db?tls=1", "unknown option 'tls'"),
        ("mysql://u:s3cret@h/db?ssl", "name=value|empty"),
        ("mysql://u:s3cret@h/db?ssl=maybe", "allowed are disabled"),
        ("mysql://u:s3cret@h/db?ssl=required&ssl=required", "twice"),
        ("mysql://u:s3cret@h/db?ssl=required&ssl_ca=/x", "would not be looked at"),
        ("mysql://u:s3cret@h/db?ssl=verify_ca", "needs ssl_ca"),
        ("mysql://u:s3cret@h/db?ssl_cert=/x", "ssl_cert needs ssl=required"),
        ("mysql://u:s3cret@h/db?ssl=required&ssl_key=/x", "without ssl_cert"),
        ("mysql://u:s3cret@h/db?proxy_protocol=1", "neither true nor false"),
        ("mysql://u:s3cret@h/db?socket=/s&proxy_protocol=true", "is for TCP"),
        ("mysql://[::1/db", "not a URL"),
        ("mysql://u:s3cret@db..example/db", "between dots is empty"),
        (f"mysql://u:s3cret@{'a' * 64}.example/db", "longer than 63"),
    ],
)
def test_refused_with_the_reason_and_without_the_password(text, reason):
    with pytest.raises(InvalidBackendUrl, match=reason) as caught:
        BackendUrl.parse(text)
    assert "s3c" not in str(caught.value)


def test_a_url_shows_no_password():
    url = BackendUrl.parse("mysql://user:s3cret@h/db")
    assert "s3cret" not in str(url) + repr(url)
    assert str(url) == "mysql://user:***@h:3306/db"
    assert str(BackendUrl.parse("sqlite:////a b.db")) == "sqlite:////a%20b.db"


@given(st.text(max_size=60))
def test_any_text_is_either_a_url_or_refused(text):
    for candidate in (text, f"mysql://{text}", f"mysql://u:{text}@h/d", f"sqlite:///{text}"):
        try:
            BackendUrl.parse(candidate)
        except InvalidBackendUrl:
            pass
