"""CREATE SCHEDULE and what changes, runs and shows schedules.

CREATE SCHEDULE [IF NOT EXISTS] s ON q CRON '0 2 * * *' [TIME ZONE 'Europe/Berlin'] [(columns)] VALUES (values)
    [WITH (missed = 'once')]
CREATE SCHEDULE [IF NOT EXISTS] s ON q EVERY '15m' [(columns)] VALUES (values) [WITH (missed = 'once')]
ALTER SCHEDULE s PAUSE | RESUME | SET (cron = '...', time_zone = '...', every = '...', missed = '...')
DROP SCHEDULE [IF EXISTS] s
RUN SCHEDULE s

Values are literals: a client that creates a schedule must not have the proxy's own account evaluate anything.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.model.errors import InvalidOption
from engine.model.option_values import OptionValue
from engine.model.queue import QueueName
from engine.model.schedules import (
    VALUES_MAX_BYTES,
    Cron,
    Missed,
    Number,
    Rule,
    ScheduleName,
    SpecialValue,
    Value,
    read_every,
    read_missed,
    values_text,
)
from rewriter.errors import UnsupportedSql
from rewriter.grammar.statements import Unbound
from rewriter.grammar.stream import take_new_options, take_options
from rewriter.plan import AlterSchedule, CreateSchedule, DropSchedule, RunSchedule
from rewriter.text.tokens import Kind, Token, TokenCursor, bytes_value, string_value

_CONSTANTS: Mapping[str, Value] = {
    "NULL": None,
    "TRUE": True,
    "FALSE": False,
    "DEFAULT": SpecialValue.DEFAULT,
    "TICK": SpecialValue.TICK,
}
_LITERALS_ONLY = (
    "a schedule's VALUES are literals: strings, numbers, X'..', NULL, TRUE, FALSE, DEFAULT, and TICK for the time of"
    " the tick in nanoseconds; for anything else give the column a DEFAULT"
)
_FORM = "CREATE SCHEDULE s ON q CRON '0 2 * * *' (columns) VALUES (...), or EVERY '15m' in place of CRON"
_SETS = ("cron", "time_zone", "every", "missed")
_ALTERS = "ALTER SCHEDULE s takes PAUSE, RESUME or SET (option = value, ...)"


def parse_create_schedule(cursor: TokenCursor) -> CreateSchedule | Unbound:
    """What follows CREATE SCHEDULE."""
    parameters = sum(token.kind is Kind.PARAMETER for token in cursor.tokens)
    if parameters:
        return Unbound(cursor.sql, parameters)
    if_not_exists = cursor.accept_words("IF", "NOT", "EXISTS")
    name = _take_schedule(cursor)
    if not cursor.accept_words("ON"):
        raise cursor.error(f"say for which queue it is: {_FORM}")
    target = cursor.take_name()
    rule = _take_rule(cursor)
    columns = _take_columns(cursor)
    if not (cursor.accept_words("VALUES") or cursor.accept_words("VALUE")):
        raise cursor.error(_FORM)
    values = _take_values(cursor)
    if cursor.at_symbol(","):
        raise UnsupportedSql("a schedule sends one message at each tick: give one row of VALUES")
    options = take_options(cursor) if cursor.accept_words("WITH") else {}
    cursor.take_end("after VALUES (...): WITH (missed = 'once')")
    return CreateSchedule(
        name, QueueName(target.database or "", target.table), if_not_exists, rule, columns, values, _missed(options)
    )


def _take_schedule(cursor: TokenCursor) -> ScheduleName:
    name = cursor.take_name()
    return ScheduleName(name.database or "", name.table)


def _missed(options: Mapping[str, OptionValue]) -> Missed:
    for option in options:
        if option != "missed":
            raise InvalidOption(f"unknown option '{option}' of a schedule; allowed: missed")
    return read_missed(options["missed"]) if "missed" in options else Missed.ONCE


def _take_rule(cursor: TokenCursor) -> Rule:
    if cursor.accept_words("CRON"):
        text = _take_string(cursor, "CRON takes a quoted text: CRON '0 2 * * *'")
        if cursor.accept_words("TIME", "ZONE"):
            return Cron(text, _take_string(cursor, "TIME ZONE takes a quoted name: 'Europe/Berlin'"))
        return Cron(text, "UTC")
    if not cursor.accept_words("EVERY"):
        raise cursor.error(_FORM)
    number = cursor.accept_kind(Kind.NUMBER)
    rule = read_every(number.text if number else _take_string(cursor, "EVERY takes a duration: EVERY '15m'"))
    if cursor.accept_words("TIME", "ZONE"):
        raise UnsupportedSql("EVERY counts from 1970-01-01 00:00 UTC and has no TIME ZONE; for times of a day say CRON")
    return rule


def _take_string(cursor: TokenCursor, hint: str) -> str:
    token = cursor.accept_kind(Kind.STRING)
    if token is None:
        raise cursor.error(hint)
    return string_value(token.text)


def _take_columns(cursor: TokenCursor) -> tuple[str, ...] | None:
    if not cursor.accept_symbol("("):
        return None
    names = [cursor.take_identifier()]
    while cursor.accept_symbol(","):
        names.append(cursor.take_identifier())
    cursor.take_symbol(")")
    return tuple(names)


def _take_values(cursor: TokenCursor) -> tuple[Value, ...]:
    cursor.take_symbol("(")
    values: list[Value] = []
    while not cursor.accept_symbol(")"):
        values.append(_take_value(cursor))
        if not cursor.accept_symbol(","):
            cursor.take_symbol(")", _LITERALS_ONLY)
            break
    try:
        size = len(values_text(tuple(values)).encode())
    except UnicodeEncodeError:
        raise _not_text() from None
    if size > VALUES_MAX_BYTES:
        raise UnsupportedSql(f"a schedule's values may have {VALUES_MAX_BYTES} bytes together; these have {size}")
    return tuple(values)


def _take_value(cursor: TokenCursor) -> Value:
    sign = "-" if cursor.accept_symbol("-") else ""
    plus = not sign and cursor.accept_symbol("+")
    token = cursor.token
    after = cursor.peek(1)
    ends = after is not None and after.kind is Kind.SYMBOL and after.text in (",", ")")
    if token is None:
        raise cursor.error()
    if not ends or token.kind is Kind.OTHER:
        raise UnsupportedSql(_LITERALS_ONLY)
    value = _number(sign, token) if token.kind is Kind.NUMBER else _literal(token, signed=bool(sign or plus))
    cursor.take()
    return value


def _number(sign: str, token: Token) -> Number:
    try:
        return Number(sign + token.text)
    except ValueError:
        raise UnsupportedSql(_LITERALS_ONLY) from None


def _literal(token: Token, *, signed: bool) -> Value:
    if not signed and token.kind is Kind.STRING:
        text = string_value(token.text)
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise _not_text()
        return text
    if not signed and token.kind is Kind.BYTES:
        return bytes_value(token.text)
    if not signed and token.word in _CONSTANTS:
        return _CONSTANTS[token.word]
    raise UnsupportedSql(_LITERALS_ONLY)


def _not_text() -> UnsupportedSql:
    return UnsupportedSql("a value of a schedule holds bytes that are no character; write it as X'..'")


def parse_alter_schedule(cursor: TokenCursor) -> AlterSchedule:
    """What follows ALTER SCHEDULE."""
    name = _take_schedule(cursor)
    if cursor.accept_words("PAUSE"):
        statement = AlterSchedule(name, paused=True)
    elif cursor.accept_words("RESUME"):
        statement = AlterSchedule(name, paused=False)
    elif cursor.accept_words("SET") and cursor.at_symbol("("):
        statement = _settings(AlterSchedule(name), take_new_options(cursor))
    else:
        raise cursor.error(_ALTERS)
    cursor.take_end(_ALTERS)
    return statement


def _settings(statement: AlterSchedule, options: Mapping[str, OptionValue | None]) -> AlterSchedule:
    for option in options:
        if option not in _SETS:
            raise InvalidOption(f"unknown option '{option}' of a schedule; allowed: {', '.join(_SETS)}")
    cron, zone, every, missed = (options.get(option) for option in _SETS)
    if "every" in options and ("cron" in options or "time_zone" in options):
        raise InvalidOption("every: a schedule has either cron, with a time_zone, or every")
    for option in ("cron", "every"):
        if option in options and options[option] is None:
            raise InvalidOption(f"{option}: give a value; a schedule has one of cron and every")
    return AlterSchedule(
        statement.name,
        cron=None if cron is None else str(cron),
        zone=("UTC" if zone is None else str(zone)) if "time_zone" in options else None,
        every=None if every is None else read_every(every),
        missed=(Missed.ONCE if missed is None else read_missed(missed)) if "missed" in options else None,
    )


def parse_drop_schedule(cursor: TokenCursor) -> DropSchedule:
    """What follows DROP SCHEDULE."""
    if_exists = cursor.accept_words("IF", "EXISTS")
    statement = DropSchedule(_take_schedule(cursor), if_exists)
    cursor.take_end("DROP SCHEDULE takes one schedule")
    return statement


def parse_run(cursor: TokenCursor) -> RunSchedule | None:
    """RUN SCHEDULE s."""
    if not cursor.accept_words("RUN", "SCHEDULE"):
        return None
    statement = RunSchedule(_take_schedule(cursor))
    cursor.take_end("RUN SCHEDULE takes one schedule")
    return statement
