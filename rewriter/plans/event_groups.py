"""Statements on queues whose messages form groups: what must also be known, before and after they are executed.

A value of a group is read as its digits, or in hexadecimal as UTF-8, so that the character set does not matter.
"""

from __future__ import annotations

import re
from dataclasses import replace

from engine.model.groups import GROUP_VALUE_MAX, GroupKey
from engine.model.identity import numbers_itself
from engine.model.queue import QueueSpec, quoted
from engine.model.states import PARKED_NS
from rewriter.errors import IncorrectId, UnsupportedSql
from rewriter.grammar.statements import Ack, DeleteQueue, InsertQueue, UpdateQueue
from rewriter.plan import EndInGroup, Execute, InsertAfterGroup, Passthrough, Plan
from rewriter.plans.ack import ack_condition, ends_messages, key_hint, update_sql
from rewriter.plans.insert import due_columns, insert_effects, missing_columns, with_columns
from rewriter.scan.named_ids import KeyKind, ending, key_kind, settled_ids
from rewriter.text.tokens import Kind, Token, string_value

_INTEGER = re.compile(r"[+-]?\d{1,20}", re.ASCII)


def ack_in_group(plan: Plan, statement: Ack, spec: QueueSpec, group: GroupKey) -> Plan:
    """ACK by ids or by condition."""
    assert isinstance(plan, Execute)
    condition = ack_condition(statement, spec)
    hint = key_hint(condition, spec, by_id=bool(statement.ids or plan.effects.settled))
    groups_sql = _groups_sql(group, f"{spec.name.sql}{hint}", condition, "")
    return EndInGroup(plan.sql, plan.effects, group, groups_sql, plan.pins)


def update_in_group(plan: Plan, statement: UpdateQueue, group: GroupKey) -> Plan:
    """UPDATE, if it may end messages."""
    assert isinstance(plan, Execute | Passthrough)
    if not ends_messages(statement):
        return plan
    guarded = isinstance(plan, Execute)  # then its condition excludes acked messages
    groups_sql = _groups_sql(group, statement.target, statement.condition, statement.tail, guarded=guarded)
    return EndInGroup(plan.sql if isinstance(plan, Execute) else update_sql(statement), plan.effects, group, groups_sql)


def delete_in_group(statement: DeleteQueue, spec: QueueSpec, group: GroupKey | None) -> Plan:
    """DELETE; without groups it goes to the database unchanged."""
    condition = statement.condition.encode("utf-8", "surrogatepass")
    plain = bool(statement.condition) and not statement.tail
    effects = ending(spec.name, settled_ids(condition, key_kind(spec)) if plain else None)
    effects = replace(effects, tally=(spec.name, "deleted"))
    if group is None:
        return Passthrough(effects)
    groups_sql = _groups_sql(group, statement.target, statement.condition, statement.tail)
    return EndInGroup(statement.sql, effects, group, groups_sql)


def _value_of(group: GroupKey) -> str:
    column = quoted(group.column)
    return column if group.integer else f"HEX(CONVERT({column} USING utf8mb4))"


def _groups_sql(group: GroupKey, target: str, condition: str, tail: str, *, guarded: bool = False) -> str:
    """What reads the groups. With LIMIT it must find the rows that the statement will, acked ones and all."""
    if tail and not guarded:
        waiting = condition or "TRUE"
    else:
        waiting = f"({condition}) AND time_acked IS NULL" if condition else "time_acked IS NULL"
    return f"SELECT {_value_of(group)} FROM {target} WHERE {waiting}{f' {tail}' if tail else ''}"


# --- INSERT ... AFTER GROUP


def insert_after_group(statement: InsertQueue, spec: QueueSpec, group: GroupKey, now_sql: str) -> Plan:
    """INSERT of one message that waits for a group.

    Raises:
        UnsupportedSql: of a form that leaves open which message it is, or when it is due.
    """
    assert statement.group is not None
    _check_form(statement, spec)
    if spec.name.database != group.queue.database:
        raise UnsupportedSql(
            f"AFTER GROUP of a queue in another database is not supported: {spec.name} and {group.queue} are in two"
        )
    clause = statement.group
    plain = replace(statement, sql=statement.sql[: clause.start].rstrip() + statement.sql[clause.end :], group=None)
    filled = missing_columns(statement, spec, now_sql) | due_columns(statement, ("time_scheduled",), now_sql)
    text, numbered = _id_of(statement, spec)
    return InsertAfterGroup(
        parked=with_columns(plain, {**filled, "time_next": str(PARKED_NS)}),
        plain=with_columns(plain, filled),
        effects=insert_effects(plain, spec),
        group=group,
        value=_group_value(clause.value, group),
        follow=spec.name,
        numbered=numbered,
        id=text,
    )


def _check_form(statement: InsertQueue, spec: QueueSpec) -> None:
    if statement.changes or statement.returns or (not statement.assigns and len(statement.places) != 2):
        raise UnsupportedSql(
            "AFTER GROUP follows an INSERT of one message, without ON DUPLICATE KEY UPDATE or RETURNING, not a REPLACE"
        )
    for column in statement.columns:
        if column.lower() in ("time_next", "time_acked"):
            raise UnsupportedSql(f"INSERT ... AFTER GROUP sets {column} itself; to send it later give time_scheduled")
    if statement.due is not None and spec.column("time_scheduled") is None:
        raise UnsupportedSql(f"AFTER GROUP with DELAY or AT needs time_scheduled, and '{spec.name.table}' has none")


def _group_value(token: Token, group: GroupKey) -> str | None:
    if token.kind is Kind.PARAMETER:
        return None
    text = string_value(token.text) if token.kind is Kind.STRING else token.text
    if group.integer:
        if _INTEGER.fullmatch(text) is None:
            raise IncorrectId(f"Incorrect integer value: '{text}' for column '{group.column}' of '{group.queue.table}'")
        return str(int(text))
    if len(text) > GROUP_VALUE_MAX:
        raise UnsupportedSql(f"AFTER GROUP takes a value of up to {GROUP_VALUE_MAX} characters")
    return text


def _id_of(statement: InsertQueue, spec: QueueSpec) -> tuple[str | None, bool]:
    """The explicit id of the INSERT, None if it is bound by `?`; and whether the database generates it."""
    kind = key_kind(spec)
    value = dict(zip((name.lower() for name in statement.columns), statement.values, strict=False)).get("id")
    if value is None:
        if not numbers_itself(spec):
            raise UnsupportedSql(f"INSERT ... AFTER GROUP into '{spec.name.table}' must give the message's id")
        return None, True
    if len(value) == 1 and value[0].kind is Kind.PARAMETER and kind is not KeyKind.OTHER:
        return None, False
    text = string_value(value[0].text) if value[0].kind is Kind.STRING else value[0].text
    is_valid = text.isdecimal() and int(text) > 0 if kind is KeyKind.INTEGER else len(text) <= GROUP_VALUE_MAX
    if kind is KeyKind.OTHER or len(value) != 1 or value[0].kind not in (Kind.NUMBER, Kind.STRING) or not is_valid:
        raise UnsupportedSql("INSERT ... AFTER GROUP takes an id that is a whole number or a quoted string, or none")
    return (str(int(text)) if kind is KeyKind.INTEGER else text), False
