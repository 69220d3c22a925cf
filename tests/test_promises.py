"""docs/promises.md is whole: the tests that it names exist, no row is empty, and nothing of the language is missing."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

from over import over

from engine.model.options import OPTIONS
from rewriter.grammar.parse import _HANDLERS

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "promises.md").read_text()
NODE = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`(?: \[(\w+)\])?")
NOT_OURS = "Not ours: "
VITESS, WORDS = "Vitess Messaging and the Vitess Queues design", "What a session can say"


def rows_of(section: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


TABLES = {
    title: rows_of(section)
    for title, _, section in (part.partition("\n") for part in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:])
}
ROWS = [row for rows in TABLES.values() for row in rows]


@functools.cache
def functions_of(path: str) -> frozenset[str]:
    """The names of a file's test functions."""
    file = ROOT / path
    body = ast.parse(file.read_text()).body if file.exists() else []
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@over(ROWS, lambda row: row[0])
def test_a_row_is_whole_and_its_tests_exist(row):
    assert len(row) == 3 and all(row), row
    named = NODE.findall(row[2])
    assert named or (row[2].startswith(NOT_OURS) and len(row[2]) > 40), "neither a test nor a reason"
    assert row[2].count("::") == len(named), "a test is not written as `tests/file.py::name`"
    for path, name, place in named:
        assert name.startswith("test_") and name in functions_of(path), f"there is no {path}::{name}"
        assert place in ("", "mariadb", "embedded", "store", "engine"), place
        if place == "" and path.startswith(("tests/engine", "tests/simulation")):
            raise AssertionError(f"{path}::{name} runs on no backend: say where it runs")


@over(ROWS, lambda row: row[0])
def test_what_is_shown_on_one_backend_alone_says_why(row):
    """A row whose tests all run on MariaDB says in words what the embedded backend has to do with it."""
    places = {place for _, _, place in NODE.findall(row[2])}
    if places == {"mariadb"} and not row[2].startswith(NOT_OURS):
        assert "embedded" in row[1], row[1]


def test_all_of_vitess_promises_are_there():
    assert [row[0] for row in TABLES[VITESS]] == [str(number) for number in range(1, 75)]


def test_every_statement_is_there():
    assert sorted(row[0].strip("`") for row in TABLES[WORDS]) == sorted({*_HANDLERS, "SET"})  # SET STATEMENT ... FOR


def test_every_option_is_there():
    assert sorted(row[0].strip("`") for row in TABLES["Options"]) == sorted(OPTIONS)


def test_every_error_number_is_there():
    reference = (ROOT / "docs" / "sql.md").read_text().partition("## Errors")[2].partition("\n## ")[0]
    numbers = {
        number for cell in re.findall(r"^\| ([\d, ]+) \|", reference, re.MULTILINE) for number in cell.split(", ")
    }
    assert len(numbers) > 10
    assert numbers <= {row[0] for row in TABLES["Errors"]}


def test_numbers_are_given_once():
    for title, rows in TABLES.items():
        first = [row[0] for row in rows]
        assert len(first) == len(set(first)), title


def test_every_guarantee_of_the_spark_connector_is_there():
    """Each mode of reading and writing that docs/spark.md gives a guarantee for."""
    guarantees = (ROOT / "docs" / "spark.md").read_text().partition("## Guarantees")[2].partition("\n## ")[0]
    assert guarantees.count("\n| ---") == 2, "a table of reads and one of writes"
    promised = " ".join(row[1] for row in TABLES["The Spark connector"])
    for word in ("`mode=queue`", "`mode=tail`", "staged", "direct", "`txnAppId`", "with a key", "idempotent sink"):
        assert word.lower() in promised.lower(), word
