"""docs/sql.md, docs/schedules.md, docs/reference-options.md keep up: statements are planned, lists are whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rewriter_catalog import CATALOG

from engine.model import errors as engine_errors
from engine.model.options import OPTIONS
from engine.model.sqlstates import sqlstate_of
from rewriter import errors as rewriter_errors
from rewriter.plan import Plan, PlanContext
from rewriter.planner import Planner
from rewriter.scan.scanner import split_statements

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
TEXT = (DOCS / "sql.md").read_text()
OPTIONS_PAGE = (DOCS / "reference-options.md").read_text()
STATEMENTS = [
    statement.decode().strip()
    for block in re.findall(r"```sql\n(.*?)```", TEXT + (DOCS / "schedules.md").read_text(), re.DOTALL)
    for statement in split_statements(block.encode())
]


def plan(sql: str) -> Plan:
    return Planner(CATALOG).plan(sql, PlanContext("shop"))


@pytest.mark.parametrize("sql", STATEMENTS)
def test_what_works(sql: str) -> None:
    plan(sql)


def test_there_are_statements() -> None:
    assert len(STATEMENTS) > 30


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option(name: str) -> None:
    key = OPTIONS[name].key
    row = next(line for line in OPTIONS_PAGE.splitlines() if line.startswith(f"| `{name}` |"))
    assert f"`{key}`" in row or not key.startswith("vt_")


def test_every_error_number() -> None:
    kinds = [
        kind
        for module in (engine_errors, rewriter_errors)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    ]
    table = TEXT.partition("## Errors")[2].partition("## ")[0]
    for kind in kinds:
        assert re.search(rf"\b{kind.errno}\b.*\b{sqlstate_of(kind.errno)}\b", table), kind  # type: ignore[attr-defined]
