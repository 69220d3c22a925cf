"""ACK, and UPDATE in the forms that end messages.

ACK q 101, 'x', ?      ACK q (101, 102)      ACK q WHERE condition
UPDATE [LOW_PRIORITY] [IGNORE] q [[AS] alias] SET column = value, ... [WHERE condition] [ORDER BY ...] [LIMIT n]
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from rewriter.errors import RewriteError, UnsupportedSql
from rewriter.grammar.statements import Ack, Assignment, DeleteQueue, UpdateQueue
from rewriter.text.tokens import Kind, Name, Token, TokenCursor

_ID_KINDS = (Kind.NUMBER, Kind.STRING, Kind.BYTES, Kind.PARAMETER)
_AFTER_CONDITION = ("ORDER", "LIMIT", "RETURNING")
_NO_MESSAGE = "FALSE"
_NEVER_IN_CONDITION = ("GROUP", "HAVING", "UNION", "WHERE", "SET", "FOR", "INTO", "LOCK")


def parse_ack(cursor: TokenCursor) -> Ack:
    cursor.take_words("ACK")
    name = cursor.take_name()
    if cursor.accept_words("WHERE"):
        condition = take_condition(cursor)
        if cursor.word in _AFTER_CONDITION:
            raise UnsupportedSql(
                f"ACK ... {cursor.word} is not supported; use UPDATE q SET state = 'acked' WHERE ... LIMIT n"
            )
        cursor.take_end()
        return Ack(name, (), condition)
    ids, condition = take_batch(cursor, "ACK")
    cursor.take_end()
    return Ack(name, ids, condition)


def take_batch(cursor: TokenCursor, verb: str, clauses: Collection[str] = ()) -> tuple[tuple[Token, ...], str]:
    """`101, 'x', ?` or the same in parentheses; `clauses` are the words that may follow.

    Returns the ids, and the condition of the statement: empty, or for an empty batch, `()`, one that no message meets.
    """
    in_parentheses = cursor.accept_symbol("(")
    if in_parentheses and cursor.accept_symbol(")"):
        return (), _NO_MESSAGE
    ids = [take_id(cursor, verb, clauses)]
    while cursor.accept_symbol(","):
        ids.append(take_id(cursor, verb, clauses))
    if in_parentheses:
        cursor.take_symbol(")")
    return tuple(ids), ""


def take_id(cursor: TokenCursor, verb: str, clauses: Collection[str] = ()) -> Token:
    """One id."""
    token = cursor.token
    if token is None:
        raise cursor.error(f"{verb} takes ids or a condition: {verb} q 101, 102 or {verb} q WHERE id < 200")
    if token.word == "_BINARY" and (string := cursor.peek(1)) is not None and string.kind is Kind.STRING:
        # How drivers write bytes: an introducer, and a string that holds any byte.
        cursor.position += 1
        token = Token(Kind.BYTES, cursor.sql[token.start : string.end], "", token.start, string.end)
    signed = token.kind is Kind.SYMBOL and token.text in ("-", "+")
    if signed and (number := cursor.peek(1)) is not None and number.kind is Kind.NUMBER:
        cursor.position += 1
        token = Token(Kind.NUMBER, token.text.strip("+") + number.text, "", token.start, number.end)
    if token.kind in _ID_KINDS:
        cursor.refuse_backslash(token.text)
        cursor.position += 1
        following = cursor.token
        if following is None or (following.kind is Kind.SYMBOL and following.text in (",", ")", ";")):
            return token
        if following.word in clauses and following.word:
            return token
        if following.kind is not Kind.SYMBOL:
            raise cursor.error()
    elif token.kind is Kind.WORD or (token.kind is Kind.SYMBOL and token.text in (",", ")", ";")):
        raise cursor.error("an id is a whole number, a quoted string or X'hex'" + ", or ?" * (verb != "TRACE MESSAGE"))
    raise UnsupportedSql(
        f"{verb} takes whole numbers, quoted strings and ?, not an expression near '{cursor.sql[token.start :][:40]}'; "
        f"use {verb} q WHERE id = ..."
    )


def take_condition(cursor: TokenCursor, at_clause: Callable[[TokenCursor], bool] = lambda cursor: False) -> str:
    """A condition up to the end, or to a clause that may follow one. Its parentheses are balanced."""
    first = cursor.position
    while (token := cursor.token) is not None and not (token.kind is Kind.SYMBOL and token.text == ";"):
        if token.word in _AFTER_CONDITION or at_clause(cursor):
            break
        if token.word in _NEVER_IN_CONDITION:
            raise cursor.error()
        skip_group(cursor)
    if cursor.position == first:
        raise cursor.error("a condition is needed")
    return cursor.slice(first, cursor.position)


def skip_group(cursor: TokenCursor) -> None:
    """One token, or all of what a parenthesis opens."""
    if cursor.at_symbol(")"):
        raise cursor.error()
    depth = 0
    while True:
        token = cursor.take()
        if token.kind is Kind.SYMBOL:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0:
            return


def parse_update(cursor: TokenCursor) -> UpdateQueue | None:
    """None where it is not of this form (several joined tables, for example): the database handles it."""
    try:
        return _take_update(cursor)
    except RewriteError:
        return None


def _take_update(cursor: TokenCursor) -> UpdateQueue | None:
    cursor.take_words("UPDATE")
    while cursor.accept_words("LOW_PRIORITY") or cursor.accept_words("IGNORE"):
        pass
    first = cursor.position
    name = _take_target(cursor, ("SET",))
    head, target = cursor.slice(0, cursor.position), cursor.slice(first, cursor.position)
    if not cursor.accept_words("SET"):
        return None
    assignments = [_take_assignment(cursor)]
    while cursor.accept_symbol(","):
        assignments.append(_take_assignment(cursor))
    condition = take_condition(cursor) if cursor.accept_words("WHERE") else ""
    return UpdateQueue(name, head, target, tuple(assignments), condition, _take_tail(cursor))


def _take_target(cursor: TokenCursor, following: tuple[str, ...]) -> Name:
    """A table, perhaps with an alias, before one of these words."""
    name = cursor.take_name()
    if cursor.word not in following and cursor.token is not None and not cursor.at_symbol(";"):
        cursor.accept_words("AS")
        if cursor.token.kind not in (Kind.WORD, Kind.NAME):
            raise cursor.error()
        cursor.position += 1
    return name


def parse_delete(cursor: TokenCursor) -> DeleteQueue | None:
    """None where it is not of this form (several tables, a result set): the database handles it."""
    try:
        return _take_delete(cursor)
    except RewriteError:
        return None


def _take_delete(cursor: TokenCursor) -> DeleteQueue | None:
    cursor.take_words("DELETE")
    while cursor.word in ("LOW_PRIORITY", "QUICK", "IGNORE"):
        cursor.position += 1
    cursor.take_words("FROM")
    first = cursor.position
    name = _take_target(cursor, ("WHERE", *_AFTER_CONDITION))
    target = cursor.slice(first, cursor.position)
    condition = take_condition(cursor) if cursor.accept_words("WHERE") else ""
    if cursor.word not in ("", "ORDER", "LIMIT"):
        return None
    tail = _take_tail(cursor)
    returns = any(token.word == "RETURNING" for token in cursor.tokens)
    return None if returns else DeleteQueue(name, cursor.sql, target, condition, tail)


def _take_assignment(cursor: TokenCursor) -> Assignment:
    first = cursor.position
    column = cursor.take_identifier()
    while cursor.accept_symbol("."):
        column = cursor.take_identifier()
    if not cursor.accept_symbol(":="):
        cursor.take_symbol("=")
    value = cursor.position
    while cursor.token is not None and not (cursor.at_symbol(",") or cursor.at_symbol(";")):
        if cursor.word in ("WHERE", *_AFTER_CONDITION):
            break
        skip_group(cursor)
    if cursor.position == value:
        raise cursor.error()
    return Assignment(column, tuple(cursor.tokens[value : cursor.position]), cursor.slice(first, cursor.position))


def _take_tail(cursor: TokenCursor) -> str:
    first = cursor.position
    while cursor.token is not None and not cursor.at_symbol(";"):
        skip_group(cursor)
    last = cursor.position
    cursor.take_end()
    return cursor.slice(first, last)
