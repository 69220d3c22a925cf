"""Questions of accounts that are limited to their queues, changed so that they tell nothing of the server's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.rights.kinds import SensitiveOutput, SessionQuery
from proxy.rights.session_queries import with_client_account, with_readable_variables
from proxy.rights.statements import read

ME = "shop@10.0.0.1"
READABLE = {
    "SELECT USER()": "SELECT 'shop@10.0.0.1' AS `USER()` ",
    "select current_user( ) ;": "select 'shop@10.0.0.1' AS `current_user( )` ;",
    "SELECT USER(), 1, SESSION_USER() LIMIT 1": (
        "SELECT 'shop@10.0.0.1' AS `USER()` , 1, 'shop@10.0.0.1' AS `SESSION_USER()` LIMIT 1"
    ),
    "SELECT USER() AS u, SYSTEM_USER() 'v'": "SELECT 'shop@10.0.0.1' AS u, 'shop@10.0.0.1' 'v'",
    "SELECT CONCAT(USER(), (USER()))": "SELECT CONCAT('shop@10.0.0.1' , ('shop@10.0.0.1' ))",
    "SELECT USER(/* ` */) -- x": "SELECT 'shop@10.0.0.1' ",
    "SELECT 1 -- x\n, USER() # y\n, 2": "SELECT 1 -- x\n, 'shop@10.0.0.1' , 2",
    "SELECT 'USER()', `USER()`, \"USER()\" x": "SELECT 'USER()', `USER()`, \"USER()\" x",
    "SELECT @@init_connect, @@global.init_connect i, @@version": (
        "SELECT '' AS `@@init_connect` , '' i, @@version"
    ),
    "SELECT (1, USER()) = (1, 2)": "SELECT (1, 'shop@10.0.0.1' ) = (1, 2)",
}  # fmt: skip


@pytest.mark.parametrize("sql", READABLE)
def test_an_account_is_told_its_own_name(sql: str) -> None:
    changed = with_client_account(sql.encode(), ME)
    assert changed == READABLE[sql].encode()
    asked = read(changed)
    assert isinstance(asked, SessionQuery), changed
    assert not asked.account, changed


def test_a_name_with_quotes_stands_as_bytes() -> None:
    for name in ("o'shop@h", "a\\@h", "漢@h", ""):
        written = f"SELECT _utf8mb4 X'{name.encode().hex()}' AS `USER()` ".encode()
        assert with_client_account(b"SELECT USER()", name) == written


SHOWN = {
    "SHOW VARIABLES": b"",
    "SHOW VARIABLES -- x": b"",
    "show /* x */ global variables;": b"",
    "SHOW VARIABLES LIKE 'a\\_%' # x": b" AND (Variable_name LIKE 'a\\_%' # x\n)",
    "SHOW VARIABLES WHERE Variable_name = 'a' OR (1 = 1) -- x;": (
        b" AND (Variable_name = 'a' OR (1 = 1) -- x;\n)"
    ),
    "SHOW LOCAL VARIABLES WHERE Variable_name IN ('a', 'b') ;": b" AND (Variable_name IN ('a', 'b') \n)",
}  # fmt: skip


@pytest.mark.parametrize("sql", SHOWN)
def test_show_variables_shows_those_that_may_be_asked_for(sql: str) -> None:
    changed = with_readable_variables(sql.encode())
    assert changed is not None
    listed, _, rest = changed.partition(b")")
    assert b" VARIABLES WHERE Variable_name IN ('auto_increment_increment', " in listed
    assert rest == SHOWN[sql]
    assert b"'datadir'" not in listed and b"'init_connect'" not in listed
    assert read(changed) == SessionQuery(sensitive_output=SensitiveOutput.VARIABLES)


@pytest.mark.parametrize(
    "condition",
    ["LIKE 'a' OR 1", "LIKE", "WHERE 1) OR (1", "WHERE (1)) OR ((1)", "WHERE (1", "WHERE 1)", "WHERE 1, 2"],
)
def test_a_condition_that_leaves_its_parentheses_is_not_taken(condition: str) -> None:
    assert with_readable_variables(b"SHOW VARIABLES " + condition.encode()) is None


_PIECES = st.lists(
    st.sampled_from(
        ["USER()", "USER(", ")", "(", ",", "1", "'a'", "\"", "'", "`a`", "`", "-- ", "#", "/*", "*/", "\n", "OR", "=",
         "@@init_connect", "@@version", "AS", "a", "LIMIT", "CONCAT(", "_utf8mb4", "X'00'", "IN", "LIKE", "\\", ";"]
    ),
    max_size=12,
)  # fmt: skip


@given(_PIECES)
def test_what_was_read_as_a_question_stays_one(pieces: list[str]) -> None:
    for begin, change in (
        ("SELECT ", lambda sql: with_client_account(sql, ME)),
        ("SHOW VARIABLES WHERE ", with_readable_variables),
    ):
        sql = (begin + " ".join(pieces)).encode()
        if not isinstance(read(sql), SessionQuery):
            continue
        changed = change(sql)
        if changed is not None:
            asked = read(changed)
            assert isinstance(asked, SessionQuery), changed
            assert not asked.account and "init_connect" not in asked.variables, changed
