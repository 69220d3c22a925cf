"""What a statement compiles to is as long as the statement: no function and no operator writes an operand twice."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from embedded.compile.budget import NODES_MAX, TEXT_MAX, TOKENS_MAX, CompileBudget
from embedded.compile.definitions.read import read_definition
from embedded.compile.expressions.functions import FUNCTIONS
from embedded.compile.plan import Modify
from embedded.compile.schema import Schema
from embedded.compile.statement import compile_statement
from embedded.compile.text.literal_lifting import lift
from embedded.compile.text.modes import Modes
from embedded.compile.text.tokens import Tokens
from rewriter.errors import RewriteError

TYPES = {
    "whole": "INT", "large": "BIGINT UNSIGNED", "text": "VARCHAR(20)", "bin": "VARCHAR(20) COLLATE utf8mb4_bin",
    "small": "DECIMAL(10,2)", "wide": "DECIMAL(40,5)", "real": "DOUBLE", "at": "DATETIME(3)", "day": "DATE",
    "span": "TIME(2)", "stamp": "TIMESTAMP", "year": "YEAR", "doc": "JSON", "kind": "ENUM('a','b')", "data": "BLOB",
    "bits": "BIT(5)",
}  # fmt: skip
PLACES = 6
LONG = "x" * 45
ALIAS = "t" * 60
ARITHMETIC = "+ - * / DIV % & | ^ << >> AND OR XOR = <=> < >= <>"
CASTS = (
    *("SIGNED", "UNSIGNED", "CHAR", "CHAR(5)", "BINARY", "BINARY(5)", "DECIMAL(10,2)", "DECIMAL(40,5)"),
    *("DATE", "DATETIME", "TIME(3)", "DOUBLE", "JSON", "YEAR"),
)
OPERATORS = {
    **{f"x {one} x": f"({{}} {one} {{}})" for one in ARITHMETIC.split()},
    **{f"x {one} x": f"({{}} {one} {{}})" for one in ("LIKE", "NOT LIKE", "REGEXP", "NOT REGEXP")},
    "~": "(~ {})", "-": "(- {})", "NOT": "(NOT {})", "IS NULL": "({} IS NULL)", "IS TRUE": "({} IS NOT TRUE)",
    "escape": "({} LIKE {} ESCAPE '!')", "BETWEEN": "({} BETWEEN {} AND {})", "IN": "({} IN ({}, {}))",
    "CASE": "CASE {} WHEN {} THEN {} WHEN {} THEN {} ELSE {} END",
    "CASE WHEN": "CASE WHEN {} THEN {} WHEN {} THEN {} ELSE {} END",
    "rows =": "(({}, {}) = ({}, {}))", "rows <": "(({}, {}, 1) < ({}, {}, 1))",
    "rows <=": "(({}, {}, {}) <= ({}, {}, {}))", "rows IN": "(({}, {}) IN (({}, {}), ({}, {})))",
    "IN query": "({} IN (SELECT {} FROM t))", "ANY": "({} > ANY (SELECT {} FROM t))",
    "ALL": "({} <= ALL (SELECT {} FROM t))", "EXISTS": "EXISTS (SELECT {} FROM t)", "query": "(SELECT {} LIMIT 1)",
    "COLLATE": "({} COLLATE utf8mb4_bin)", "+ INTERVAL": "({} + INTERVAL {} DAY)",
    "- INTERVAL": "({} - INTERVAL {} MINUTE_SECOND)", "DATE_ADD": "DATE_ADD({}, INTERVAL {} MICROSECOND)",
    "EXTRACT": "EXTRACT(HOUR FROM {})", "EXTRACT 2": "EXTRACT(DAY_SECOND FROM {})", "TRIM": "TRIM({})",
    "TRIM LEADING": "TRIM(LEADING {} FROM {})", "SUBSTRING": "SUBSTRING({} FROM {} FOR {})",
    "POSITION": "POSITION({} IN {})", "CHAR": "CHAR({}, {} USING utf8mb4)", "CONVERT": "CONVERT({} USING utf8mb4)",
    "TIMESTAMPDIFF": "TIMESTAMPDIFF(HOUR, {}, {})", "TIMESTAMPADD": "TIMESTAMPADD(HOUR, {}, {})",
    "ADDDATE": "ADDDATE({}, INTERVAL {} DAY)",
    **{
        f"CAST {one}": f"CAST({{}} AS {one})"
        for one in CASTS
    },
    **{
        one: f"(SELECT {one}({{}}) FROM t)"
        for one in ["COUNT", "SUM", "AVG", "MIN", "MAX", "GROUP_CONCAT", "STD", "BIT_OR", "JSON_ARRAYAGG", "ANY_VALUE"]
    },
    **{f"{one} DISTINCT": f"(SELECT {one}(DISTINCT {{}}) FROM t)" for one in ["COUNT", "SUM", "AVG", "GROUP_CONCAT"]},
    "COUNT DISTINCT": "(SELECT COUNT(DISTINCT {}, {}) FROM t)",
    "GROUP_CONCAT order": "(SELECT GROUP_CONCAT(DISTINCT {}, {} ORDER BY {}, {} DESC SEPARATOR 'x') FROM t)",
    "SUM OVER": "(SELECT SUM({}) OVER (PARTITION BY {} ORDER BY {}) FROM t LIMIT 1)",
    "AVG OVER": "(SELECT AVG({}) OVER (PARTITION BY {} ORDER BY {}) FROM t LIMIT 1)",
}  # fmt: skip
WINDOW = (
    *("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"),
    *("lag", "lead", "first_value", "last_value", "nth_value"),
)
CASES_EACH = 6  # mixes of types for one place of one function


def _schema() -> Schema:
    columns = ", ".join(f"{kind}_{n}{LONG} {type_}" for kind, type_ in TYPES.items() for n in range(PLACES))
    lifted = lift(f"CREATE TABLE t ({columns})")
    definition = read_definition(Tokens(lifted.shape, lifted.values))
    return Schema(0, {"t": definition.table})  # type: ignore[union-attr]


SCHEMA = _schema()


def text_of(sql: str) -> str | None:
    """What it compiles to; None where it is refused."""
    lifted = lift(sql)
    try:
        plan = compile_statement(lifted.shape, lifted.values, SCHEMA, Modes()).plan
    except RewriteError:
        return None
    assert not isinstance(plan, Modify)
    return plan.statement.sql


def templates() -> Iterator[tuple[str, str]]:
    """Each function with each number of arguments up to six, and each operator, with {} for its operands."""
    for name, function in sorted(FUNCTIONS.items()):
        most = function.fewest + 2 if function.most is None else function.most
        for count in range(max(1, function.fewest), min(most, PLACES) + 1):
            call = f"{name.upper()}({', '.join(['{}'] * count)})"
            over = f"(SELECT {call} OVER (ORDER BY 1) FROM t LIMIT 1)"
            yield f"{name}/{count}", over if name in WINDOW else call
    for name in WINDOW:
        yield name, f"(SELECT {name.upper()}({{}}) OVER (PARTITION BY {{}} ORDER BY {{}}) FROM t LIMIT 1)"
    yield from OPERATORS.items()


ALL = list(templates())


@pytest.mark.parametrize("template", [one[1] for one in ALL], ids=[one[0] for one in ALL])
def test_no_operand_is_written_twice(template: str) -> None:
    chance, count = random.Random(template), template.count("{}")
    kinds = list(TYPES)
    for case in range(CASES_EACH * count):
        chosen = [chance.choice(kinds) for _ in range(count)]
        if case % 3 == 0:
            chosen = [chosen[0]] * count
        names = [f"{kind}_{n}{LONG}" for n, kind in enumerate(chosen)]
        operands = [f"COALESCE(`{ALIAS}`.{name})" for name in names]
        made = text_of(f"SELECT {template.format(*operands)} AS c FROM t AS `{ALIAS}`")
        for name in names if made is not None else ():
            assert made.count(f"`{ALIAS}`.`{name}`") <= 1, (chosen, made)  # type: ignore[union-attr]


@pytest.mark.parametrize("template", [one[1] for one in ALL], ids=[one[0] for one in ALL])
def test_in_itself_it_grows_with_its_input(template: str) -> None:
    count = template.count("{}")
    for leaf in (f"whole_0{LONG}", f"text_0{LONG}", f"doc_0{LONG}", "1"):
        for place in {0, count - 1}:
            lengths = []
            for depth in (2, 4, 6):
                nested = leaf
                for _ in range(depth):
                    nested = template.format(*[nested if one == place else leaf for one in range(count)])
                made = text_of(f"SELECT {nested} AS c FROM t")
                if made is None:
                    break
                lengths.append(len(made))
            else:
                # Column names of subqueries are cut at 255 characters, so the first step may be the smaller one.
                assert lengths[2] - lengths[1] <= 1.2 * (lengths[1] - lengths[0]) + 700, (leaf, place, lengths)


def refused(sql: str, budget: CompileBudget | None = None) -> tuple[int, str]:
    lifted = lift(sql)
    with pytest.raises(RewriteError) as error:
        compile_statement(lifted.shape, lifted.values, SCHEMA, Modes(), budget)
    return error.value.errno, error.value.message


def doubled(levels: int) -> str:
    inner = f"SELECT text_0{LONG} AS c FROM t"
    for _ in range(levels):
        inner = f"SELECT CONCAT(c, c) AS c FROM ({inner}) AS x"
    return inner


def common(levels: int) -> str:
    tables = ", ".join(f"c{n + 1} AS (SELECT a.v FROM c{n} a, c{n} b)" for n in range(levels))
    return f"WITH c0 AS (SELECT 1 AS v), {tables} SELECT v FROM c{levels}"


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (doubled(25), "derived tables"),
        (common(25), "derived tables"),
        ("SELECT 1" + " UNION SELECT 1" * 500, "UNION of more than 500"),
        ("SELECT 1" + " AND 1" * TOKENS_MAX, f"{TOKENS_MAX} words and signs"),
        ("SELECT " + "`a`, " * TOKENS_MAX + "a FROM t", f"{TOKENS_MAX} words and signs"),
    ],
    ids=["derived", "common", "union", "and", "names"],
)
def test_what_would_grow_is_refused_before_it_has(sql: str, said: str) -> None:
    errno, message = refused(sql)
    assert (errno, said in message) == (1235, True), message[:200]


def test_an_alias_that_is_written_out_again_and_again_is_refused() -> None:
    inner = f"kind_0{LONG}"
    for _ in range(40):
        inner = f"(SELECT {inner} AS c FROM t GROUP BY c ORDER BY c LIMIT 1)"
    errno, message = refused(f"SELECT {inner} FROM t")
    assert errno == 1235, message[:200]


def test_a_compilation_that_is_stopped_ends() -> None:
    budget = CompileBudget()
    budget.stop()
    assert refused("SELECT 1 + 1", budget) == (1317, "Query execution was interrupted")


def test_the_bounds_have_room_for_what_applications_send() -> None:
    assert text_of(f"SELECT 1 FROM t WHERE whole_0{LONG} IN ({', '.join(map(str, range(20_000)))})") is not None
    cases = " ".join(f"WHEN {n} THEN 'n{n}'" for n in range(5_000))
    made = text_of(f"SELECT CASE whole_0{LONG} {cases} END AS c FROM t")
    assert made is not None and len(made) < TEXT_MAX / 4
    assert NODES_MAX > 2 * TOKENS_MAX
