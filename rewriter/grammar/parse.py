"""The grammar of queue statements: tokens in, a node out, or None where the text is ordinary SQL.

What belongs to the language but not to this version is recognised here and refused with what to do instead. The clauses
are in the other modules: create_queue, stream (SELECT ... FROM STREAM), ack (ACK, UPDATE), nack_release_renew (NACK,
RELEASE, RENEW, REJECT, RETRY, and the verbs as functions).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace

from rewriter.errors import RewriteError, SqlSyntaxError, StreamNotExplained, UnsupportedSql
from rewriter.grammar.ack import parse_ack, parse_delete, parse_update, take_condition
from rewriter.grammar.create_queue import parse_alter_queue, parse_create_queue
from rewriter.grammar.insert import parse_insert, parse_replace
from rewriter.grammar.nack_release_renew import parse_call, parse_redrive, parse_release, parse_retry, parse_verb
from rewriter.grammar.quick_forms import quick_ack
from rewriter.grammar.schedules import (
    parse_alter_schedule,
    parse_create_schedule,
    parse_drop_schedule,
    parse_run,
)
from rewriter.grammar.statements import (
    Ack,
    DropQueue,
    ExplainMessages,
    RedriveQueue,
    Retry,
    SelectStream,
    Settle,
    Statement,
    TruncateQueue,
)
from rewriter.grammar.stream import parse_select, parse_stream
from rewriter.grammar.system_tables import DATABASE, parse_system
from rewriter.grammar.topics import (
    cut_group,
    parse_alter_group,
    parse_alter_topic,
    parse_create_group,
    parse_create_topic,
    parse_drop_group,
    parse_drop_topic,
    parse_trace,
)
from rewriter.plan import Kill, ReadSystem, Show, ShowSystem, UseDatabase
from rewriter.text.lexis import leading_verb
from rewriter.text.tokens import Kind, Name, TokenCursor, string_value
from rewriter.views import SHOW_VIEWS, Scope

# What begins so may be ordinary SQL that the tokenizer cannot read: then the database decides.
_ORDINARY_VERBS = frozenset(
    b"SELECT WITH TABLE UPDATE DELETE INSERT REPLACE EXPLAIN DESCRIBE DESC ANALYZE CALL KILL USE SHOW".split()
)

_VERBS_WITH_REASON = frozenset((b"NACK", b"REJECT", b"CALL"))
_READS_STRINGS = re.compile(r"\bFROM\s+STREAM\b|\bqueue_(?:nack|reject)\b", re.IGNORECASE)


def parse(sql: str, sql_modes: Collection[str] = (), database: str | None = None) -> Statement | None:
    """One statement, which may end with `;`. `database`: the session's current one.

    Raises:
        SqlSyntaxError: it begins like a queue statement and continues with an error.
        UnsupportedSql: it is part of the language, but not of this version.
    """
    if (ack := quick_ack(sql)) is not None:
        return ack
    verb = leading_verb(sql.encode("utf-8", "surrogatepass"))[0]
    try:
        # Where no string goes to the database as it is written: a reason, or the condition of a stream.
        plain = verb in _VERBS_WITH_REASON or (verb == b"SELECT" and _READS_STRINGS.search(sql) is not None)
        cursor = TokenCursor(sql, sql_modes, plain_backslashes=plain)
    except RewriteError:
        if verb in _ORDINARY_VERBS:
            return None
        raise
    if cursor.accept_words("SET", "STATEMENT"):
        return _behind_settings(cursor, database)
    while cursor.accept_symbol("("):
        pass
    inside = database == DATABASE
    if (inside or DATABASE in sql.lower()) and (system := parse_system(cursor, inside=inside)) is not None:
        return system
    handler = _HANDLERS.get(cursor.word)
    if handler is None or (cursor.position and handler is not parse_select):
        return None
    return handler(cursor)


_Parse = Callable[[TokenCursor], Statement | None]


def _of_group(parse_statement: _Parse) -> _Parse:
    """A statement on messages, which may name their consumer group."""

    def parse_of_group(cursor: TokenCursor) -> Statement | None:
        group = cut_group(cursor)
        statement = parse_statement(cursor)
        if group is None or not isinstance(statement, Ack | Settle | Retry | RedriveQueue | ExplainMessages):
            return statement
        return replace(statement, name=replace(statement.name, group=group))

    return parse_of_group


def _by_kind(**parsers: _Parse) -> _Parse:
    """Statements of one verb, by the word after it. Of other words they are ordinary SQL."""

    def parse_kind(cursor: TokenCursor) -> Statement | None:
        parser = parsers.get(cursor.peek_word(1))
        if parser is None:
            return None
        cursor.position += 2
        return parser(cursor)

    return parse_kind


def _drop_queue(cursor: TokenCursor) -> Statement:
    if_exists = cursor.accept_words("IF", "EXISTS")
    statement = DropQueue(cursor.take_name(), if_exists)
    cursor.take_end("DROP QUEUE takes one queue")
    return statement


def _truncate(cursor: TokenCursor) -> Statement | None:
    if not cursor.accept_words("TRUNCATE", "QUEUE") or cursor.token is None or cursor.at_symbol(";"):
        return None  # TRUNCATE queue: the table of that name
    statement = TruncateQueue(cursor.take_name())
    cursor.take_end()
    return statement


def _show(cursor: TokenCursor) -> Statement | None:
    cursor.take_words("SHOW")
    for view in SHOW_VIEWS:
        if (name := _accept_view(cursor, view.words)) is None:
            continue
        database = like = None
        if view.scope in (Scope.DATABASE, Scope.TOPIC):
            if view.scope is Scope.TOPIC and cursor.accept_words("ON"):
                name = cursor.take_name()
            database, like = _which_queues(cursor, f"SHOW {view.words}")
        cursor.take_end()
        return Show(view, database or name.database, like, name.table or None)
    if cursor.accept_words("QUEUE"):
        raise cursor.error(
            "there are SHOW QUEUES, SHOW QUEUE STATUS, SHOW QUEUE q OPTIONS, SHOW QUEUE q RANGES, SHOW CREATE QUEUE q"
        )
    return None


def _accept_view(cursor: TokenCursor, words: str) -> Name | None:
    """Take the words and the name in the place of `?`, an empty one where there is none. None: it is another SHOW."""
    before, place, after = (part.split() for part in words.partition("?"))
    start = cursor.position
    if not cursor.accept_words(*before):
        return None
    if not place:
        return Name(None, "")
    dot = cursor.peek(1)
    if after and cursor.peek_word(3 if dot is not None and dot.text == "." else 1) != after[0]:
        cursor.position = start
        return None
    name = cursor.take_name()
    cursor.take_words(*after)
    return name


def _which_queues(cursor: TokenCursor, statement: str) -> tuple[str | None, str | None]:
    """[FROM database] [LIKE 'pattern']."""
    database = like = None
    if cursor.accept_words("FROM") or cursor.accept_words("IN"):
        database = cursor.take_identifier()
    if cursor.accept_words("LIKE"):
        pattern = cursor.accept_kind(Kind.STRING)
        if pattern is None:
            raise cursor.error("LIKE takes a quoted pattern")
        like = string_value(pattern.text)
    elif cursor.word == "WHERE":
        raise UnsupportedSql(f"{statement} WHERE is not supported; use {statement} LIKE 'pattern'")
    return database, like


def _kill(cursor: TokenCursor) -> Statement | None:
    """KILL of a plain number, also with MariaDB's HARD or SOFT; an expression, KILL USER ... go to the database."""
    cursor.take_words("KILL")
    if not cursor.accept_words("HARD"):
        cursor.accept_words("SOFT")
    query_only = cursor.accept_words("QUERY")
    if not query_only:
        cursor.accept_words("CONNECTION")
    number = cursor.accept_kind(Kind.NUMBER)
    if number is None or not number.text.isdecimal() or len(number.text) > 20:  # 2^64 has 20 digits
        return None
    cursor.take_end()
    return Kill(int(number.text), query_only)


def _use(cursor: TokenCursor) -> Statement | None:
    """What is not parsed here goes to the database, which also reports what is wrong with it."""
    cursor.take_words("USE")
    try:
        statement = UseDatabase(cursor.take_identifier())
        cursor.take_end()
    except SqlSyntaxError:
        return None
    return statement


def _behind_settings(cursor: TokenCursor, database: str | None) -> Statement | None:
    """What follows SET STATEMENT: settings of MariaDB for the statement behind FOR, as its Connector/J writes a query
    timeout. What only reads, or is none of the queue's own, is as without them; the others are refused."""
    while cursor.token is not None and not cursor.accept_words("FOR"):
        cursor.take()
    if cursor.token is None or cursor.word in ("SET", "USE"):
        return None
    refused = "SET STATEMENT ... FOR before this statement is not supported (MariaDB Connector/J: no query timeout)"
    if cursor.word in ("INSERT", "REPLACE", "UPDATE", "DELETE"):
        raise UnsupportedSql(refused)
    statement = parse(cursor.sql[cursor.token.start :], cursor.sql_modes, database)
    if isinstance(statement, SelectStream):
        hint = "a stream is no JDBC table either: from Spark use the format 'queuegate' (docs/spark.md)"
        return replace(statement, fault=statement.fault or UnsupportedSql(f"{refused}; {hint}"))
    if statement is None or isinstance(statement, Show | ReadSystem | ShowSystem | Kill | ExplainMessages):
        return statement
    raise UnsupportedSql(refused)


def _explain_delivery(cursor: TokenCursor) -> Statement:
    cursor.position = 3
    return parse_explain_delivery(cursor)


def _explain(cursor: TokenCursor) -> Statement | None:
    cursor.take()
    if cursor.accept_words("DELIVERY", "FOR"):
        return _of_group(_explain_delivery)(cursor)
    statement = parse_select(cursor)
    return replace(statement, fault=StreamNotExplained()) if isinstance(statement, SelectStream) else statement


_HANDLERS: dict[str, _Parse] = {
    "CREATE": _by_kind(
        TOPIC=parse_create_topic, GROUP=parse_create_group, SCHEDULE=parse_create_schedule, QUEUE=parse_create_queue
    ),
    "ALTER": _by_kind(
        GROUP=parse_alter_group, TOPIC=parse_alter_topic, SCHEDULE=parse_alter_schedule, QUEUE=parse_alter_queue
    ),
    "DROP": _by_kind(TOPIC=parse_drop_topic, GROUP=parse_drop_group, SCHEDULE=parse_drop_schedule, QUEUE=_drop_queue),
    "TRUNCATE": _truncate,
    "SHOW": _show,
    "KILL": _kill,
    "USE": _use,
    **dict.fromkeys(("SELECT", "WITH", "TABLE"), parse_select),
    **dict.fromkeys(("EXPLAIN", "DESCRIBE", "DESC", "ANALYZE"), _explain),
    "STREAM": parse_stream,
    "ACK": _of_group(parse_ack),
    "UPDATE": parse_update,
    "DELETE": parse_delete,
    "INSERT": parse_insert,
    "REPLACE": parse_replace,
    "CALL": parse_call,
    **dict.fromkeys(("NACK", "REJECT", "RENEW"), _of_group(parse_verb)),
    "RELEASE": _of_group(parse_release),
    "TRACE": parse_trace,
    "RETRY": _of_group(parse_retry),
    "REDRIVE": _of_group(parse_redrive),
    "RUN": parse_run,
}


LIMIT_DEFAULT, LIMIT_MAX = 20, 1000
"""Messages explained; each is explained in sentences, and no one reads a thousand."""


def parse_explain_delivery(cursor: TokenCursor) -> ExplainMessages:
    """What follows EXPLAIN DELIVERY FOR: q [WHERE condition] [LIMIT n]."""
    name = cursor.take_name()
    condition, limit = "", None
    if cursor.accept_words("WHERE"):
        first = cursor.position
        condition = take_condition(cursor)
        if any(token.kind is Kind.PARAMETER for token in cursor.tokens[first : cursor.position]):
            raise UnsupportedSql("EXPLAIN DELIVERY takes no ?; write the value into the statement")
    if cursor.accept_words("LIMIT"):
        number = cursor.accept_kind(Kind.NUMBER)
        if number is None or not number.text.isdecimal() or not 1 <= int(number.text[:9]) <= LIMIT_MAX:
            raise cursor.error(f"EXPLAIN DELIVERY takes a LIMIT from 1 to {LIMIT_MAX}")
        limit = int(number.text)
    cursor.take_end("EXPLAIN DELIVERY FOR q [WHERE condition] [LIMIT n]")
    return ExplainMessages(name, condition, limit)
