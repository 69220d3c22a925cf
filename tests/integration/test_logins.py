"""Logins of every kind, directly and through the gate: the same errno, SQLSTATE and message, or the same session.

The command-line client tells all three and knows every plugin; the others are for what it cannot do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mysql.connector
import pymysql
import pytest
from logins import DATABASE, HINT, WHO, Server, cli, fetched, told_by
from pymysql.constants import CLIENT
from servers import Gate, Sql, wait_until

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def gate(make_gate: Callable[..., Gate]) -> Gate:
    """Open lines to the server; TLS offered to clients."""
    return make_gate()


Both = Callable[..., str]


@pytest.fixture
def both(gate: Gate, server: Server) -> Both:
    """Log in directly, then through the gate: the same is told. `before` is done before each."""

    def ask(user: str, password: str, *options: str, sql: str = WHO, before: Callable[[], Any] = lambda: None) -> str:
        before()
        direct = cli(server.mariadb.port, user, password, *options, sql=sql)
        before()
        through = cli(gate.port, user, password, *options, sql=sql)
        assert through.replace(HINT, "") == direct  # a server may pretend that an unknown name is any kind of account
        return direct

    return ask


# --- passwords and plugins


def test_right_wrong_and_no_password(both: Both, account: Callable[..., str]) -> None:
    user = account("IDENTIFIED BY 'right'")
    assert f"{user}@127.0.0.1\t{user}@127.0.0.1\tNULL\tNULL" in both(user, "right")
    assert f"ERROR 1045 (28000): Access denied for user '{user}'@'127.0.0.1' (using password: YES)" in both(
        user, "wrong"
    )
    assert "(using password: NO)" in both(user, "")
    assert "(using password: YES)" in both("nobody", "right")
    assert "(using password: NO)" in both("nobody", "")
    assert "ERROR 1045" in both(user + "x", "right")


@pytest.mark.parametrize(
    "identified",
    [
        "VIA mysql_native_password USING PASSWORD('right')",
        "VIA ed25519 USING PASSWORD('right')",
        "VIA ed25519 USING PASSWORD('other') OR mysql_native_password USING PASSWORD('right')",
        "VIA mysql_native_password USING PASSWORD('other') OR ed25519 USING PASSWORD('right')",
        "VIA mysql_old_password USING '5d2e19393cc5ef67'",
    ],
    ids=["native", "ed25519", "ed25519-or-native", "native-or-ed25519", "old"],
)
def test_every_plugin(both: Both, account: Callable[..., str], identified: str) -> None:
    user = account(f"IDENTIFIED {identified}")
    told = both(user, "right")
    assert (user in told and "ERROR" not in told) or "mysql_old_password" in identified
    assert "ERROR" in both(user, "wrong")
    assert "ERROR" in both(user, "")
    both(user, "right", "--default-auth=client_ed25519")
    both(user, "right", "--default-auth=mysql_native_password")


def test_an_empty_password(both: Both, account: Callable[..., str]) -> None:
    user = account("")
    assert "ERROR" not in both(user, "")
    assert "ERROR 1045" in both(user, "something")


def test_accounts_of_the_systems_users_are_refused(
    gate: Gate, server: Server, account: Callable[..., str], both: Both
) -> None:
    """The server's own words, and why."""
    user = account("IDENTIFIED VIA unix_socket")
    direct, through = cli(server.mariadb.port, user, ""), cli(gate.port, user, "")
    assert direct == f"ERROR 1698 (28000): Access denied for user '{user}'@'127.0.0.1'\n"
    assert through == direct.rstrip() + HINT + "\n"
    either = account("IDENTIFIED VIA mysql_native_password USING PASSWORD('right') OR unix_socket")
    assert "ERROR" not in both(either, "right")
    assert HINT in cli(gate.port, either, "wrong")


def test_a_dialog(both: Both, admin: Sql, account: Callable[..., str]) -> None:
    """PAM asks, the client answers: the plugin sends passwords as they are, and both lines stay in this machine."""
    try:
        admin("INSTALL SONAME 'auth_pam_v1'")
    except pymysql.MySQLError as error:
        pytest.skip(f"no PAM plugin: {error}")
    try:
        told = both(account("IDENTIFIED VIA pam USING 'other'", name="nobody"), "right")
        assert "ERROR 1045 (28000): Access denied for user 'nobody'@'127.0.0.1'" in told
    finally:
        admin("UNINSTALL SONAME 'auth_pam_v1'")


# --- what becomes of accounts


def test_an_account_of_this_moment(both: Both, admin: Sql, account: Callable[..., str]) -> None:
    user = account("IDENTIFIED BY 'first'")
    assert "ERROR" not in both(user, "first")
    admin(f"ALTER USER {user}@'127.0.0.1' IDENTIFIED BY 'second'")
    assert "ERROR 1045" in both(user, "first")
    assert "ERROR" not in both(user, "second")
    admin(f"RENAME USER {user}@'127.0.0.1' TO {user}_new@'127.0.0.1'")
    assert "ERROR 1045" in both(user, "second")
    assert "ERROR" not in both(f"{user}_new", "second")
    admin(f"DROP USER {user}_new@'127.0.0.1'")
    assert "ERROR 1045" in both(f"{user}_new", "second")


def test_a_locked_account(both: Both, admin: Sql, account: Callable[..., str]) -> None:
    user = account("IDENTIFIED BY 'right' ACCOUNT LOCK")
    assert "ERROR 4151 (HY000): Access denied, this account is locked" in both(user, "right")
    assert "ERROR" in both(user, "wrong")
    admin(f"ALTER USER {user}@'127.0.0.1' ACCOUNT UNLOCK")
    assert "ERROR" not in both(user, "right")


def test_an_account_that_was_guessed_at(
    gate: Gate, server: Server, admin: Sql, account: Callable[..., str], request: pytest.FixtureRequest
) -> None:
    """max_password_errors: after three wrong ones the right one is refused, too."""
    told = {}
    admin("SET GLOBAL max_password_errors = 3")
    request.addfinalizer(lambda: Sql(server.mariadb.connect())("SET GLOBAL max_password_errors = 4294967295"))
    for port in (server.mariadb.port, gate.port):
        user = account("IDENTIFIED BY 'right'", name="guessed")
        told[port] = [cli(port, user, password) for password in ("wrong", "wrong", "wrong", "right")]
    assert told[gate.port] == told[server.mariadb.port]
    assert "ERROR 4150" in told[gate.port][-1]


def test_hosts(both: Both, admin: Sql, account: Callable[..., str]) -> None:
    for host, allowed in {"127.0.0.%": True, "%": True, "127.0.0.0/255.255.255.0": True, "10.%": False}.items():
        user = account("IDENTIFIED BY 'right'", host=host)
        told = both(user, "right")
        assert (f"{user}@{host}" in told) is allowed, told
        assert ("ERROR 1045" in told) is not allowed


def test_databases_and_roles(both: Both, admin: Sql, account: Callable[..., str]) -> None:
    user = account("IDENTIFIED BY 'right'")
    assert f"\t{DATABASE}\tNULL" in both(user, "right", DATABASE)
    assert "ERROR 1044 (42000)" in both(user, "right", "forbidden")
    assert "ERROR 1044 (42000)" in both(user, "right", "nowhere")
    admin(f"GRANT SELECT ON *.* TO {user}@'127.0.0.1'")
    assert "ERROR 1049 (42000): Unknown database 'nowhere'" in both(user, "right", "nowhere")
    admin("CREATE OR REPLACE ROLE reader")
    admin(f"GRANT reader TO {user}@'127.0.0.1'")
    admin(f"SET DEFAULT ROLE reader FOR {user}@'127.0.0.1'")
    assert both(user, "right").rstrip().endswith("\treader")


def test_names_and_passwords_of_other_scripts(gate: Gate, server: Server, account: Callable[..., str]) -> None:
    user = account("IDENTIFIED BY 'пароль €'", name="ключница")
    for port in (server.mariadb.port, gate.port):
        with pymysql.connect(
            host="127.0.0.1", port=port, user=user, password="пароль €".encode(), ssl_disabled=True
        ) as connection:
            assert Sql(connection).value("SELECT USER()") == "ключница@127.0.0.1"


def test_an_init_connect_that_fails(both: Both, admin: Sql, account: Callable[..., str]) -> None:
    user = account("IDENTIFIED BY 'right'")
    admin("SET GLOBAL init_connect = 'nonsense'")
    try:
        assert "ERROR 1184 (08S01)" in both(user, "right")
    finally:
        admin("SET GLOBAL init_connect = ''")


# --- how many


def test_connections_of_one_account(gate: Gate, server: Server, admin: Sql, account: Callable[..., str]) -> None:
    told: dict[int, list[str]] = {}
    for port in (server.mariadb.port, gate.port):
        user = account("IDENTIFIED BY 'right' WITH MAX_USER_CONNECTIONS 1", name="single")
        with pymysql.connect(host="127.0.0.1", port=port, user=user, password="right", ssl_disabled=True):
            told[port] = [cli(port, user, "right")]
        wait_until(lambda: admin.value("SELECT COUNT(*) FROM information_schema.processlist WHERE user='single'") == 0)
        told[port].append(cli(port, user, "right"))
        account("IDENTIFIED BY 'right' WITH MAX_CONNECTIONS_PER_HOUR 1", name="hourly")
        told[port] += [cli(port, "hourly", "right") for _ in range(2)]
    assert told[gate.port] == told[server.mariadb.port]
    refused, allowed, first, second = told[gate.port]
    assert "ERROR 1226 (42000): User 'single' has exceeded the 'max_user_connections' resource" in refused
    assert "ERROR" not in allowed + first
    assert "ERROR 1226 (42000)" in second and "max_connections_per_hour" in second


def test_a_server_that_is_full(gate: Gate, server: Server, admin: Sql, account: Callable[..., str]) -> None:
    """It refuses before it greets, and without a SQLSTATE."""
    user = account("IDENTIFIED BY 'right'")
    before = admin.value("SELECT @@max_connections")
    admin("SET GLOBAL max_connections = 10")
    held = []
    try:
        with pytest.raises(pymysql.OperationalError, match="Too many connections"):
            for _ in range(20):
                held.append(pymysql.connect(host="127.0.0.1", port=server.mariadb.port, user=user, password="right"))
        direct, through = cli(server.mariadb.port, user, "right"), cli(gate.port, user, "right")
        assert through == direct
        assert "ERROR 1040 (" in through
    finally:
        for connection in held:
            connection.close()
        admin(f"SET GLOBAL max_connections = {before}")


# --- expired passwords


def test_an_expired_password(gate: Gate, server: Server, account: Callable[..., str]) -> None:
    told: dict[int, list[Any]] = {}
    for port in (server.mariadb.port, gate.port):
        user = account("IDENTIFIED BY 'right' PASSWORD EXPIRE", name="expired")
        connection = pymysql.connect(
            host="127.0.0.1", port=port, user=user, password="right", ssl_disabled=True,
            client_flag=CLIENT.HANDLE_EXPIRED_PASSWORDS, autocommit=None,
        )  # fmt: skip
        sql = Sql(connection)
        told[port] = [sql.error("SELECT 1"), sql.error("SELECT * FROM STREAM q LIMIT 1"), sql.error(f"USE {DATABASE}")]
        sql("SET PASSWORD = PASSWORD('fresh')")
        told[port].append(sql.value("SELECT 1"))
        sql.close()
        told[port].append(cli(port, user, "fresh"))
    direct, through = told[server.mariadb.port], told[gate.port]
    assert direct[0] == through[0] and direct[0][0] == 1820
    assert through[1][0] != 0 and direct[2:] == through[2:]
    assert direct[3] == 1 and "ERROR" not in direct[4]


def test_an_expired_password_and_a_server_that_hangs_up(
    gate: Gate, server: Server, admin: Sql, account: Callable[..., str]
) -> None:
    user = account("IDENTIFIED BY 'right' PASSWORD EXPIRE")
    admin("SET GLOBAL disconnect_on_expired_password = ON")
    try:
        refused = []
        for port in (server.mariadb.port, gate.port):
            with pytest.raises(pymysql.OperationalError) as caught:
                pymysql.connect(host="127.0.0.1", port=port, user=user, password="right", ssl_disabled=True)
            refused.append(caught.value.args)
        assert refused[0] == refused[1]
        assert refused[0][0] == 1862
    finally:
        admin("SET GLOBAL disconnect_on_expired_password = OFF")


# --- COM_CHANGE_USER


@pytest.mark.parametrize("pure", [True, False], ids=["pure", "c"])
def test_change_user(gate: Gate, server: Server, admin: Sql, account: Callable[..., str], pure: bool) -> None:
    """To others and back, to who does not exist, to a database that is not allowed: and what the session is then."""
    first, second = account("IDENTIFIED BY 'one'"), account("IDENTIFIED BY 'two'")
    socket_user = account("IDENTIFIED VIA unix_socket")
    locked = account("IDENTIFIED BY 'right' ACCOUNT LOCK")
    told: dict[int, list[Any]] = {}
    for port in (server.mariadb.port, gate.port):
        connection: Any = mysql.connector.connect(
            host="127.0.0.1", port=port, user=first, password="one", use_pure=pure, ssl_disabled=True, autocommit=True
        )
        said = told[port] = [fetched(connection, WHO)]
        fetched(connection, "SELECT @mark := 1 FROM (SELECT 1) one")
        said.append(told_by(lambda c=connection: c.cmd_change_user(second, "two", DATABASE) and None))
        said.append(fetched(connection, WHO))
        said.append(fetched(connection, "SELECT @mark"))
        said.append(told_by(lambda c=connection: c.cmd_change_user(first, "wrong", DATABASE)))
        said.append(told_by(lambda c=connection: fetched(c, WHO)))  # MariaDB goes on as before
        said.append(told_by(lambda c=connection: c.cmd_change_user(first, "one", "forbidden")))
        said.append(told_by(lambda c=connection: fetched(c, WHO)))
        connection.close()
        connection = mysql.connector.connect(
            host="127.0.0.1", port=port, user=first, password="one", use_pure=pure, ssl_disabled=True
        )
        said.append(told_by(lambda c=connection: c.cmd_change_user(locked, "right")))
        said.append(told_by(lambda c=connection: c.cmd_change_user(socket_user, "")))
        said.append(told_by(lambda c=connection: c.cmd_change_user("nobody", "right")))
        said.append(told_by(lambda c=connection: fetched(c, WHO))[0])  # three were enough for MariaDB
        connection.close()
    direct, through = told[server.mariadb.port], told[gate.port]
    assert isinstance(direct[9], tuple) and direct[9][0] == 1698
    assert through[9] == (*direct[9][:2], direct[9][2] + HINT)
    assert through[:9] + through[10:] == direct[:9] + direct[10:]
    assert direct[4][0] == 1045 and direct[5][1] == f"{second}@127.0.0.1"


def test_change_user_gives_back_what_the_session_held(gate: Gate, admin: Sql, account: Callable[..., str]) -> None:
    """Locks, transactions and temporary tables, also where the change is refused; queues hear of nothing."""
    user = account("IDENTIFIED BY 'one'")
    owner = Sql(gate.connect(user="root", database=DATABASE))
    owner("CREATE QUEUE IF NOT EXISTS q (n INT)")
    connection: Any = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user=user, password="one", use_pure=True, ssl_disabled=True, database=DATABASE
    )
    for password, right in (("one", True), ("wrong", False)):
        cursor = connection.cursor()
        cursor.execute("CREATE TEMPORARY TABLE mine (n INT)")
        cursor.execute("SELECT GET_LOCK('held', 0)")
        assert cursor.fetchall() == [(1,)]
        cursor.execute("INSERT INTO q (n) VALUES (1)")
        cursor.close()
        assert (told_by(lambda p=password: connection.cmd_change_user(user, p, DATABASE) and None) is None) is right
        assert owner.value("SELECT GET_LOCK('held', 5)") == 1
        assert owner.value("SELECT RELEASE_LOCK('held')") == 1
        assert told_by(lambda: fetched(connection, "SELECT * FROM mine"))[0] == 1146
        assert owner.rows("SELECT n FROM STREAM q LIMIT 1 NOWAIT") == []
        assert fetched(connection, "SELECT DATABASE()") == (DATABASE,)
    owner("DROP QUEUE q")
    owner.close()
    connection.close()
