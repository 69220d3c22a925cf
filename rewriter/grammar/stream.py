"""SELECT columns FROM STREAM q [WHERE condition] [LIMIT n] [WAIT n | NOWAIT] [WITH (option = value, ...)].
And STREAM columns FROM q, with the same clauses.

`FROM stream` is also an ordinary table of that name. Ours is only the bare word STREAM with another name after it that
is no clause keyword; whether `stream s` is a table with an alias is decided where the queues are known, so every fault
inside is stored in the node until then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from engine.model.errors import EngineError, InvalidOption
from engine.model.option_values import NS_PER_SECOND, OptionValue, parse_duration
from engine.model.queue import WaitMode
from rewriter.errors import RewriteError, StreamIsNoTable, UnsupportedSql
from rewriter.grammar.ack import skip_group
from rewriter.grammar.beginning import take_beginning
from rewriter.grammar.condition_words import OPERATORS
from rewriter.grammar.nack_release_renew import parse_function_select
from rewriter.grammar.statements import Bound, SelectStream, Statement, StreamClauses, StreamColumn
from rewriter.text.tokens import Kind, Token, TokenCursor, string_value, word_set

V = TypeVar("V")

_LIMIT_DIGITS_MAX = 18  # below 2^63
_COLUMNS_MAX = 4096  # of a table or a result in MySQL; a stream may name one twice

# Words that go on after a table's name: FROM stream WHERE ... is a table called stream.
_CLAUSE_WORDS = word_set(
    "AS WHERE GROUP ORDER HAVING LIMIT WINDOW UNION EXCEPT INTERSECT MINUS JOIN INNER CROSS LEFT RIGHT FULL NATURAL "
    "STRAIGHT_JOIN ON USING FOR LOCK INTO PARTITION USE FORCE IGNORE PROCEDURE TABLESAMPLE WITH WAIT NOWAIT "
    "OFFSET FETCH SET VALUES SELECT"
)
_INSTEAD = {
    "GROUP": "read the queue's table instead: SELECT ... FROM q GROUP BY ...",
    "HAVING": "read the queue's table instead",
    "ORDER": "messages come by priority, then by the time they fell due",
    "UNION": "open a stream for each queue",
    "FOR": "a message that is delivered is leased already",
    "LOCK": "a message that is delivered is leased already",
    "INTO": "a stream goes to the client",
    "OFFSET": "a message that was delivered does not come again before its lease ends",
}
_CLAUSE_NAMES = {"GROUP": "GROUP BY", "ORDER": "ORDER BY", "FOR": "FOR UPDATE or SHARE", "LOCK": "LOCK IN SHARE MODE"}
_JOINS = word_set("JOIN INNER CROSS LEFT RIGHT NATURAL STRAIGHT_JOIN")


def parse_select(cursor: TokenCursor) -> Statement | None:
    """A SELECT that may read a stream, or calls one of the queue's functions; None if it does not."""
    if (function := parse_function_select(cursor)) is not None:
        return function
    place = _find_from_stream(cursor)
    if place is None:
        return None
    nested = cursor.position != 0 or cursor.word != "SELECT" or _depth(cursor.tokens[:place]) != 0
    cursor.position = place + 2
    name = cursor.take_name()
    node = SelectStream(name, (), StreamClauses(), certain=name.database is not None or _certain_clause(cursor))
    try:
        if nested:
            raise StreamIsNoTable
        clauses = take_clauses(cursor)
        cursor.position = 1
        columns = take_columns(cursor)
        if cursor.position != place:
            raise cursor.error()
    except (RewriteError, EngineError) as fault:
        return replace(node, fault=fault)
    return replace(node, columns=columns, clauses=clauses, certain=node.certain or _only_of_streams(clauses))


def _only_of_streams(clauses: StreamClauses) -> bool:
    """Whether one of the clauses is one that no table has, at any position."""
    waits = clauses.wait_mode is not WaitMode.ENDLESS
    return waits or bool(clauses.options) or clauses.since is not None or clauses.until is not None


def _depth(tokens: list[Token]) -> int:
    symbols = [token.text for token in tokens if token.kind is Kind.SYMBOL]
    return symbols.count("(") - symbols.count(")")


def _certain_clause(cursor: TokenCursor) -> bool:
    """Whether a clause follows that no ordinary table reference has."""
    ahead = 2 if cursor.word == "LIMIT" else 0
    return cursor.peek_word(ahead) in ("WAIT", "NOWAIT", "WITH", "SINCE", "UNTIL")


def parse_stream(cursor: TokenCursor) -> SelectStream:
    """Vitess's spelling, which has no other meaning."""
    cursor.take_words("STREAM")
    columns = take_columns(cursor)
    cursor.take_words("FROM")
    name = cursor.take_name()
    return SelectStream(name, columns, take_clauses(cursor), certain=True)


def _find_from_stream(cursor: TokenCursor) -> int | None:
    tokens = cursor.tokens
    for place in range(len(tokens) - 2):
        if tokens[place].word == "FROM" and tokens[place + 1].word == "STREAM" and _may_name(tokens[place + 2]):
            return place
    return None


def _may_name(token: Token) -> bool:
    return token.kind is Kind.NAME or (token.kind is Kind.WORD and token.word not in _CLAUSE_WORDS)


# --- the select list


def take_columns(cursor: TokenCursor) -> tuple[StreamColumn, ...]:
    columns = [_take_column(cursor)]
    while cursor.accept_symbol(","):
        columns.append(_take_column(cursor))
        if len(columns) > _COLUMNS_MAX:
            raise RewriteError("Too many columns", 1117)
    if cursor.word == "AS" or (cursor.token is not None and cursor.word != "FROM" and _may_name(cursor.token)):
        raise UnsupportedSql("Column aliases in a stream are not supported; the columns keep their names")
    if cursor.word != "FROM" and cursor.token is not None and cursor.token.kind is not Kind.WORD:
        raise _expression()
    return tuple(columns)


def _take_column(cursor: TokenCursor) -> StreamColumn:
    first = cursor.position
    if cursor.accept_symbol("*"):
        return StreamColumn((), None, "*")
    token = cursor.token
    if token is None or token.word == "FROM":
        raise cursor.error()
    if token.kind not in (Kind.WORD, Kind.NAME):
        raise _expression()
    if cursor.word in ("DISTINCT", "ALL", "DISTINCTROW"):
        raise UnsupportedSql(f"SELECT {cursor.word} FROM STREAM is not supported; every message comes as it is")
    parts = [cursor.take_identifier()]
    while cursor.accept_symbol("."):
        if cursor.accept_symbol("*"):
            return StreamColumn(tuple(parts), None, cursor.slice(first, cursor.position))
        parts.append(cursor.take_identifier())
    return StreamColumn(tuple(parts[:-1]), parts[-1], cursor.slice(first, cursor.position))


def _expression() -> UnsupportedSql:
    return UnsupportedSql("Expressions in the column list of a stream are not supported; name columns, or *")


# --- what follows the queue's name


def take_clauses(cursor: TokenCursor) -> StreamClauses:
    """WHERE, LIMIT, WAIT or NOWAIT, and WITH, each once, in any order."""
    clauses = StreamClauses()
    seen: set[str] = set()
    while cursor.token is not None and not cursor.at_symbol(";"):
        word = "WAIT" if cursor.word == "NOWAIT" else cursor.word
        if word in seen:
            raise cursor.error(f"{word} given twice")
        seen.add(word)
        clauses = _take_clause(cursor, clauses)
    cursor.take_end()
    return clauses


def _take_clause(cursor: TokenCursor, clauses: StreamClauses) -> StreamClauses:
    if cursor.accept_words("LIMIT"):
        return _take_limit(cursor, clauses)
    if cursor.accept_words("NOWAIT"):
        return replace(clauses, wait_mode=WaitMode.NOWAIT)
    if cursor.accept_words("WAIT"):
        return _take_wait(cursor, clauses)
    if cursor.accept_words("WITH"):
        return replace(clauses, options=tuple(take_options(cursor).items()))
    if cursor.accept_words("WHERE"):
        return _take_where(cursor, clauses)
    if cursor.accept_words("SINCE"):
        return replace(clauses, since=take_beginning(cursor))
    if cursor.accept_words("UNTIL"):
        return replace(clauses, until=take_beginning(cursor))
    raise _refusal(cursor)


def _take_where(cursor: TokenCursor, clauses: StreamClauses) -> StreamClauses:
    """The tokens up to the next clause; they are checked where the queue's columns are known."""
    first = cursor.position
    while cursor.token is not None and not cursor.at_symbol(";") and not _ends_condition(cursor, first):
        skip_group(cursor)
    if cursor.position == first:
        raise cursor.error("a condition is needed")
    tokens = tuple(cursor.tokens[first : cursor.position])
    bound = ("where",) * sum(token.kind is Kind.PARAMETER for token in tokens)
    text = cursor.slice(first, cursor.position)
    parameters = (*clauses.parameters, *bound)
    return replace(clauses, condition=tokens, condition_text=text, parameters=parameters)


def _ends_condition(cursor: TokenCursor, first: int) -> bool:
    """Whether a clause begins. WAIT and NOWAIT may be columns: where something else was to come, they are."""
    word = cursor.word
    if word in ("WAIT", "NOWAIT", "SINCE", "UNTIL"):
        return cursor.position > first and _ends_operand(cursor.tokens[cursor.position - 1])
    return word in ("LIMIT", "WITH", "WHERE") or word in _INSTEAD or (word in _JOINS and not _is_call(cursor))


def _is_call(cursor: TokenCursor) -> bool:
    """LEFT(text, 1) is a function."""
    following = cursor.peek(1)
    return following is not None and following.text == "("


def _ends_operand(token: Token) -> bool:
    if token.kind is Kind.SYMBOL:
        return token.text == ")"
    return token.word not in OPERATORS or token.word in ("NULL", "TRUE", "FALSE")


def _refusal(cursor: TokenCursor) -> RewriteError:
    word = cursor.word
    following = cursor.peek(1)
    if word == "GROUP" and following is not None and following.word != "BY":
        return UnsupportedSql("A stream names its consumer group by WITH (group = 'name')")
    if word in _INSTEAD:
        clause = _CLAUSE_NAMES.get(word, word)
        return UnsupportedSql(f"{clause} is not supported with FROM STREAM by this version; {_INSTEAD[word]}")
    if word in _JOINS or cursor.at_symbol(","):
        return UnsupportedSql("A stream reads one queue; join in a second statement, with the ids received")
    token = cursor.token
    if word == "AS" or (token is not None and _may_name(token)):
        return UnsupportedSql("An alias for a stream is not supported; use the queue's name")
    return cursor.error()


def _take_limit(cursor: TokenCursor, clauses: StreamClauses) -> StreamClauses:
    if cursor.accept_kind(Kind.PARAMETER):
        clauses = replace(clauses, limit=Bound.PARAMETER, parameters=(*clauses.parameters, "limit"))
    else:
        number = cursor.accept_kind(Kind.NUMBER)
        if number is None or not number.text.isdecimal() or len(number.text) > _LIMIT_DIGITS_MAX:
            cursor.position -= number is not None
            raise cursor.error("LIMIT takes a whole number")
        clauses = replace(clauses, limit=int(number.text))
    if cursor.at_symbol(",") or cursor.word == "OFFSET":
        raise UnsupportedSql(f"OFFSET is not supported with FROM STREAM; {_INSTEAD['OFFSET']}")
    return clauses


def _take_wait(cursor: TokenCursor, clauses: StreamClauses) -> StreamClauses:
    clauses = replace(clauses, wait_mode=WaitMode.WAIT)
    if cursor.accept_kind(Kind.PARAMETER):
        return replace(clauses, wait_seconds=Bound.PARAMETER, parameters=(*clauses.parameters, "wait"))
    token = cursor.accept_kind(Kind.NUMBER) or cursor.accept_kind(Kind.STRING)
    if token is None:
        raise cursor.error("WAIT takes seconds, or a duration such as '500ms'")
    value = string_value(token.text) if token.kind is Kind.STRING else token.text
    return replace(clauses, wait_seconds=parse_duration("WAIT", value) / NS_PER_SECOND)


def take_options(cursor: TokenCursor) -> dict[str, OptionValue]:
    """`(name = value, ...)`; a trailing comma is accepted. Values are passed on as text."""
    return _take_list(cursor, _take_option_value)


def take_new_options(cursor: TokenCursor) -> dict[str, OptionValue | None]:
    """As `take_options`, but a value may be DEFAULT or NULL: passed on as None."""
    return _take_list(cursor, _take_new_value)


def _take_new_value(cursor: TokenCursor) -> str | None:
    if cursor.accept_words("DEFAULT") or cursor.accept_words("NULL"):
        return None
    return _take_option_value(cursor)


def _take_list(cursor: TokenCursor, take_value: Callable[[TokenCursor], V]) -> dict[str, V]:
    cursor.take_symbol("(")
    options: dict[str, V] = {}
    while not cursor.accept_symbol(")"):
        name = cursor.take_identifier().lower()
        if name in options:
            raise InvalidOption(f"option '{name}' is given twice")
        cursor.take_symbol("=")
        options[name] = take_value(cursor)
        if not cursor.accept_symbol(","):
            cursor.take_symbol(")")
            break
    return options


def _take_option_value(cursor: TokenCursor) -> str:
    sign = "-" if cursor.accept_symbol("-") else ""
    if number := cursor.accept_kind(Kind.NUMBER):
        return sign + number.text
    if not sign and (text := cursor.accept_kind(Kind.STRING)):
        return string_value(text.text)
    if cursor.accept_kind(Kind.PARAMETER):
        raise UnsupportedSql("? is not supported in a WITH list; write the value")
    raise cursor.error("an option takes a number or a quoted string")
