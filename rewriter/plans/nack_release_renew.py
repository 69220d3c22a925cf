"""NACK, RELEASE, RENEW, REJECT and RETRY on a known queue, each a single UPDATE in the table's terms.

What each changes can be read off the rows (engine.model.states), so a second one, or one that comes too late, counts
none:
    NACK      delivered, not acked: due after the delay, or the queue's backoff, with no lease; set aside where it was
              the last of its attempts; a REJECT with on_failure = 'dead_letter'
    RELEASE   in flight: due at once and first in line, the delivery not counted
    RENEW     delivered, not acked: leased for that long from now
    REJECT    not acked: set aside, to be moved to the dead-letter queue
    RETRY     waiting for a later time, not in flight: due at once
None of them changes messages that were parked by hand. NACK, RELEASE and REJECT end the lease, so that its token names
no delivery any more (engine.model.lease_token); with RENEW it stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.model.backoff import failure_delay_sql
from engine.model.identity import last_epoch
from engine.model.lease_token import TOKEN_COLUMN, VOID_BY_CLIENT
from engine.model.option_values import check_receivers_wait
from engine.model.pins import Pins
from engine.model.queue import ERROR_CHARACTERS, ERROR_COLUMNS, ERROR_TYPE, QueueSpec, quoted
from engine.model.states import MARK, REJECTED_NS, in_flight, lease_end, leased, leased_alongside, not_set_aside
from rewriter.errors import UnsupportedSql
from rewriter.grammar.statements import Retry, Settle, Verb
from rewriter.plan import Effects, Execute
from rewriter.plans.ack import ids_condition, key_hint, known_ids
from rewriter.plans.failed_attempts import failure_assignment
from rewriter.scan.named_ids import delivery_ids, key_kind, settled_ids
from rewriter.text.literals import hex_literal

_TEXT_TYPES = frozenset((15, 249, 250, 251, 252, 253, 254))  # VARCHAR, the TEXT family, STRING
_LONG_TEXT_TYPES = frozenset((249, 250, 251, 252))
_CODECS = {"latin1": "cp1252", "utf8": "utf-8", "utf8mb3": "utf-8", "ucs2": "utf-8", "latin2": "iso8859-2"}
_LAST_OF_THREE_BYTES = 0xFFFF
_COUNTERS: Mapping[Verb, str] = {
    Verb.NACK: "nacked",
    Verb.RELEASE: "released",
    Verb.RENEW: "renewed",
    Verb.REJECT: "rejected",
}
_STEP_NS = 1000  # of the databases' clocks


def settle_as_update(statement: Settle, spec: QueueSpec, now_sql: str) -> Execute:
    """A verb by ids or by condition.

    Raises:
        UnsupportedSql: REJECT in a dead-letter queue that has none of its own.
        InvalidOption: RENEW for longer than a receiver may hold messages.
    """
    if statement.verb is Verb.REJECT and spec.options.dead_letter_of and spec.options.dead_letter is None:
        raise UnsupportedSql(
            f"'{spec.name.table}' is a dead-letter queue: REJECT is not supported there;"
            " ACK ends a dead letter, REDRIVE sends it again"
        )
    if statement.verb is Verb.RENEW:
        check_receivers_wait("RENEW ... FOR", statement.duration_ns or 0, spec.options.ack_wait_ns)
    condition = ids_condition(statement.ids, spec) if statement.ids else statement.condition
    fatal = statement.verb is Verb.NACK and spec.options.fails_at_once
    outcome = replace(statement, verb=Verb.REJECT) if fatal else statement  # what is delivered, and fails, is rejected
    table = f"{spec.name.sql}{key_hint(condition, spec, by_id=bool(statement.ids))}"
    head = f"UPDATE {table} SET {_time_next(outcome, spec, now_sql)}"
    reporter_offset = 0
    if (attempt := failure_assignment(statement, spec)) is not None:
        head = f"{head}, {attempt.before}"
        reporter_offset, head = len(head), f"{head}{attempt.after}"
    assignments = [*_errors(statement, spec), *(["epoch = epoch - 1"] if statement.verb is Verb.RELEASE else [])]
    if spec.has_tokens and statement.verb is not Verb.RENEW:
        assignments.append(f"{TOKEN_COLUMN} = {VOID_BY_CLIENT}")
    sql = f"{', '.join([head, *assignments])} WHERE ({condition}) AND {_guard(statement.verb, now_sql)}"
    tally = (spec.name, _COUNTERS[statement.verb])
    effects = replace(_effects(outcome, spec), tally=tally, reason=(statement.reason or "")[:ERROR_CHARACTERS])
    return Execute(sql, effects, _warnings(statement, spec), reporter_offset=reporter_offset, pins=Pins.VERB)


def retry_as_update(statement: Retry, spec: QueueSpec, now_sql: str) -> Execute:
    """RETRY q NOW."""
    is_leased = f"(epoch > 0 AND {leased(MARK)})"
    waiting = f"time_acked IS NULL AND time_next > {now_sql} AND time_next < {REJECTED_NS} AND NOT {is_leased}"
    condition = f"({statement.condition}) AND {waiting}" if statement.condition else waiting
    sql = f"UPDATE {spec.name.sql} SET time_next = {now_sql} WHERE {condition}"
    return Execute(sql, Effects(touched=frozenset((spec.name,))), pins=Pins.VERB)


def _time_next(statement: Settle, spec: QueueSpec, now_sql: str) -> str:
    duration_ns = _whole_microseconds(statement.duration_ns or 0)
    match statement.verb:
        case Verb.NACK:
            return f"time_next = {_after_failure(statement, spec, now_sql)}"
        case Verb.RENEW:
            if not spec.options.tries_alone:
                return f"time_next = {now_sql} + {lease_end(duration_ns)}"
            beside = f"IF({leased_alongside()}, {lease_end(duration_ns, alongside=True)}, {lease_end(duration_ns)})"
            return f"time_next = {now_sql} + {beside}"
        case Verb.REJECT:
            return f"time_next = {REJECTED_NS}"
        case Verb.RELEASE:
            scheduled = spec.column("time_scheduled") is not None
            return f"time_next = LEAST(time_scheduled, {now_sql})" if scheduled else f"time_next = {now_sql}"


def _after_failure(statement: Settle, spec: QueueSpec, now_sql: str) -> str:
    """When a message is delivered again after a failed attempt; one without attempts left is set aside."""
    delay = (
        failure_delay_sql(spec) if statement.duration_ns is None else f"{_whole_microseconds(statement.duration_ns)}"
    )
    again = now_sql if delay == "0" else f"{now_sql} + {delay}"
    last = last_epoch(spec, spec.options.max_attempts)
    return f"IF(epoch >= {last}, {REJECTED_NS}, {again})" if last else again


def _whole_microseconds(duration_ns: int) -> int:
    return duration_ns - duration_ns % _STEP_NS


def _guard(verb: Verb, now_sql: str) -> str:
    if verb is Verb.RELEASE:
        return in_flight(now_sql, MARK)
    delivered = "" if verb is Verb.REJECT else " AND epoch > 0"
    return f"time_acked IS NULL{delivered} AND {not_set_aside()}"


# --- reasons


def _reason_columns(spec: QueueSpec) -> list[str]:
    """The columns that take a reason."""
    return [name for name in ERROR_COLUMNS if (c := spec.column(name)) is not None and c.type in _TEXT_TYPES]


def _errors(statement: Settle, spec: QueueSpec) -> list[str]:
    if statement.reason is None:
        return []
    texts = {name: _reason(statement.reason, name, spec) for name in _reason_columns(spec)}
    return [
        f"{name} = COALESCE({name}, {text})" if name == "first_error" else f"{name} = {text}"
        for name, text in texts.items()
    ]


def _reason(text: str, column: str, spec: QueueSpec) -> str:
    """As SQL that the column takes, whatever the text is: a message must be rejectable."""
    readable = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    charset = dict(spec.narrow).get(column)
    if charset is not None:  # what it lacks becomes a question mark, where a server would refuse the whole
        codec = _CODECS.get(charset, "ascii")
        readable = readable.encode(codec, "replace").decode(codec)
        readable = "".join("?" if ord(c) > _LAST_OF_THREE_BYTES else c for c in readable)
    return hex_literal(readable[: _room(spec, column)])


def _room(spec: QueueSpec, name: str) -> int:
    """How many characters of a reason a column surely holds."""
    column = spec.column(name)
    assert column is not None
    # A length is in bytes of utf8mb4, also where a column of the TEXT family can store that many bytes of its own
    # charset.
    return min(column.length // (16 if column.type in _LONG_TEXT_TYPES else 4), ERROR_CHARACTERS)


def _warnings(statement: Settle, spec: QueueSpec) -> tuple[str, ...]:
    missing = [name for name in ERROR_COLUMNS if name not in _reason_columns(spec)]
    if statement.reason is None or not missing:
        return ()
    adding = ", ".join(f"ADD COLUMN {name} {ERROR_TYPE}" for name in missing)
    return (
        f"queue '{spec.name.table}' has no column for the reason, which is dropped;"
        f" ALTER TABLE {quoted(spec.name.table)} {adding} would keep it",
    )


# --- effects


def _effects(statement: Settle, spec: QueueSpec) -> Effects:
    queue = frozenset((spec.name,))
    if_all = 0
    if statement.ids:
        ids, certain = known_ids(statement.ids, spec)
    else:
        condition, kind = statement.condition.encode("utf-8", "surrogatepass"), key_kind(spec)
        exact_ids = settled_ids(condition, kind)
        if exact_ids is None and (exact_ids := delivery_ids(condition, kind)) is not None:
            if_all = len(set(exact_ids))
        ids, certain = exact_ids or (), exact_ids is not None
    named = ((spec.name, ids),) if ids else ()
    uncertain = frozenset() if certain else queue
    if statement.verb is Verb.REJECT:
        return Effects(settled=named, uncertain=uncertain, rejected=queue, if_all=if_all)
    touched = frozenset() if statement.verb is Verb.RENEW else queue
    # Which messages were out of their attempts the engine knows by their ids.
    rejected = uncertain if statement.verb is Verb.NACK and spec.options.max_attempts else frozenset()
    delay_ns = _delay_ns(statement)
    return Effects(touched, changed=named, uncertain=uncertain, rejected=rejected, if_all=if_all, delay_ns=delay_ns)


def _delay_ns(statement: Settle) -> int | None:
    """See Effects. What is due at once is not put off."""
    if statement.verb not in (Verb.NACK, Verb.RENEW):
        return None
    return 0 if statement.duration_ns is None else _whole_microseconds(statement.duration_ns) or None
