"""Logins where the lines matter: TLS on one or both, accounts that require it, unix sockets, the PROXY protocol."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from typing import Any

import mysql.connector
import pymysql
import pytest
from certificates import Authority
from logins import DATABASE, REQUIRES_TLS, Server, assert_gone, cli, enter, tls_of, told_by
from pymysql.constants import CLIENT
from servers import SERVER, Gate, MariaDb, Sql

# --- TLS on either line


@pytest.mark.parametrize("mode", ["ssl=disabled", "ssl=preferred", "ssl=required", "verify_ca", "verify_identity"])
def test_modes_of_the_servers_line(
    make_gate: Callable[..., Gate], server: Server, account: Callable[..., str], mode: str
) -> None:
    if mode.startswith("verify"):
        mode = f"ssl={mode}&ssl_ca={server.authority.ca}"
    gate = make_gate(mode)
    encrypted = mode not in ("ssl=disabled", "ssl=preferred")  # preferred: not towards this machine
    user = account("IDENTIFIED BY 'right'")
    for tls in ({"ssl_disabled": True}, tls_of(server)):
        assert enter(gate.port, user, tls) is encrypted
    wrong = account("IDENTIFIED BY 'other'")
    assert enter(gate.port, wrong, tls_of(server))[0] == 1045


def test_ed25519_and_native_over_all_lines(
    make_gate: Callable[..., Gate], server: Server, account: Callable[..., str]
) -> None:
    users = [
        account(f"IDENTIFIED VIA {plugin} USING PASSWORD('right')") for plugin in ("ed25519", "mysql_native_password")
    ]
    for mode in ("ssl=disabled", "ssl=required"):
        gate = make_gate(mode)
        for line in (["--skip-ssl"], ["--ssl", f"--ssl-ca={server.authority.ca}", "--ssl-verify-server-cert"]):
            for user in users:
                assert f"{user}@127.0.0.1" in cli(gate.port, user, "right", *line)
                assert "ERROR 1045" in cli(gate.port, user, "wrong", *line)


def test_accounts_that_require_tls(make_gate: Callable[..., Gate], server: Server, account: Callable[..., str]) -> None:
    """They are for clients whose own line is encrypted, and the server must see that ours is, too."""
    opened, closed = make_gate("ssl=disabled"), make_gate("ssl=required")
    user, free = account("IDENTIFIED BY 'right' REQUIRE SSL"), account("IDENTIFIED BY 'right'")
    cipher = account("IDENTIFIED BY 'right' REQUIRE CIPHER 'TLS_AES_256_GCM_SHA384'")
    plain: dict[str, Any] = {"ssl_disabled": True}
    denied = (1045, f"Access denied for user '{user}'@'127.0.0.1' (using password: YES)")
    assert enter(server.mariadb.port, user, plain) == denied
    assert enter(server.mariadb.port, user, tls_of(server)) is True
    assert enter(closed.port, user, tls_of(server)) is True
    assert enter(closed.port, user, plain) == (3159, REQUIRES_TLS)
    assert enter(closed.port, cipher, plain) == (3159, REQUIRES_TLS)
    assert enter(closed.port, free, plain) is True
    assert enter(opened.port, user, tls_of(server)) == denied
    assert enter(opened.port, user, plain) == denied


def test_accounts_that_require_tls_cannot_be_changed_to(
    make_gate: Callable[..., Gate], account: Callable[..., str]
) -> None:
    gate = make_gate("ssl=required")
    user, free = account("IDENTIFIED BY 'right' REQUIRE SSL"), account("IDENTIFIED BY 'right'")
    connection: Any = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user=free, password="right", use_pure=True, ssl_disabled=True
    )
    assert told_by(lambda: connection.cmd_change_user(user, "right"))[0] == 3159
    assert_gone(connection)
    connection.close()


def test_compressed_lines(make_gate: Callable[..., Gate], server: Server, account: Callable[..., str]) -> None:
    """The question about the account comes before the client hears of the server's OK, and behind it for the server."""
    free, strict = account("IDENTIFIED BY 'right'"), account("IDENTIFIED BY 'right' REQUIRE SSL")
    ordinary = account("IDENTIFIED BY 'right'", host="localhost")
    closed, local = make_gate("ssl=required"), make_gate(f"socket={server.mariadb.socket}")
    assert f"{free}@127.0.0.1" in cli(closed.port, free, "right", "--compress")
    assert "ERROR 3159" in cli(closed.port, strict, "right", "--compress")
    assert "ERROR" not in cli(closed.port, strict, "right", "--compress", "--ssl", f"--ssl-ca={server.authority.ca}")
    assert f"{ordinary}@localhost" in cli(local.port, ordinary, "right", "--compress")


def test_an_expired_password_over_unequal_lines(make_gate: Callable[..., Gate], account: Callable[..., str]) -> None:
    """Such an account cannot be asked about itself: it is let in, to set a password."""
    gate = make_gate("ssl=required")
    user = account("IDENTIFIED BY 'right' PASSWORD EXPIRE")
    flags = {"client_flag": CLIENT.HANDLE_EXPIRED_PASSWORDS, "autocommit": None}
    assert enter(gate.port, user, {"ssl_disabled": True}, **flags)[0] == 1820


def test_the_proxys_certificate_vouches_for_nobody_else(
    make_gate: Callable[..., Gate], server: Server, admin: Sql, account: Callable[..., str]
) -> None:
    """ssl_cert is for the engine's own account; a client's that requires one is refused by the server."""
    certificate, key = server.authority.issue("engine", "engine.example")
    admin("ALTER USER engine@'127.0.0.1' REQUIRE X509")
    try:
        gate = make_gate(f"ssl=verify_ca&ssl_ca={server.authority.ca}&ssl_cert={certificate}&ssl_key={key}")
        user = account("IDENTIFIED BY 'right' REQUIRE X509")
        for tls in ({"ssl_disabled": True}, tls_of(server)):
            assert enter(gate.port, user, tls)[0] == 1045
        free = account("IDENTIFIED BY 'right'")
        assert enter(gate.port, free, tls_of(server)) is True
        owner = Sql(gate.connect(user="root", database=DATABASE))
        owner("CREATE QUEUE certified (n INT)")
        owner("INSERT INTO certified (n) VALUES (1)")
        assert owner.rows("SELECT n FROM STREAM certified LIMIT 1 WAIT 5") == [(1,)]  # the engine's connections work
        owner("DROP QUEUE certified")
        owner.close()
    finally:
        admin("ALTER USER engine@'127.0.0.1' REQUIRE NONE")


@pytest.mark.parametrize(
    ("options", "host", "words"),
    [
        ("ssl=verify_ca&ssl_ca={other}", "127.0.0.1", "certificate verify failed"),
        ("ssl=verify_identity&ssl_ca={ca}", "localhost", "certificate"),
        pytest.param(
            "ssl=required",
            "without",
            "SSL is required",
            marks=pytest.mark.skipif(SERVER == "mysql", reason="MySQL makes itself a certificate"),
        ),
    ],
)
def test_a_gate_does_not_start_on_a_line_that_is_not_as_it_should_be(
    server: Server, mariadb: MariaDb, tmp_path: Any, options: str, host: str, words: str
) -> None:
    other = Authority(tmp_path, "another authority")
    options = options.format(ca=server.authority.ca, other=other.ca)
    url = f"{mariadb.url()}?{options}" if host == "without" else server.url(options, host)
    gate = Gate(url, tmp_path)
    with pytest.raises(AssertionError):
        gate.start()
    assert gate.process is not None and gate.process.returncode == 1
    assert words in gate.log and "secret" not in gate.log and "Traceback" not in gate.log


# --- a unix socket to the server


def test_who_the_proxy_runs_as_is_nobodys_key(
    make_gate: Callable[..., Gate], server: Server, admin: Sql, account: Callable[..., str]
) -> None:
    """Over a unix socket the server sees the proxy's user of the system, and would let every client in by it."""
    ours = pwd.getpwuid(os.geteuid()).pw_name
    admin(f"CREATE OR REPLACE USER {ours}@localhost IDENTIFIED VIA unix_socket")
    admin(f"GRANT ALL ON *.* TO {ours}@localhost")
    with pymysql.connect(unix_socket=str(server.mariadb.socket), user=ours) as direct:
        assert Sql(direct).value("SELECT CURRENT_USER()") == f"{ours}@localhost"  # so the danger is real
    gate = make_gate(f"socket={server.mariadb.socket}")
    plain: dict[str, Any] = {"ssl_disabled": True}
    for password in ("", "right"):
        with pytest.raises(pymysql.OperationalError) as caught:
            gate.connect(user=ours, password=password, **plain)
        assert caught.value.args[0] == 1698 and "operating system's user" in caught.value.args[1]
    user = account("IDENTIFIED BY 'right'", host="localhost")
    assert enter(gate.port, user, plain) is False
    assert enter(gate.port, user, tls_of(server)) is False
    assert enter(gate.port, account("IDENTIFIED BY 'other'", host="localhost"), plain)[0] == 1045
    # By COM_CHANGE_USER neither, nor where the system's user is but one of two ways, nor where it cannot be asked for.
    connection: Any = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user=user, password="right", use_pure=True, ssl_disabled=True
    )
    assert told_by(lambda: connection.cmd_change_user(ours, ""))[0] == 1698
    assert_gone(connection)
    connection.close()
    admin(
        f"CREATE OR REPLACE USER {ours}@localhost IDENTIFIED VIA mysql_native_password USING 'invalid' OR unix_socket"
    )
    admin(f"GRANT ALL ON *.* TO {ours}@localhost")
    with pytest.raises(pymysql.OperationalError) as caught:
        gate.connect(user=ours, password="", **plain)
    assert caught.value.args[0] == 1698
    expired = account("IDENTIFIED BY 'right' PASSWORD EXPIRE", host="localhost")
    assert enter(gate.port, expired, plain, client_flag=CLIENT.HANDLE_EXPIRED_PASSWORDS, autocommit=None)[0] == 1698
    admin(f"CREATE OR REPLACE USER {ours}@localhost")
    admin(f"GRANT ALL ON *.* TO {ours}@localhost WITH GRANT OPTION")


# --- the PROXY protocol


@pytest.mark.parametrize("ssl", ["ssl=disabled", "ssl=required"])
def test_the_server_sees_the_clients_own_addresses(
    make_gate: Callable[..., Gate], server: Server, admin: Sql, account: Callable[..., str], ssl: str
) -> None:
    gate = make_gate(f"{ssl}&proxy_protocol=true")
    user = account("IDENTIFIED BY 'right'", host="127.0.0.2")
    options: dict[str, Any] = {"host": "127.0.0.1", "user": user, "password": "right", "ssl_disabled": True}
    with pymysql.connect(**options, port=gate.port, bind_address="127.0.0.2") as connection:
        sql = Sql(connection)
        assert sql.value("SELECT USER()") == f"{user}@127.0.0.2"
        host = sql.value("SELECT host FROM information_schema.processlist WHERE id = CONNECTION_ID()")
        assert host == "{}:{}".format(*connection._sock.getsockname())
    for port, source in ((gate.port, "127.0.0.3"), (make_gate("ssl=disabled").port, "127.0.0.2")):
        with pytest.raises(pymysql.OperationalError) as caught:
            pymysql.connect(**options, port=port, bind_address=source)
        assert caught.value.args[0] in (1045, 1130, 1698)
    owner = Sql(gate.connect(user="root", database=DATABASE, ssl_disabled=True))
    owner("CREATE OR REPLACE TABLE t (n INT)")
    owner("DROP TABLE t")
    assert owner.value("SELECT USER()") == "root@127.0.0.1"
    owner.close()
