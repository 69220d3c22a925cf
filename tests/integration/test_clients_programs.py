"""The command line and the other programs that come with a server: the same words through the proxy as without it."""

from __future__ import annotations

import re

import pytest
from server_programs import ran, run
from servers import Gate, MariaDb, Sql

pytestmark = pytest.mark.long

SESSION = """
DROP TABLE IF EXISTS cli_words;
CREATE TABLE cli_words (
  id INT AUTO_INCREMENT PRIMARY KEY, word VARCHAR(40), data BLOB, amount DECIMAL(8,2), at DATETIME(3)
) CHARACTER SET utf8mb4;
INSERT INTO cli_words (word, data, amount, at) VALUES ('Größe 🎉', x'00ff0a', 1.5, '2026-03-04 05:06:07.089'),
  ('tab\\tand\\nnewline', '', -0.01, NULL), (NULL, NULL, NULL, NULL);
SELECT * FROM cli_words;
SELECT word, HEX(data) FROM cli_words WHERE id < 3\\G
UPDATE cli_words SET amount = 0 WHERE id = 1;
UPDATE cli_words SET amount = 0 WHERE id = 1;
DELETE FROM cli_words WHERE id > 100;
START TRANSACTION; DELETE FROM cli_words; ROLLBACK;
SELECT COUNT(*) FROM cli_words;
DELIMITER //
SELECT 'one statement; not two' AS text//
DELIMITER ;
\\! echo out of the shell
SET NAMES latin1;
SELECT CONCAT('\xe4');
SET NAMES utf8mb4;
DROP TABLE IF EXISTS cli_missing;
SHOW CREATE TABLE cli_words;
TRUNCATE cli_words;
DROP TABLE cli_words;
"""
SERVER_SESSION = """
DROP PROCEDURE IF EXISTS cli_two;
DELIMITER //
CREATE PROCEDURE cli_two () BEGIN SELECT 1 AS a; SELECT 2 AS b, 'x' AS c; DO 1; END//
DELIMITER ;
CALL cli_two();
DROP PROCEDURE cli_two;
INSERT INTO cli_missing VALUES (1);
SELECT * FROM;
SIGNAL SQLSTATE '45001' SET MESSAGE_TEXT = 'ours: Größe', MYSQL_ERRNO = 5001;
SHOW WARNINGS;
SELECT 1/0;
CREATE TEMPORARY TABLE cli_short (a TINYINT);
INSERT IGNORE INTO cli_short VALUES (1000), ('x');
EXPLAIN SELECT * FROM cli_short;
HANDLER cli_short OPEN; HANDLER cli_short READ FIRST; HANDLER cli_short CLOSE;
XA START 'cli'; XA END 'cli'; XA ROLLBACK 'cli';
"""
FORMS = [
    (),
    ("--table",),
    ("--batch", "--raw"),
    ("--vertical", "--quick"),
    ("--html",),
    ("--xml",),
    ("-vvv",),
    ("--compress",),
]
UTF8 = "--default-character-set=utf8mb4"


def without_seconds(text: str) -> str:
    """Without the times that statements took."""
    return re.sub(r"\(?\d+\.\d{3} sec\)?", "", text)


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_a_session_is_as_without_the_proxy(mariadb: MariaDb, gate: Gate, form: tuple[str, ...]) -> None:
    feed = SESSION.encode().replace("\xe4".encode(), b"\xe4")
    if gate.embedded:  # spells types and defaults as MySQL 8 does
        feed = feed.replace(b"SHOW CREATE TABLE cli_words;\n", b"")
    direct, proxied = (
        without_seconds(ran("mariadb", server, UTF8, *form, "main", feed=feed)) for server in (mariadb, gate)
    )
    assert "Größe" in direct
    assert proxied == direct


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_what_a_server_says_is_as_without_the_proxy(
    mariadb: MariaDb, mariadb_gate: Gate, form: tuple[str, ...]
) -> None:
    """Going on after errors, each in the server's words."""
    direct, proxied = (
        run("mariadb", server, UTF8, "--force", *form, "main", feed=SERVER_SESSION.encode())
        for server in (mariadb, mariadb_gate)
    )
    assert direct.returncode == 0 and b"1146" in direct.stderr
    assert (proxied.returncode, proxied.stderr) == (direct.returncode, direct.stderr)
    assert without_seconds(proxied.stdout.decode()) == without_seconds(direct.stdout.decode())


@pytest.fixture
def table(mariadb: MariaDb, name: str):
    """A table in the server's database and a file of rows for it."""
    with mariadb.connect(database="main") as connection:
        Sql(connection)(f"CREATE TABLE {name} (n INT PRIMARY KEY, s VARCHAR(30), KEY (s))")
        Sql(connection)(f"INSERT INTO {name} VALUES (5000, 'x')")
        yield name
        Sql(connection)(f"DROP TABLE {name}")


def test_tables_are_checked_shown_and_imported_into(mariadb, mariadb_gate, tmp_path, table):
    file = tmp_path / f"{table}.tsv"
    file.write_text("".join(f"{n}\trow {n} é\n" for n in range(3000)))
    for program, *arguments in (
        ("mariadb-check", "main", table),
        ("mariadb-check", "--analyze", "main", table),
        ("mariadb-check", "--optimize", "main", table),
        ("mariadb-show", "main", table),
        ("mariadb-show", "--keys", "--count", "main", table),
        ("mariadb-import", "--local", "--replace", "--columns=n,s", "main", str(file)),
        ("mariadb-import", "--local", "--ignore", "main", str(file)),
    ):
        direct = ran(program, mariadb, *arguments)
        assert ran(program, mariadb_gate, *arguments) == direct, program
    with mariadb_gate.connect() as connection:
        assert Sql(connection).row(f"SELECT COUNT(*), SUM(n), MAX(s) FROM {table}")[0] == 3001


def test_load_under_many_clients(mariadb_gate):
    printed = ran(
        "mariadb-slap", mariadb_gate, "--concurrency=8", "--auto-generate-sql", "--number-of-queries=400",
        "--auto-generate-sql-load-type=mixed", "--auto-generate-sql-add-autoincrement", "--commit=10", "--detach=20",
    )  # fmt: skip
    assert "Number of clients running queries: 8" in printed


def test_administration(gate, mariadb, sql, name):
    assert ran("mariadb-admin", gate, "ping") == "mysqld is alive\n"
    assert re.match(r"Uptime: \d+  Threads: \d+", ran("mariadb-admin", gate, "status"))
    assert "Server version" in ran("mariadb-admin", gate, "version")
    assert f"| {sql.value('SELECT CONNECTION_ID()')} " in ran("mariadb-admin", gate, "processlist")
    assert "| max_allowed_packet " in ran("mariadb-admin", gate, "variables")
    assert "| Uptime " in ran("mariadb-admin", gate, "extended-status")
    for harmless in ("flush-tables", "flush-status", "reload"):
        ran("mariadb-admin", gate, harmless)
    victim = Sql(gate.connect())
    ran("mariadb-admin", gate, "kill", str(victim.value("SELECT CONNECTION_ID()")))
    with pytest.raises(Exception, match=r"(?i)lost connection|gone away|killed"):
        victim("SELECT 1")
    refused = run("mariadb-admin", gate, "shutdown")
    assert refused.returncode == 1 and b"not passed on" in refused.stderr
    assert ran("mariadb-admin", gate, "ping") == "mysqld is alive\n"
    assert sql.value("SELECT 1") == 1
    if not gate.embedded:
        ran("mariadb-admin", gate, "create", name)
        assert sql.rows(f"SHOW DATABASES LIKE '{name}'")
        ran("mariadb-admin", gate, "--force", "drop", name)
        ran("mariadb-admin", gate, "refresh")
