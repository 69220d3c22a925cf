"""INSERT into a known queue, in the table's terms.

Vitess's first layout needs its times and its epoch, which have no defaults, and Vitess's proxy filled them in. And who
names `state`, which nobody can set, names every column: NULLs of the queue's own columns then stand for nothing.
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
    """The INSERT with what its table cannot do without; unchanged where nothing is missing."""
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
    """What the INSERT does not give of that which the table cannot do without."""
    named = {column.lower() for column in statement.columns}
    return {name: value for name, value in first_layout(spec, now_sql).items() if name not in named}


def due_columns(statement: InsertQueue, has: Collection[str], now_sql: str) -> dict[str, str]:
    """What DELAY or AT gives to the columns that a table has; nothing where the INSERT has neither.

    Raises:
        UnsupportedSql: the INSERT gives one of them itself.
        InvalidOption: it is no duration, or no date and time.
    """
    if statement.due is None:
        return {}
    given = [column for column in statement.columns if column.lower() in (*_TIMES, "state")]
    if given:
        raise UnsupportedSql(f"DELAY and AT set {' and '.join(_TIMES)}, so such an INSERT cannot give {given[0]}")
    time = due_sql(statement.due, now_sql)
    if "time_scheduled" not in has:
        return {"time_next": time}
    return {"time_scheduled": time} | ({"time_next": "time_scheduled"} if "time_next" in has else {})


def first_layout(spec: QueueSpec, now_sql: str) -> dict[str, str]:
    """What Vitess's proxy gave an INSERT, in an order in which each value may use the columns before it."""
    if spec.layout is not Layout.LEGACY:
        return {}
    return {"time_scheduled": now_sql, "time_next": "time_scheduled", "epoch": "0", "time_created": now_sql}


def insert_effects(statement: InsertQueue, spec: QueueSpec) -> Effects:
    """What the scanner would say of it."""
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
