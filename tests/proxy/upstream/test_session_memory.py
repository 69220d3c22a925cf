"""What a session without a line remembers, and when it is on its line for good."""

from __future__ import annotations

import pytest

from mysql_wire.status_flags import AUTOCOMMIT, NO_BACKSLASH_ESCAPES
from proxy.rights.statements import read
from proxy.upstream.server_profile import BackendProfile, Collation
from proxy.upstream.session_memory import SessionMemory, Unknown

COLLATIONS = {
    8: Collation("latin1_swedish_ci", "latin1"),
    45: Collation("utf8mb4_general_ci", "utf8mb4"),
    46: Collation("utf8mb4_bin", "utf8mb4"),
}


def profile(status: int = AUTOCOMMIT) -> BackendProfile:
    return BackendProfile("10.11", 0, 45, AUTOCOMMIT, status, COLLATIONS)


@pytest.fixture
def memory() -> SessionMemory:
    return SessionMemory(profile(), 45)


def deferred(memory: SessionMemory, sql: str) -> bool:
    statement = read(sql.encode())
    return statement is not None and memory.deferred(statement, sql.encode(), "shop")


def repeatable(memory: SessionMemory, sql: str) -> bool:
    return memory.repeatable(read(sql.encode()), sql.encode())


@pytest.mark.parametrize(
    "sql",
    [
        "SET NAMES latin1",
        "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_bin'",
        "SET CHARACTER SET latin1",
        "SET autocommit = OFF, NAMES latin1",
        "SET @@session.autocommit = 1",
        "SET SESSION TRANSACTION READ ONLY",
        "SET character_set_results = NULL",
    ],
)
def test_valid_for_certain(memory: SessionMemory, sql: str) -> None:
    assert deferred(memory, sql)
    assert memory.repeated == [sql.encode()]


@pytest.mark.parametrize(
    "sql",
    [
        "SET NAMES nothing",
        "SET NAMES latin1 COLLATE utf8mb4_bin",
        "SET NAMES DEFAULT",
        "SET autocommit = 7",
        "SET autocommit = DEFAULT",
        "SET autocommit = 1, sql_mode = ''",
        "SET sql_mode = 'ANSI'",
        "SET time_zone = 'Europe/Nowhere'",
        "SET TRANSACTION READ ONLY",
        "SELECT 1",
        "BEGIN",
        "SAVEPOINT a",
        "COMMIT AND CHAIN",
        "USE elsewhere",
        "INSERT INTO q VALUES (1)",
    ],
)
def test_what_only_the_database_can_judge(memory: SessionMemory, sql: str) -> None:
    assert not deferred(memory, sql)
    assert memory.repeated == []


def test_nothing_of_a_transaction_that_is_not_open(memory: SessionMemory) -> None:
    for sql in ("COMMIT", "ROLLBACK WORK", "USE shop"):
        assert deferred(memory, sql)
    assert memory.repeated == []


def test_status_and_charset_follow_what_was_set(memory: SessionMemory) -> None:
    assert (memory.autocommit, memory.results_charset) == (True, "utf8mb4")
    deferred(memory, "SET autocommit = 0, NAMES latin1")
    assert (memory.autocommit, memory.results_charset) == (False, "latin1")
    deferred(memory, "SET character_set_results = NULL")
    assert memory.results_charset is None
    repeatable(memory, "SET NAMES DEFAULT")
    assert memory.results_charset is Unknown.UNKNOWN
    memory.reset()
    assert (memory.autocommit, memory.results_charset, memory.repeated) == (True, "utf8mb4", [])


def test_a_collation_that_the_server_does_not_know_tells_nothing() -> None:
    assert SessionMemory(profile(), 255).results_charset is Unknown.UNKNOWN


def test_the_last_of_equal_settings_is_the_one_that_counts(memory: SessionMemory) -> None:
    for sql in ("SET NAMES latin1", "SET NAMES utf8mb4", "SET NAMES latin1"):
        deferred(memory, sql)
    assert memory.repeated == [b"SET NAMES utf8mb4", b"SET NAMES latin1"]
    assert memory.results_charset == "latin1"


@pytest.mark.parametrize(
    ("sql", "leaves"),
    [
        ("SET sql_mode = CONCAT(@@sql_mode, ',ANSI')", True),
        ("SET foreign_key_checks = 0", True),
        ("SET session_track_system_variables = IF(@@autocommit, 'a', 'b')", True),
        ("SET autocommit = 1 - @@autocommit", False),
        ("SET insert_id = 5", False),
        ("SET @a = 1", False),
        ("SET GLOBAL sql_mode = ''", False),
        ("SELECT @@version", True),
        ("SELECT CONNECTION_ID()", False),
        ("SHOW WARNINGS", True),
        ("USE elsewhere", True),
        ("BEGIN", True),
        ("SET TRANSACTION READ ONLY", False),
        ("UPDATE q SET time_acked = 1 WHERE id = 5", True),
        ("INSERT INTO q VALUES (1)", False),
        ("SELECT * FROM t", False),
        ("CREATE TEMPORARY TABLE t (a INT)", False),
    ],
)
def test_what_leaves_nothing_that_cannot_be_repeated(memory: SessionMemory, sql: str, leaves: bool) -> None:
    assert repeatable(memory, sql) is leaves


def test_memory_has_an_end(memory: SessionMemory) -> None:
    kept = [repeatable(memory, f"SET SESSION wait_timeout = {number}") for number in range(100)]
    assert kept == [True] * 64 + [False] * 36
    memory.reset()
    assert not repeatable(memory, f"SET sql_mode = '{'A' * 20_000}'")


def test_backslashes_of_an_account_with_limits_always_escape() -> None:
    odd = profile(AUTOCOMMIT | NO_BACKSLASH_ESCAPES)
    assert SessionMemory(odd, 45).status & NO_BACKSLASH_ESCAPES
    limited = SessionMemory(odd, 45, plain=True)
    limited.was(AUTOCOMMIT | NO_BACKSLASH_ESCAPES | 1)
    assert limited.status == AUTOCOMMIT
