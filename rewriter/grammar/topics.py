"""CREATE TOPIC, CREATE GROUP and what changes them; the clauses for where a reader begins.

CREATE TOPIC [IF NOT EXISTS] t (columns and keys) [WITH (option = value, ...)]
ALTER TOPIC t SET (option = value, ...)
DROP TOPIC [IF EXISTS] t
CREATE GROUP [IF NOT EXISTS] g ON t [START AT beginning] [WITH (option = value, ...)]
ALTER GROUP g ON t SEEK TO beginning | PAUSE | RESUME | SET (option = value, ...)
DROP GROUP [IF EXISTS] g ON t

A beginning is EARLIEST, LATEST, OFFSET n or TIMESTAMP 'yyyy-mm-dd hh:mm:ss' in the session's time zone.
"""

from __future__ import annotations

from engine.model.option_values import OptionValue
from engine.model.queue import Start
from rewriter.errors import UnsupportedSql
from rewriter.grammar.ack import take_id
from rewriter.grammar.beginning import take_beginning
from rewriter.grammar.create_queue import take_items
from rewriter.grammar.statements import (
    AlterGroup,
    AlterTopic,
    Beginning,
    CreateGroup,
    CreateTopic,
    DropGroup,
    DropTopic,
    SeekGroup,
    Statement,
    TraceMessage,
)
from rewriter.grammar.stream import take_new_options, take_options
from rewriter.text.tokens import Kind, Name, TokenCursor

_AFTER_CONDITION = ("DELAY", "REASON", "FOR", "LIMIT")


def parse_trace(cursor: TokenCursor) -> TraceMessage:
    """TRACE MESSAGE id ON topic or queue."""
    cursor.take_words("TRACE", "MESSAGE")
    id_ = take_id(cursor, "TRACE MESSAGE", ("ON",))
    if id_.kind is Kind.PARAMETER:
        raise UnsupportedSql("TRACE MESSAGE takes no ?; write the id into the statement")
    cursor.take_words("ON")
    name = cursor.take_name()
    cursor.take_end("TRACE MESSAGE 101 ON topic")
    return TraceMessage(name, id_)


def parse_create_topic(cursor: TokenCursor) -> CreateTopic:
    """What follows CREATE TOPIC."""
    if_not_exists = cursor.accept_words("IF", "NOT", "EXISTS")
    name = cursor.take_name()
    if not cursor.at_symbol("("):
        raise cursor.error("CREATE TOPIC needs columns: CREATE TOPIC orders (user_id BIGINT, body JSON)")
    items = take_items(cursor)
    options = take_options(cursor) if cursor.accept_words("WITH") else {}
    cursor.take_end("after the columns: WITH (option = value, ...)")
    return CreateTopic(name, if_not_exists, items, options)


def parse_alter_topic(cursor: TokenCursor) -> AlterTopic:
    """What follows ALTER TOPIC."""
    name = cursor.take_name()
    if not cursor.accept_words("SET") or not cursor.at_symbol("("):
        raise cursor.error("ALTER TOPIC t takes SET (option = value, ...)")
    options = take_new_options(cursor)
    cursor.take_end("ALTER TOPIC t takes one SET (option = value, ...)")
    return AlterTopic(name, options)


def parse_drop_topic(cursor: TokenCursor) -> DropTopic:
    """What follows DROP TOPIC."""
    if_exists = cursor.accept_words("IF", "EXISTS")
    statement = DropTopic(cursor.take_name(), if_exists)
    cursor.take_end("DROP TOPIC takes one topic")
    return statement


def _take_group(cursor: TokenCursor) -> tuple[str, Name]:
    """`g ON t`."""
    group = cursor.take_identifier()
    if not cursor.accept_words("ON"):
        raise cursor.error(f"say of which topic the group is: GROUP {group} ON t")
    return group, cursor.take_name()


def parse_create_group(cursor: TokenCursor) -> CreateGroup:
    """What follows CREATE GROUP."""
    if_not_exists = cursor.accept_words("IF", "NOT", "EXISTS")
    group, topic = _take_group(cursor)
    beginning, options = Beginning(Start.LATEST), dict[str, OptionValue]()
    if cursor.accept_words("START", "AT"):
        beginning = take_beginning(cursor)
    if cursor.accept_words("WITH"):
        options = take_options(cursor)
    cursor.take_end("CREATE GROUP g ON t [START AT ...] [WITH (option = value, ...)]")
    return CreateGroup(topic, group, if_not_exists, beginning, options)


def parse_alter_group(cursor: TokenCursor) -> Statement:
    """What follows ALTER GROUP."""
    group, topic = _take_group(cursor)
    if cursor.accept_words("SEEK", "TO"):
        statement: Statement = SeekGroup(topic, group, take_beginning(cursor))
    elif cursor.accept_words("PAUSE"):
        statement = AlterGroup(topic, group, {"paused": 1})
    elif cursor.accept_words("RESUME"):
        statement = AlterGroup(topic, group, {"paused": 0})
    elif cursor.accept_words("SET") and cursor.at_symbol("("):
        statement = AlterGroup(topic, group, take_new_options(cursor))
    else:
        raise cursor.error("ALTER GROUP g ON t takes SEEK TO, SET (option = value, ...), PAUSE or RESUME")
    cursor.take_end("ALTER GROUP g ON t takes one of SEEK TO, SET (...), PAUSE, RESUME")
    return statement


def parse_drop_group(cursor: TokenCursor) -> DropGroup:
    """What follows DROP GROUP."""
    if_exists = cursor.accept_words("IF", "EXISTS")
    group, topic = _take_group(cursor)
    statement = DropGroup(topic, group, if_exists)
    cursor.take_end("DROP GROUP takes one group")
    return statement


def cut_group(cursor: TokenCursor) -> str | None:
    """Take `GROUP name` out of a statement on messages, wherever it is among its clauses; the name, None without.

    GROUP BY stays where it is, and so does everything in parentheses or within a condition.
    """
    depth, in_condition = 0, False
    for place, token in enumerate(cursor.tokens):
        if token.kind is Kind.SYMBOL:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
        in_condition |= token.word == "WHERE" and not depth
        following = cursor.tokens[place + 1] if place + 1 < len(cursor.tokens) else None
        if token.word != "GROUP" or depth or place == 0 or following is None or following.word == "BY":
            continue
        after = cursor.tokens[place + 2] if place + 2 < len(cursor.tokens) else None
        ends = after is None or after.word in _AFTER_CONDITION or (after.kind is Kind.SYMBOL and after.text == ";")
        if following.kind in (Kind.WORD, Kind.NAME) and (ends or not in_condition):
            cursor.position = place + 1
            name = cursor.take_identifier()
            del cursor.tokens[place : place + 2]
            cursor.position = 0
            return name
    return None
