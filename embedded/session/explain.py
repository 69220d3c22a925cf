"""EXPLAIN: SQLite's own query plan in the columns that MySQL clients expect, with its text in Extra."""

from __future__ import annotations

import re
from typing import Any

from embedded.compile.binding import bind
from embedded.compile.plan import Insert, Query, ResultColumn, Statement
from embedded.compile.statement import compile_statement
from embedded.compile.text.literal_lifting import lift
from embedded.compile.values.types import DOUBLE, UNSIGNED_BIGINT, meta, varchar
from embedded.session.results import RowsResult, fixed_rows
from embedded.session.state import State

_STEP = re.compile(r"(?P<how>SCAN|SEARCH) (?P<table>\S+)(?: .*?USING (?:COVERING )?INDEX (?P<index>\S+))?")
_COLUMNS = tuple(
    ResultColumn(meta(sql_type, name), sql_type)
    for name, sql_type in (
        ("id", UNSIGNED_BIGINT),
        ("select_type", varchar(19)),
        ("table", varchar(64)),
        ("partitions", varchar(64)),
        ("type", varchar(10)),
        ("possible_keys", varchar(4096)),
        ("key", varchar(64)),
        ("key_len", varchar(64)),
        ("ref", varchar(1024)),
        ("rows", UNSIGNED_BIGINT),
        ("filtered", DOUBLE),
        ("Extra", varchar(255)),
    )
)


async def explain(state: State, sql: str) -> RowsResult:
    """How SQLite would carry out the statement."""
    lifted = lift(sql, None, state.lexical, state.look_up)
    plan = compile_statement(lifted.shape, lifted.values, state.schema, state.modes).plan
    statement = plan.statement if isinstance(plan, (Query, Insert)) else plan.statements[0]
    rows = await _plan(state, statement, lifted.values)
    kind = "SIMPLE" if isinstance(plan, Query) else lifted.shape.split()[0].upper()
    return fixed_rows(_COLUMNS, [_row(kind, detail) for _, _, _, detail in rows])


async def _plan(state: State, statement: Statement, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    params = bind(statement.binds, values, await state.dynamics(statement.binds))
    text = f"EXPLAIN QUERY PLAN {statement.sql}"
    worker = state.transaction.worker
    if worker is not None:
        return await state.database.run(worker, lambda connection: connection.fetch_all(text, params))
    return await state.database.read(lambda connection: connection.fetch_all(text, params))


def _row(kind: str, detail: str) -> tuple[Any, ...]:
    step = _STEP.match(detail)
    table = step["table"] if step else None
    how = None if step is None else "ALL" if step["how"] == "SCAN" else "ref"
    index = step["index"].split(":", 1)[-1] if step and step["index"] else None
    if step is not None and index is None and "PRIMARY KEY" in detail:
        index, how = "PRIMARY", "eq_ref"
    return (1, kind, table, None, how, None, index, None, None, None, None, detail)
