"""What sqlglot reads is what was written: calls keep their names and arguments, words of other databases are names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from over import over
from sqlglot import exp
from sqlglot.dialects.mysql import MySQL

from embedded.compile.expressions.calls import FUNCTIONS
from embedded.compile.functions import registry
from embedded.compile.queries import query
from embedded.compile.schema import Schema
from embedded.compile.statement import compile_statement, first_word
from embedded.compile.text.dialect import WITHOUT_PARENTHESES
from embedded.compile.text.keywords import RESERVED
from embedded.compile.text.literal_lifting import lift
from embedded.compile.text.modes import Modes
from embedded.compile.text.parse import parse
from rewriter.errors import RewriteError

_DEFINED = (query, registry)  # imported for the functions that they define
AGGREGATES = ("count", "sum", "avg", "min", "max")
WITH_UNIT = ("timestampadd", "timestampdiff")
CALLS = sorted({*FUNCTIONS, *AGGREGATES, "date_add", "date_sub", "values"})
PLACES = (
    *("SELECT {0}", "SELECT {0} 'x'", "SELECT {0} x", "SELECT a AS x, {0}", "SELECT -{0} * 2", "SELECT NOT {0}"),
    *("SELECT a + INTERVAL {0} DAY", "SELECT IFNULL({0}, a)", "SELECT COALESCE(a, {0}, b)", "SELECT a IN (1, {0})"),
    *("SELECT a LIKE {0}", "SELECT a BETWEEN {0} AND 2", "SELECT a DIV {0}", "SELECT a MOD {0}", "SELECT a REGEXP {0}"),
    *("SELECT CASE WHEN {0} THEN 1 ELSE 2 END", "SELECT CASE a WHEN 1 THEN {0} END", "SELECT (SELECT {0})"),
    *("SELECT 1 FROM t JOIN u ON {0}", "SELECT 1 FROM t WHERE {0}", "SELECT 1 FROM t GROUP BY {0} HAVING a"),
    *("SELECT 1 FROM t ORDER BY {0} DESC", "SELECT SUM(a) OVER (PARTITION BY {0} ORDER BY a) FROM t"),
    *("UPDATE t SET a = {0}", "DELETE FROM t WHERE {0} = 1", "INSERT INTO t VALUES (1, {0})"),
    *("INSERT INTO t (a) SELECT {0}", "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = {0}"),
)
WORDS = sorted(
    {
        word.lower()
        for word in MySQL.Tokenizer.KEYWORDS
        if word[0].isalpha() and word.isidentifier() and word not in RESERVED
    }
    | {*("local", "directory", "quick", "period", "exclude", "source", "stored", "value", "settings", "nulls", "per")}
    | {*("at", "zone", "rowid", "connect_by_root", "columns", "of", "share", "skip", "utc", "within", "without")}
) + [name for name in sorted(FUNCTIONS) if name.upper() not in RESERVED]
NAMES = (
    *("SELECT {0} FROM t", "SELECT t.{0} FROM t", "SELECT a {0} FROM t", "SELECT a AS {0} FROM t", "SELECT a FROM {0}"),
    *("SELECT a FROM t AS {0}", "SELECT {0}.a FROM t", "SELECT a, {0} FROM t", "SELECT {0} IS NULL", "SELECT {0} + 1"),
    *("SELECT a FROM t WHERE {0} = 1", "SELECT a FROM t WHERE a = {0}", "SELECT IFNULL({0}, a)", "SELECT -({0})"),
    *("INSERT INTO {0} (a) VALUES (1)", "INSERT {0} (a) VALUES (1)", "INSERT INTO t ({0}) VALUES (1)"),
    *("INSERT INTO t (a, {0}) VALUES (1, 2)", "INSERT INTO t SET {0} = 1", "UPDATE t SET {0} = 1", "DELETE FROM {0}"),
    *(
        "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE {0} = 2",
        "SELECT 1 FROM t ORDER BY {0}",
        "UPDATE {0} SET a = 1",
    ),
)
ALIASES = ("SELECT a FROM t {0}", "SELECT 1 FROM t {0} LEFT JOIN u ON a", "SELECT 1 FROM (SELECT 2) {0}")
NO_NAME = "lateral"
NO_ALIASES = {NO_NAME, "full", "offset", "window"}
"""Words that this backend takes for the beginning of a clause there."""

FOREIGN = (
    *("SELECT a::CHAR", "SELECT a == b", "SELECT a[1]", "SELECT a ?? b", "SELECT f(x => 1)", "SELECT a <-> b"),
    *("SELECT a FROM t LIMIT 5 BY a", "SELECT a FROM t LIMIT 1 WITH TIES", "SELECT a FROM t LIMIT 5 PERCENT"),
    *("SELECT a FROM t OFFSET 5", "SELECT a FROM t ORDER BY a NULLS FIRST", "SELECT a FROM t TABLESAMPLE (1)"),
    *("SELECT COUNT(*, a)", "SELECT COUNT(DISTINCT *)", "SELECT COUNT(a) FILTER (WHERE b)", "SELECT a ILIKE b"),
    *("SELECT a BETWEEN SYMMETRIC 2 AND 1", "SELECT a IS DISTINCT FROM b", "SELECT CASE WHEN a 1 END", "SELECT a,"),
    *("SELECT CASE END", "SELECT CASE ELSE 1 END", "SELECT a + INTERVAL 1 DAYS", "SELECT a + INTERVAL 1 D"),
    *("SELECT a + INTERVAL '1 day'", "SELECT TIMESTAMPDIFF(DAYS, a, b)", "INSERT INTO t (a INT) VALUES (1)"),
    *(
        "INSERT INTO t (a) VALUES (1) ON CONFLICT DO NOTHING",
        "INSERT INTO IGNORE t VALUES (1)",
        "SELECT INTERVAL 1 DAY",
    ),
    *("SELECT INTERVAL(1, 2, 3)", "SELECT a QUALIFY b FROM t", "SELECT a INTO x", "UPDATE t SET a = @x := 1"),
    *("INSERT OVERWRITE t VALUES (1)", "SELECT IFNULL(a AS b, 1)", "SELECT IFNULL(a ORDER BY b, 1)"),
)


def tree(sql: str) -> exp.Expression:
    lifted = lift(sql)
    return parse(lifted.shape, lifted.values, first_word(sql)).tree


def calls(sql: str) -> Iterator[tuple[str, list[str]]]:
    """Names of calls, in small letters, and what is in their parentheses."""
    for node in tree(sql).find_all(exp.Func):
        if isinstance(node, exp.Anonymous):
            yield node.name.lower(), [one.name for one in node.expressions]
        elif type(node) in WITHOUT_PARENTHESES.values():
            yield node.sql_name().lower(), []
        elif isinstance(node, exp.AggFunc):
            yield type(node).__name__.lower(), [one.name for one in (node.this, *node.expressions) if one is not None]


def names(sql: str) -> list[str]:
    return [one.name.lower() for one in tree(sql).find_all(exp.Identifier)]


def arguments_of(name: str) -> list[list[str]]:
    if name in AGGREGATES or name == "values":
        return [["a"]]
    if name in ("date_add", "date_sub", *WITH_UNIT):
        return []  # see below
    function = FUNCTIONS[name]
    most = 3 if function.most is None else function.most
    return [["a", "b", "c", "d"][:count] for count in range(function.fewest, most + 1)]


@over(CALLS)
def test_a_call_is_what_is_written(name):
    for arguments in arguments_of(name):
        for place in PLACES:
            for space in ("", " "):
                sql = place.format(f"{name}{space}({', '.join(arguments)})")
                assert (name, arguments) in list(calls(sql)), sql


@over(WORDS, label=str)
def test_words_of_other_databases_are_names(word):
    for place in (*(NAMES if word != NO_NAME else ()), *(ALIASES if word not in NO_ALIASES else ())):
        sql = place.format(word)
        assert names(sql).count(word) == 1, sql


@pytest.mark.parametrize("sql", FOREIGN)
def test_what_only_other_databases_have_is_refused(sql):
    lifted = lift(sql, variables=lambda name: None)
    with pytest.raises(RewriteError) as refused:
        compile_statement(lifted.shape, lifted.values, Schema(), Modes())
    assert "Unknown column" not in str(refused.value), "read as something else"


@pytest.mark.parametrize("type_", ["BIT", "BOOL", "CHAR(9)", "DATETIME", "JSON", "SIGNED", "TEXT", "UUID", "YEAR"])
def test_a_type_before_a_string_is_no_cast(type_):
    item = tree(f"SELECT {type_} 'x'").expressions[0]
    assert isinstance(item, exp.Alias)
    assert not isinstance(item.this, exp.Cast)


@pytest.mark.parametrize(
    "name",
    [
        *("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "LOCALTIME", "LOCALTIMESTAMP"),
        *("UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP"),
    ],
)
def test_some_calls_need_no_parentheses(name):
    assert list(calls(f"SELECT {name}")) == list(calls(f"SELECT {name}()")) == [(name.lower(), [])]
    assert list(calls(f"SELECT t.{name}")) == []


@pytest.mark.parametrize(
    "sql, arguments",
    [
        ("DATE_ADD(a, INTERVAL b DAY)", ["a", ""]),
        ("DATE_SUB(a, INTERVAL (b) DAY_HOUR)", ["a", ""]),
        ("TIMESTAMPDIFF(DAY, a, b)", ["DAY", "a", "b"]),
        ("TIMESTAMPADD(MICROSECOND, a, b)", ["MICROSECOND", "a", "b"]),
    ],
)
def test_calls_with_a_unit(sql, arguments):
    ((_, read),) = calls(f"SELECT {sql}")
    assert read == arguments


def test_values_knows_the_columns_table():
    ((name, arguments),) = calls("INSERT INTO t (t.a) VALUES (1) ON DUPLICATE KEY UPDATE a = VALUES(t.a)")
    assert (name, arguments) == ("values", ["a"])
