"""ACK and UPDATE on a known queue, in the table's terms.

An ack is `UPDATE q SET time_acked = now, time_next = NULL WHERE (...) AND time_acked IS NULL`, however it is written:
because of the guard, affected rows counts messages that changed, and a second ack counts none. In a consumer group's
queue it is a DELETE.
"""

from __future__ import annotations

from dataclasses import replace

from engine.model.pins import Pins
from engine.model.queue import SOUGHT_COLUMN, MessageId, QueueSpec
from rewriter.errors import IncorrectId, UnsupportedSql
from rewriter.grammar.quick_forms import tokens_of
from rewriter.grammar.statements import Ack, Assignment, UpdateQueue
from rewriter.plan import Effects, Execute, Passthrough, Plan
from rewriter.scan.named_ids import KeyKind, delivery_ids, ending, key_kind, names_ids, settled_ids
from rewriter.text.literals import string_literal
from rewriter.text.tokens import Kind, Token, string_value

_ID_MIN, _ID_MAX = -(1 << 63), (1 << 64) - 1


def expand_numbers(statement: Ack, spec: QueueSpec) -> Ack:
    """Plain numbers as a condition where keys are integers, else as the ids they name."""
    if not statement.numbers:
        return statement
    if key_kind(spec) is KeyKind.INTEGER and spec.options.group_key is None:
        return Ack(statement.name, (), f"id IN ({statement.numbers})")
    return Ack(statement.name, tokens_of(statement.numbers), "")


def ack_as_update(statement: Ack, spec: QueueSpec, now_sql: str) -> Plan:
    """ACK by ids or by condition."""
    condition = ack_condition(statement, spec)
    if statement.ids:
        ids, complete = known_ids(statement.ids, spec)
        settled = ((spec.name, ids),) if ids else ()
        effects = Effects(settled=settled, uncertain=frozenset(() if complete else (spec.name,)))
    else:
        effects = _ending(spec, condition.encode("utf-8", "surrogatepass"))
    effects = replace(effects, tally=(spec.name, "acked"))
    hint = key_hint(condition, spec, by_id=bool(statement.ids or effects.settled))
    if spec.options.topic is not None:
        return Execute(_ack_in_consumer_group(condition, spec, hint), effects, pins=Pins.VERB)
    table = f"{spec.name.sql}{hint}"
    assignments = f"time_acked = {now_sql}, time_next = NULL"
    sql = f"UPDATE {table} SET {assignments} WHERE ({condition}) AND time_acked IS NULL"
    return Execute(sql, effects, pins=Pins.VERB)


def _ending(spec: QueueSpec, condition: bytes) -> Effects:
    ids = settled_ids(condition, key_kind(spec))
    if ids is None and (ids := delivery_ids(condition, key_kind(spec))) is not None:
        return replace(ending(spec.name, ids), if_all=len(set(ids)))
    return ending(spec.name, ids)


def key_hint(condition: str, spec: QueueSpec, *, by_id: bool) -> str:
    """An index hint after the table's name, so that a server finds the messages that a condition names by their ids.
    `by_id`: it is known to name ids; else the condition is checked.

    In a table of few rows it would instead read and lock all unacked messages, and the gap after them, so that no
    client could add a message until this client's transaction ends.
    """
    has_key = any(index.name == "PRIMARY" and index.columns == ("id",) for index in spec.indexes)
    return " FORCE INDEX (PRIMARY)" if has_key and (by_id or names_ids(condition)) else ""


def _ack_in_consumer_group(condition: str, spec: QueueSpec, hint: str) -> str:
    """The message stays in its topic, so the group's copy goes at once. A message that a seek brought back cannot be
    acked before it is delivered again. From then on only a lease_token tells a late ack from that of its receiver."""
    table, delivered = spec.name.sql, f"(epoch > 0 OR {SOUGHT_COLUMN} = 0)"
    head = f"DELETE {table} FROM {table}{hint}" if hint else f"DELETE FROM {table}"
    return f"{head} WHERE ({condition}) AND time_acked IS NULL AND {delivered}"


def ids_condition(tokens: tuple[Token, ...], spec: QueueSpec) -> str:
    """The condition for these ids. Raises IncorrectId, UnsupportedSql."""
    kind = key_kind(spec)
    return f"id IN ({', '.join(_id_literal(token, spec, kind) for token in tokens)})"


def ack_condition(statement: Ack, spec: QueueSpec) -> str:
    """Which messages an ACK names, unacked or not."""
    return ids_condition(statement.ids, spec) if statement.ids else statement.condition


def _id_literal(token: Token, spec: QueueSpec, kind: KeyKind) -> str:
    """The id as SQL in the key's own type: a database would compare '5' with numbers, and 5 with texts, as floats."""
    if token.kind is Kind.PARAMETER:
        return token.text
    if token.kind is Kind.NUMBER and not token.text.removeprefix("-").isdecimal():
        raise UnsupportedSql(f"'{token.text}' is not a message id: write a whole number, or WHERE id = ...")
    if token.kind is Kind.BYTES and kind is KeyKind.INTEGER:
        raise IncorrectId(f"Incorrect integer value: {token.text} for column 'id' of queue '{spec.name.table}'")
    if kind is KeyKind.TEXT and token.kind is Kind.NUMBER:
        return string_literal(token.text)
    return _integer(_id_text(token), spec) if kind is KeyKind.INTEGER else token.text


def _id_text(token: Token) -> str:
    return string_value(token.text) if token.kind is Kind.STRING else token.text


def _integer(text: str, spec: QueueSpec) -> str:
    if not (text.isascii() and text.removeprefix("-").isdecimal()):
        raise IncorrectId(f"Incorrect integer value: '{text}' for column 'id' of queue '{spec.name.table}'")
    if len(text) > len(str(_ID_MAX)) or not _ID_MIN <= int(text) <= _ID_MAX:
        raise IncorrectId(f"Out of range value: '{text}' for column 'id' of queue '{spec.name.table}'")
    return text


def known_ids(tokens: tuple[Token, ...], spec: QueueSpec) -> tuple[tuple[MessageId, ...], bool]:
    """The ids that are certain from the text, and whether these are all."""
    kind = key_kind(spec)
    known = [] if kind is KeyKind.OTHER else [_id_text(t) for t in tokens if t.kind not in (Kind.PARAMETER, Kind.BYTES)]
    return tuple(int(text) if kind is KeyKind.INTEGER else text for text in known), len(known) == len(tokens)


# --- UPDATE


def ends_messages(statement: UpdateQueue) -> bool:
    """Whether an UPDATE may mark messages as acked."""
    by_column = {assignment.column.lower(): assignment.value for assignment in statement.assignments}
    acked = by_column.get("time_acked")
    return "state" in by_column or (acked is not None and [token.word for token in acked] != ["NULL"])


def update_sql(statement: UpdateQueue) -> str:
    """The statement as it was written."""
    assignments = ", ".join(assignment.text for assignment in statement.assignments)
    condition = f" WHERE {statement.condition}" if statement.condition else ""
    return f"{statement.head} SET {assignments}{condition}{f' {statement.tail}' if statement.tail else ''}"


def update_plan(statement: UpdateQueue, spec: QueueSpec, now_sql: str) -> Plan:
    """UPDATE q SET state = 'acked' is an ack; Vitess's ack and all other updates go to the database unchanged."""
    by_column = {assignment.column.lower(): assignment for assignment in statement.assignments}
    state = by_column.get("state")
    if state is not None and "state" not in (column.lower() for column in spec.message_columns):
        _check_state(state)
        effects = _update_effects(statement, spec)
        hint = key_hint(statement.condition, spec, by_id=bool(effects.settled))
        return Execute(_acking_sql(statement, hint, by_column, now_sql), effects, pins=Pins.ROWS)
    acked = by_column.get("time_acked")
    if acked is not None and _is_time(acked.value):
        return Passthrough(_update_effects(statement, spec))
    queue = frozenset((spec.name,))
    return Passthrough(Effects(touched=queue, uncertain=queue))


def _check_state(assignment: Assignment) -> None:
    value = assignment.value
    if len(value) != 1 or value[0].kind is not Kind.STRING or string_value(value[0].text).lower() != "acked":
        raise UnsupportedSql(
            "state can only be set to 'acked'; it follows from time_acked and epoch. "
            "To send a message again: UPDATE q SET time_next = 0 WHERE id = ..."
        )


def _acking_sql(statement: UpdateQueue, hint: str, by_column: dict[str, Assignment], now_sql: str) -> str:
    """The UPDATE with `state = 'acked'` replaced; what the statement sets itself (another time_acked) stays. `hint`:
    see key_hint."""
    defaults = {"time_acked": f"time_acked = {now_sql}", "time_next": "time_next = NULL"}
    acking = [text for column, text in defaults.items() if column not in by_column]
    assignments: list[str] = []
    for assignment in statement.assignments:
        assignments.extend(acking if assignment.column.lower() == "state" else [assignment.text])
    condition = f"({statement.condition}) AND time_acked IS NULL" if statement.condition else "time_acked IS NULL"
    tail = f" {statement.tail}" if statement.tail else ""
    return f"{statement.head}{hint} SET {', '.join(assignments)} WHERE {condition}{tail}"


def _is_time(value: tuple[Token, ...]) -> bool:
    """Whether the value certainly marks a message as acked."""
    return (
        len(value) == 1
        and value[0].kind is Kind.NUMBER
        and value[0].text.isdecimal()
        and value[0].text.strip("0") != ""
    )


def _update_effects(statement: UpdateQueue, spec: QueueSpec) -> Effects:
    """LIMIT and IGNORE may leave messages out, so only the plain form settles."""
    plain = not statement.tail and "IGNORE" not in statement.head.upper().split()
    condition = statement.condition.encode("utf-8", "surrogatepass")  # bytes that are no characters are carried so
    ids = settled_ids(condition, key_kind(spec)) if plain else None
    return replace(ending(spec.name, ids), tally=(spec.name, "acked"))
