"""INSERT into a known queue, in the table's terms.

Vitess's first layout needs its times and its epoch, which have no defaults, and Vitess's proxy filled them in. A client
that names `state`, which cannot be set, names every column: NULLs of the queue's own columns then mean no value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from engine.model.queue import SYSTEM_COLUMNS, Layout, QueueSpec
from rewriter.errors import UnsupportedSql
from rewriter.grammar.due import due_sql
from rewriter.grammar.statements import InsertQueue
from rewriter.plan import Effects, Execute, Passthrough, Plan
from rewriter.text.tokens import Token

_TIMES = ("time_scheduled", "time_next")


def insert_plan(statement: InsertQueue, spec: QueueSpec, now_sql: str) -> Plan:
    """The INSERT with the columns that its table requires; unchanged where nothing is missing."""
    effects = insert_effects(statement, spec)
    named = {column.lower() for column in statement.columns}
    due = due_columns(statement, {column.name.lower() for column in spec.columns}, now_sql)
    if not due and "state" in named and "state" not in (column.lower() for column in spec.message_columns):
        return Execute(with_defaults(statement, (*statement.nulls, *statement.shown)), effects)
    if not due and statement.shown and spec.layout is not Layout.LEGACY:
        return Execute(with_defaults(statement, statement.shown), effects)
    added = missing_columns(statement, spec, now_sql) | due
    return Execute(with_columns(statement, added), effects) if added else Passthrough(effects)


def missing_columns(statement: InsertQueue, spec: QueueSpec, now_sql: str) -> dict[str, str]:
    """Required columns of the table that the INSERT does not name."""
    named = {column.lower() for column in statement.columns}
    return {name: value for name, value in legacy_defaults(spec, now_sql).items() if name not in named}


def due_columns(statement: InsertQueue, has: Collection[str], now_sql: str) -> dict[str, str]:
    """The values of DELAY or AT for the columns that a table has; empty where the INSERT has neither.

    Raises:
        UnsupportedSql: the INSERT sets one of them itself.
        InvalidOption: it is no duration, or no date and time.
    """
    if statement.due is None:
        return {}
    conflicts = [column for column in statement.columns if column.lower() in (*_TIMES, "state")]
    if conflicts:
        raise UnsupportedSql(f"DELAY and AT set {' and '.join(_TIMES)}, so such an INSERT cannot give {conflicts[0]}")
    time = due_sql(statement.due, now_sql)
    if "time_scheduled" not in has:
        return {"time_next": time}
    return {"time_scheduled": time} | ({"time_next": "time_scheduled"} if "time_next" in has else {})


def legacy_defaults(spec: QueueSpec, now_sql: str) -> dict[str, str]:
    """What Vitess's proxy gave an INSERT, in an order in which each value may use the columns before it."""
    if spec.layout is not Layout.LEGACY:
        return {}
    return {"time_scheduled": now_sql, "time_next": "time_scheduled", "epoch": "0", "time_created": now_sql}


def insert_effects(statement: InsertQueue, spec: QueueSpec) -> Effects:
    """The effects that the scanner would report."""
    queue = frozenset((spec.name,))
    if statement.changes:
        return Effects(touched=queue, uncertain=queue)
    return Effects(touched=queue, tally=(spec.name, "enqueued"))


def with_defaults(statement: InsertQueue, values: Iterable[tuple[int, Token]]) -> str:
    """The statement's text with DEFAULT for these values of the queue's own columns, as if they had not been named."""
    own = [column.lower() in SYSTEM_COLUMNS for column in statement.columns]
    parts, end = [], 0
    for number, token in sorted(values, key=lambda value: value[1].start):
        if number < len(own) and own[number]:
            parts += [statement.sql[end : token.start], "DEFAULT"]
            end = token.end
    return "".join((*parts, statement.sql[end:]))


def with_columns(statement: InsertQueue, added: Mapping[str, str]) -> str:
    """The statement's text with these columns, and their values in every row."""
    sql, parts, end = statement.sql, [], 0
    if statement.assigns:
        texts = ["".join(f", {name} = {value}" for name, value in added.items())]
    else:
        row = "".join(f", {value}" for value in added.values())
        texts = ["".join(f", {name}" for name in added), *(row for _ in statement.places[1:])]
    for place, text in zip(statement.places, texts, strict=True):
        parts += [sql[end:place], text]
        end = place
    return "".join((*parts, sql[end:]))
