"""EXPLAIN DELIVERY FOR q, and TRACE MESSAGE: the SELECTs that read the rows they ask about.

The rows are read on the client's own connection, with its rights and its condition as written. DELIVERY_COLUMNS lists
the columns of the SELECT, in order; engine.model.explanation turns them into sentences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from engine.model.key_range import SLOT_COLUMN
from engine.model.queue import (
    ATTEMPTS_COLUMN,
    SEQUENCE_COLUMN,
    Layout,
    MessageId,
    QueueName,
    QueueSpec,
    TopicSpec,
    quoted,
)
from engine.model.states import MARK, in_flight
from rewriter.errors import IncorrectId
from rewriter.grammar.parse import LIMIT_DEFAULT
from rewriter.grammar.statements import ExplainMessages
from rewriter.plan import ExplainDelivery, Trace, TraceInQueue
from rewriter.plans.ack import ids_condition, known_ids
from rewriter.scan.named_ids import KeyKind, key_kind, settled_ids
from rewriter.text.tokens import Kind, Name, Token, string_value

_HEX = re.compile(r"\A(?:0x|[xX]')((?:[0-9a-fA-F]{2})+)'?\Z")
_OFFSET_DIGITS_MAX = 18  # below 2^63

DELIVERY_COLUMNS = (
    "now", "id", "epoch", "time_next", "time_acked", "slot", "last_error", "earlier", "held", "failed_attempts",
)  # fmt: skip
"""`earlier`, `held`: with an order_key, the first unacked message of the same key with a smaller id, which with
on_failure=skip has not failed or is due again, and another one of the key that is in flight; NULL without.
`failed_attempts`: for TRACE MESSAGE alone, for they may be long."""


def explain_plan(
    statement: ExplainMessages, spec: QueueSpec, now_sql: str, *, attempts: bool = False
) -> ExplainDelivery:
    """The statement on a known queue. `attempts`: what is stored of the failed ones is read as well."""
    table = spec.name.sql
    # Without a condition: those that wait, in the order of the index, so that no large table is sorted.
    where = f"({statement.condition}) ORDER BY id" if statement.condition else "time_acked IS NULL"
    sql = f"SELECT {_columns(spec, table, now_sql, attempts=attempts)} FROM {table} WHERE {where} LIMIT"
    ids = settled_ids(statement.condition.encode("utf-8", "surrogatepass"), key_kind(spec))
    limit = statement.limit or LIMIT_DEFAULT
    return ExplainDelivery(spec.name, f"{sql} {limit}", ids or (), limit)


def trace_in_queue(id_: Token, spec: QueueSpec, now_sql: str) -> TraceInQueue:
    """TRACE MESSAGE on a known queue. Raises IncorrectId, UnsupportedSql."""
    condition, ids = ids_condition((id_,), spec), _traced_ids(id_, spec)
    delivery = explain_plan(ExplainMessages(Name(None, spec.name.table), condition, 1), spec, now_sql, attempts=True)
    enqueued = "" if spec.column("time_created") is None else f"SELECT time_created FROM {spec.name.sql} WHERE "
    return TraceInQueue(replace(delivery, ids=ids), enqueued and enqueued + condition)


def _traced_ids(id_: Token, spec: QueueSpec) -> tuple[MessageId, ...]:
    """The id of a valid token; none where it has an introducer."""
    if id_.kind is Kind.BYTES:
        return tuple(map(bytes.fromhex, _HEX.findall(id_.text)))
    if id_.kind is Kind.NUMBER and key_kind(spec) is KeyKind.OTHER:
        return (int(id_.text),)
    return known_ids((id_,), spec)[0] or (string_value(id_.text),)


def offset_in(id_: Token, topic: QueueName) -> int:
    """The offset that a statement names. Raises IncorrectId where it is none."""
    if id_.kind is not Kind.NUMBER or not id_.text.isdecimal() or len(id_.text) > _OFFSET_DIGITS_MAX:
        raise IncorrectId(f"Incorrect offset: {id_.text} for topic '{topic.table}'; TRACE MESSAGE takes a whole number")
    return int(id_.text)


def trace_plan(id_: int, topic: TopicSpec, groups: Mapping[str, QueueSpec], now_sql: str) -> Trace:
    """TRACE MESSAGE on a known topic."""
    of_id = ExplainMessages(Name(None, topic.name.table), f"id = {id_}", None)
    queries = [(group, explain_plan(of_id, spec, now_sql, attempts=True)) for group, spec in sorted(groups.items())]
    offset = SEQUENCE_COLUMN if topic.sequenced else "id"
    sql = f"SELECT time_created, {offset} FROM {topic.name.sql} WHERE id = {id_}"
    return Trace(topic.name, id_, sql, tuple(queries))


def _columns(spec: QueueSpec, table: str, now_sql: str, *, attempts: bool) -> str:
    attempts_column = ATTEMPTS_COLUMN if attempts and spec.attempts_stored else "NULL"
    last_error = "last_error" if spec.column("last_error") is not None else "NULL"
    earlier, in_flight_id = _order_key_columns(spec, table, now_sql)
    columns = (
        now_sql,
        f"{table}.id",
        "COALESCE(epoch, 0)",
        "time_next",
        "time_acked",
        SLOT_COLUMN if spec.has_ring else "NULL",
        last_error,
        earlier,
        in_flight_id,
        attempts_column,
    )
    return ", ".join(f"{sql} AS qg_{name}" for sql, name in zip(columns, DELIVERY_COLUMNS, strict=True))


def _order_key_columns(spec: QueueSpec, table: str, now_sql: str) -> tuple[str, str]:
    key = spec.options.order_key
    if key is None or spec.layout is not Layout.CURRENT:
        return "NULL", "NULL"
    same = f"FROM {table} AS qg_other WHERE qg_other.time_acked IS NULL"
    if key != "*":
        same += f" AND qg_other.{quoted(key)} = {table}.{quoted(key)}"
    due = f"qg_other.time_next IS NULL OR qg_other.time_next <= {now_sql}"
    fresh = f" AND (COALESCE(qg_other.epoch, 0) = 0 OR {due})" if spec.options.on_failure == "skip" else ""
    out = in_flight(now_sql, MARK).replace("time_", "qg_other.time_").replace("epoch", "qg_other.epoch")
    return (
        f"(SELECT MIN(qg_other.id) {same} AND qg_other.id < {table}.id{fresh})",
        f"(SELECT MIN(qg_other.id) {same} AND qg_other.id <> {table}.id AND {out})",
    )
