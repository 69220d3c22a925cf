"""REDRIVE on a known dead-letter queue: what the database is to do, in the tables' terms."""

from __future__ import annotations

from collections.abc import Mapping

from engine.model.identity import numbers_itself
from engine.model.lease_token import TOKEN_COLUMN
from engine.model.queue import SOURCE_ID_COLUMN, QueueCatalog, QueueSpec, quoted, records
from engine.model.states import REDRIVEN_NS, RENUMBERED_NS, not_set_aside
from rewriter.errors import UnsupportedSql
from rewriter.grammar.statements import RedriveQueue
from rewriter.plan import Effects, Redrive


def source_of(dead: QueueSpec, catalog: QueueCatalog) -> QueueSpec:
    """The queue that these are the dead letters of.

    Raises:
        UnsupportedSql: it was dropped, or is unknown; or these are the messages of a consumer group.
    """
    name = dead.name
    owner = dead.options.dead_letter_of
    if owner is not None:
        sources = [queue for queue in catalog if queue.name.database == name.database and queue.name.table == owner]
        why = f"its queue '{owner}' is gone"
    else:
        sources = [q for q in catalog if q.name.database == name.database and q.options.dead_letter == name.table]
        sources += [q for q in catalog if q.options.dead_letter is None and q.dead_letter == name]
        why = "no queue has it for its dead-letter queue" if not sources else "several queues have it for theirs"
    if dead.options.topic is not None:
        sources, why = [], "it is the queue of a consumer group"
    if len(sources) != 1:
        raise UnsupportedSql(f"REDRIVE {name.table} is not possible: {why}; move the messages by INSERT ... SELECT")
    return sources[0]


def redrive_plan(statement: RedriveQueue, dead: QueueSpec, source: QueueSpec, now_sql: str) -> Redrive:
    """The unit of statements."""
    table = dead.name.sql
    redrivable = f"time_acked IS NULL AND {not_set_aside()}"
    condition = f"({statement.condition}) AND {redrivable}" if statement.condition else redrivable
    limit = "" if statement.limit is None else f" LIMIT {statement.limit}"
    marked = f"FROM {table} WHERE time_acked IS NULL AND time_next"
    values = _values(dead, source, now_sql)
    # After a seek a group may have the message in its queue: then that one is the message. One of the same id that was
    # written at another time is of another topic of that name, and the dead letter stays.
    partly = source.options.topic is not None
    there = _there(source, "id")
    same = _there(source, "id", "time_created") if dead.column("time_created") else there
    condition += f" AND (NOT {there} OR {same})" if partly else ""
    renumbers = not partly and numbers_itself(source)
    renumbered = {name: value for name, value in values.items() if name.lower() != "id"} if renumbers else {}
    mark = str(REDRIVEN_NS)
    if renumbers and records(dead, source, SOURCE_ID_COLUMN):  # whose id is not that of its message gets a new one
        mark = f"CASE WHEN {SOURCE_ID_COLUMN} IS NULL THEN {REDRIVEN_NS} ELSE {RENUMBERED_NS} END"
    return Redrive(
        f"UPDATE {table} SET time_next = {mark} WHERE {condition} ORDER BY time_next, id{limit}",
        _copy(source, values, f"{marked} = {REDRIVEN_NS}{f' AND NOT {same}' if partly else ''}"),
        f"DELETE {marked} {f'IN ({REDRIVEN_NS}, {RENUMBERED_NS})' if renumbers else f'= {REDRIVEN_NS}'}",
        Effects(touched=frozenset((source.name,)), uncertain=frozenset((dead.name,))),
        partly,
        f"UPDATE {table} SET time_next = {RENUMBERED_NS} WHERE time_acked IS NULL AND time_next = {REDRIVEN_NS}"
        f" AND {there}"
        if renumbers
        else "",
        _copy(source, renumbered, f"{marked} = {RENUMBERED_NS}") if renumbers else "",
    )


def _there(source: QueueSpec, *columns: str) -> str:
    """Whether the queue has a message that is alike in these columns."""
    own, its = ", ".join(columns), ", ".join(f"there.{name}" for name in columns)
    return f"({own}) IN (SELECT {its} FROM {source.name.sql} AS there)"


def _copy(source: QueueSpec, values: Mapping[str, str], marked: str) -> str:
    columns = ", ".join(map(quoted, values))
    return f"INSERT INTO {source.name.sql} ({columns}) SELECT {', '.join(values.values())} {marked}"


def _values(dead: QueueSpec, source: QueueSpec, now_sql: str) -> dict[str, str]:
    """The value for each column of the queue, by name: as for a new message, except for its identity and history."""
    fixed = {"time_next": now_sql, "epoch": "0", "time_acked": "NULL"}
    if source.has_tokens:
        fixed[TOKEN_COLUMN] = "0"
    values: dict[str, str] = {}
    for column in source.columns:
        name = column.name.lower()
        dead_column = dead.column(name)
        if name in source.generated or (dead_column is None and name not in fixed):
            continue
        values[column.name] = fixed[name] if name in fixed or dead_column is None else quoted(dead_column.name)
    return values
