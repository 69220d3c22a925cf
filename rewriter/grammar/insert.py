"""INSERT and REPLACE of one queue, as far as the proxy must add to them or take from them.

INSERT [IGNORE] [INTO] q (column, ...) VALUES (value, ...), ... [AFTER GROUP value OF parts] [ON DUPLICATE KEY ...]
INSERT [IGNORE] [INTO] q SET column = value, ...                [AFTER GROUP value OF parts] [ON DUPLICATE KEY ...]
Both may end with DELAY or AT (rewriter.grammar.due).

Values are not parsed: only the end of each row in the text matters. Everything else (SELECT, no list of columns) goes
to the database unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rewriter.errors import RewriteError, UnsupportedSql
from rewriter.grammar.ack import skip_group
from rewriter.grammar.due import cut_due
from rewriter.grammar.statements import AfterGroup, Bound, InsertQueue, Unbound
from rewriter.text.shown_defaults import is_shown_default
from rewriter.text.tokens import Kind, Token, TokenCursor, string_value

_MODIFIERS = ("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO")
_AFTER_ROWS = ("ON", "RETURNING", "AS", "AFTER")
_GROUP_VALUES = (Kind.NUMBER, Kind.STRING, Kind.PARAMETER)


def parse_replace(cursor: TokenCursor) -> InsertQueue | Unbound | None:
    """REPLACE, which sqlglot's tokenizer does not tokenise: it is read as an INSERT of the same length."""
    start = cursor.take().start
    sql = f"{cursor.sql[:start]}INSERT {cursor.sql[start + len('REPLACE') :]}"
    statement = parse_insert(TokenCursor(sql, cursor.sql_modes))
    if not isinstance(statement, InsertQueue):
        return statement and replace(statement, sql=cursor.sql)
    return replace(statement, sql=cursor.sql[: len(statement.sql)], changes=True)


def parse_insert(cursor: TokenCursor) -> InsertQueue | Unbound | None:
    """None where it is not of this form: the database handles it.

    Raises:
        SqlSyntaxError, UnsupportedSql: it has AFTER GROUP, and is not as that must be.
    """
    grouped = _has_after_group(cursor.tokens)
    parameters = sum(token.kind is Kind.PARAMETER for token in cursor.tokens)
    due = cut_due(cursor)
    if due is Bound.PARAMETER:
        return Unbound(cursor.sql, parameters)
    try:
        statement = _take_insert(cursor)
    except RewriteError:
        if grouped:
            raise
        return None
    if grouped and (statement is None or statement.group is None):
        raise UnsupportedSql(
            "AFTER GROUP follows INSERT INTO q (columns) VALUES (one row), or INSERT INTO q SET column = value; "
            "not INSERT ... SELECT, nor an INSERT without a list of columns"
        )
    return statement if statement is None or due is None else replace(statement, due=due)


def _has_after_group(tokens: list[Token]) -> bool:
    """Not `FROM t after GROUP BY`, where it is an alias."""
    words = [token.word for token in tokens]
    return any(words[i : i + 2] == ["AFTER", "GROUP"] and words[i + 2 : i + 3] != ["BY"] for i in range(len(words)))


def _take_insert(cursor: TokenCursor) -> InsertQueue | None:
    cursor.take_words("INSERT")
    ignores = False
    while cursor.word in _MODIFIERS:
        ignores |= cursor.take().word == "IGNORE"
    name = cursor.take_name()
    assigns = cursor.accept_words("SET")
    if assigns:
        columns, values, place = _take_assignments(cursor)
        places: tuple[int, ...] = (place,)
        nulls, shown = _nulls(values), _shown(columns, values)
    elif cursor.at_symbol("("):
        columns, place = _take_columns(cursor)
        if not (cursor.accept_words("VALUES") or cursor.accept_words("VALUE")) or not columns:
            return None
        values, ends, nulls, shown = _take_rows(cursor, columns)
        places = (place, *ends)
    else:
        return None
    group = _take_group(cursor)
    changes = cursor.word == "ON"
    if cursor.token is not None and cursor.word not in (("ON", "RETURNING") if group else ("ON", "RETURNING", "AS")):
        # What follows would be carried over after what we add: more rows, or the rest of an expression.
        if group is not None:
            raise cursor.error()
        return None
    returns = any(token.word == "RETURNING" for token in cursor.tokens[cursor.position :])
    return InsertQueue(
        name,
        cursor.sql,
        columns,
        values,
        places,
        assigns,
        changes,
        ignores,
        returns,
        group,
        tuple(nulls),
        tuple(shown),
    )


def _take_columns(cursor: TokenCursor) -> tuple[tuple[str, ...], int]:
    """The names, and where the list ends in the text."""
    cursor.take_symbol("(")
    names: list[str] = []
    while not cursor.at_symbol(")"):
        names.append(cursor.take_identifier())
        while cursor.accept_symbol("."):
            names[-1] = cursor.take_identifier()
        if not cursor.accept_symbol(","):
            break
    return tuple(names), _close(cursor)


_Values = list[tuple[int, Token]]


def _take_rows(
    cursor: TokenCursor, columns: Sequence[str]
) -> tuple[tuple[tuple[Token, ...], ...], list[int], _Values, _Values]:
    """The values of the first row, where each row ends in the text, which values are plainly NULL, and which repeat
    a default as a server shows it."""
    first: tuple[tuple[Token, ...], ...] = ()
    places: list[int] = []
    nulls: _Values = []
    shown: _Values = []
    while True:
        cursor.take_symbol("(")
        row: list[tuple[Token, ...]] = []
        while not cursor.at_symbol(")"):
            row.append(_take_value(cursor, (",", ")")))
            if not cursor.accept_symbol(","):
                break
        places.append(_close(cursor))
        first = first or tuple(row)
        nulls += _nulls(row)
        shown += _shown(columns, row)
        if not cursor.accept_symbol(","):
            return first, places, nulls, shown


def _shown(columns: Sequence[str], row: Sequence[tuple[Token, ...]]) -> _Values:
    return [
        (number, value[0])
        for number, (column, value) in enumerate(zip(columns, row, strict=False))
        if len(value) == 1 and value[0].kind is Kind.STRING and is_shown_default(column, string_value(value[0].text))
    ]


def _nulls(row: Sequence[tuple[Token, ...]]) -> _Values:
    return [(number, value[0]) for number, value in enumerate(row) if len(value) == 1 and value[0].word == "NULL"]


def _take_assignments(cursor: TokenCursor) -> tuple[tuple[str, ...], tuple[tuple[Token, ...], ...], int]:
    names: list[str] = []
    values: list[tuple[Token, ...]] = []
    while True:
        names.append(cursor.take_identifier())
        while cursor.accept_symbol("."):
            names[-1] = cursor.take_identifier()
        if not cursor.accept_symbol(":="):
            cursor.take_symbol("=")
        values.append(_take_value(cursor, (",", ";"), _AFTER_ROWS))
        if not cursor.accept_symbol(","):
            return tuple(names), tuple(values), cursor.tokens[cursor.position - 1].end


def _take_value(cursor: TokenCursor, symbols: tuple[str, ...], words: tuple[str, ...] = ()) -> tuple[Token, ...]:
    first = cursor.position
    while cursor.token is not None and cursor.word not in words:
        if any(cursor.at_symbol(symbol) for symbol in symbols):
            break
        skip_group(cursor)
    if cursor.position == first:
        raise cursor.error()
    return tuple(cursor.tokens[first : cursor.position])


def _close(cursor: TokenCursor) -> int:
    token = cursor.token
    cursor.take_symbol(")")
    assert token is not None
    return token.start


def _take_group(cursor: TokenCursor) -> AfterGroup | None:
    """AFTER GROUP value OF queue; a statement may end with `;`."""
    group = None
    if cursor.word == "AFTER":
        start = cursor.take().start
        cursor.take_words("GROUP")
        minus = "-" if cursor.accept_symbol("-") else ""
        value = cursor.token
        if value is None or value.kind not in ((Kind.NUMBER,) if minus else _GROUP_VALUES):
            raise cursor.error("AFTER GROUP takes a number, a quoted string or ?: AFTER GROUP 42 OF parts")
        cursor.position += 1
        cursor.take_words("OF")
        name = cursor.take_name()
        group = AfterGroup(value._replace(text=minus + value.text), name, start, cursor.tokens[cursor.position - 1].end)
    while cursor.accept_symbol(";"):
        pass
    return group
