"""The tables of a database `queuegate` that is nowhere: queuegate.queues, .subscriptions, .in_flight, in any SELECT.

Where one of their names stands in FROM, the executor puts a derived table with the values of the moment; the rest of
the text stays as written, and the database does with it what it can do with any table. `queuegate.queues.ready` becomes
`queues`.ready. A reference without an alias gets the table's own name as one.
"""

from __future__ import annotations

from collections.abc import Iterator

from rewriter.errors import UnsupportedSql
from rewriter.plan import SystemTable
from rewriter.statements import DescribeSystemTable, ListSystemTables, ReadSystemTables
from rewriter.tokens import Kind, Token, TokenCursor, identifier_value, string_value, word_set

DATABASE = "queuegate"

_TABLES = {table.value: table for table in SystemTable}
_READING = frozenset(("SELECT", "WITH", "EXPLAIN", "DESCRIBE", "DESC", "ANALYZE"))
_BEFORE_A_TABLE = frozenset(("FROM", "JOIN", "STRAIGHT_JOIN"))
_END_OF_FROM = word_set("SELECT WHERE GROUP HAVING ORDER LIMIT UNION EXCEPT INTERSECT WINDOW")
# What may follow a table that has no alias; any other word is one.
_NO_ALIAS = _END_OF_FROM | word_set(
    "LEFT RIGHT INNER CROSS NATURAL FULL OUTER JOIN STRAIGHT_JOIN ON USING FOR LOCK INTO PROCEDURE USE FORCE IGNORE"
    " PARTITION OFFSET FETCH TABLESAMPLE SET"
)
Pieces = tuple[str | SystemTable, ...]


def parse_system(cursor: TokenCursor) -> ReadSystemTables | DescribeSystemTable | ListSystemTables | None:
    """A statement that names one of the tables, or lists them; None where it is none. The cursor stays where it is."""
    word = cursor.word
    if word == "SHOW":
        return _shown(cursor.tokens)
    if word not in _READING:
        return None
    described = _described(cursor) if word in ("EXPLAIN", "DESCRIBE", "DESC") else None
    if described is not None:
        return described
    pieces = tuple(_pieces(cursor))
    if len(pieces) == 1:
        return None
    if any(token.kind is Kind.PARAMETER for token in cursor.tokens):
        raise UnsupportedSql(f"a statement on the tables of {DATABASE} takes no ?; write the value into the statement")
    return ReadSystemTables(pieces)


def _name(token: Token | None) -> str:
    """The name that a token is, in lower case; empty where it is none."""
    if token is None or token.kind not in (Kind.WORD, Kind.NAME):
        return ""
    return identifier_value(token).lower()


def _dot(token: Token | None) -> bool:
    return token is not None and token.kind is Kind.SYMBOL and token.text == "."


def _at(tokens: list[Token], place: int) -> Token | None:
    return tokens[place] if 0 <= place < len(tokens) else None


def _named(tokens: list[Token], place: int) -> SystemTable | None:
    """The table whose qualified name begins at that token."""
    if _name(tokens[place]) != DATABASE or not _dot(_at(tokens, place + 1)) or _dot(_at(tokens, place - 1)):
        return None
    return _TABLES.get(_name(_at(tokens, place + 2)))


def _pieces(cursor: TokenCursor) -> Iterator[str | SystemTable]:
    """The text, cut where values go. One piece: it names none of the tables."""
    tokens, done = cursor.tokens, 0
    where = _Where()
    for place, token in enumerate(tokens):
        where.read(tokens, place)
        table = _named(tokens, place)
        if table is None:
            continue
        after = _at(tokens, place + 3)
        if _dot(after):
            yield f"{cursor.sql[done : token.start]}`{table.value}`"
        elif where.table_may_stand(_at(tokens, place - 1)):
            yield cursor.sql[done : token.start]
            yield table
            if not _is_alias(after):
                yield f" AS `{table.value}`"
        else:
            continue
        done = tokens[place + 2].end
    yield cursor.sql[done:]


class _Where:
    """Whether a place is in a FROM clause, at each depth of parentheses."""

    def __init__(self) -> None:
        self._from = [False]

    def read(self, tokens: list[Token], place: int) -> None:
        token, before = tokens[place], _at(tokens, place - 1)
        if token.word in _BEFORE_A_TABLE:
            self._from[-1] = True
        elif token.word in _END_OF_FROM:
            self._from[-1] = False
        elif token.kind is Kind.SYMBOL and token.text == "(":
            self._from.append(self.table_may_stand(before))
        elif token.kind is Kind.SYMBOL and token.text == ")" and len(self._from) > 1:
            self._from.pop()

    def table_may_stand(self, before: Token | None) -> bool:
        """Whether a table may follow that token, here."""
        if before is None or not self._from[-1]:
            return False
        return before.word in _BEFORE_A_TABLE or (before.kind is Kind.SYMBOL and before.text in (",", "("))


def _is_alias(token: Token | None) -> bool:
    return token is not None and (token.kind is Kind.NAME or (token.kind is Kind.WORD and token.word not in _NO_ALIAS))


# --- what describes them


def _described(cursor: TokenCursor) -> DescribeSystemTable | None:
    """DESCRIBE queuegate.queues, and nothing more."""
    tokens = _without_end(cursor.tokens)
    table = _named(tokens, 1) if len(tokens) > 1 else None
    return DescribeSystemTable(table) if table is not None and len(tokens) == 4 else None


def _without_end(tokens: list[Token]) -> list[Token]:
    while tokens and tokens[-1].kind is Kind.SYMBOL and tokens[-1].text == ";":
        tokens = tokens[:-1]
    return tokens


def _shown(tokens: list[Token]) -> DescribeSystemTable | ListSystemTables | None:
    """SHOW [FULL] TABLES FROM queuegate [LIKE '...'], and SHOW [FULL] COLUMNS or FIELDS of one of them."""
    tokens = _without_end(tokens)
    at = 2 if _word(tokens, 1) == "FULL" else 1
    full, what, rest = at == 2, _word(tokens, at), tokens[at + 1 :]
    if what == "TABLES" and _from(rest, 0) and _name(_at(rest, 1)) == DATABASE:
        return _listed(rest[2:], full)
    if what not in ("COLUMNS", "FIELDS") or not _from(rest, 0):
        return None
    if len(rest) == 4 and (table := _named(rest, 1)) is not None:
        return DescribeSystemTable(table)
    if len(rest) == 4 and _from(rest, 2) and _name(rest[3]) == DATABASE and _name(rest[1]) in _TABLES:
        return DescribeSystemTable(_TABLES[_name(rest[1])])
    return None


def _listed(rest: list[Token], full: bool) -> ListSystemTables:
    if not rest:
        return ListSystemTables(None, full)
    if len(rest) == 2 and rest[0].word == "LIKE" and rest[1].kind is Kind.STRING:
        return ListSystemTables(string_value(rest[1].text), full)
    raise UnsupportedSql(f"SHOW TABLES FROM {DATABASE} takes LIKE 'pattern' and nothing else")


def _word(tokens: list[Token], place: int) -> str:
    token = _at(tokens, place)
    return "" if token is None else token.word


def _from(tokens: list[Token], place: int) -> bool:
    return _word(tokens, place) in ("FROM", "IN")
