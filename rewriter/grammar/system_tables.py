"""The tables of a database `queuegate` that no server has: queuegate.queues, .topics and so on, in any SELECT.

Where one of their names is in FROM, the executor inserts a derived table with the current values; the rest of the text
stays as written, and the database can do with it what it can do with any table. `queuegate.queues.ready` becomes
`queues`.ready. A reference without an alias gets the table's own name as one. In a session whose current database is
`queuegate` the names need no qualifier.

A SELECT from information_schema with the text 'queuegate' in it queries this database as tools do: `table_schema =
'queuegate'`. Its tables TABLES, COLUMNS and SCHEMATA are replaced in the same manner, by one with our rows added.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.model.queue import quoted
from rewriter.errors import UnsupportedSql
from rewriter.plan import InformationTable, Piece, ReadSystem, ShowSystem, SystemShow
from rewriter.text.queue_names import SYSTEM_DATABASE
from rewriter.text.tokens import Kind, Token, TokenCursor, identifier_value, string_value, word_set
from rewriter.views import SYSTEM_TABLES, View

DATABASE = SYSTEM_DATABASE

_INFORMATION = {table.value.lower(): table for table in InformationTable}
_READING = frozenset(("SELECT", "WITH", "EXPLAIN", "DESCRIBE", "DESC", "ANALYZE"))
_BEFORE_A_TABLE = frozenset(("FROM", "JOIN", "STRAIGHT_JOIN"))
_END_OF_FROM = word_set("SELECT WHERE GROUP HAVING ORDER LIMIT UNION EXCEPT INTERSECT WINDOW")
# What may follow a table that has no alias; any other word is one.
_NO_ALIAS = _END_OF_FROM | word_set(
    "LEFT RIGHT INNER CROSS NATURAL FULL OUTER JOIN STRAIGHT_JOIN ON USING FOR LOCK INTO PROCEDURE USE FORCE IGNORE"
    " PARTITION OFFSET FETCH TABLESAMPLE SET"
)
_DATABASE_QUESTIONS = (["SELECT", "DATABASE", "(", ")"], ["SELECT", "SCHEMA", "(", ")"])


def parse_system(cursor: TokenCursor, *, inside: bool = False) -> ReadSystem | ShowSystem | None:
    """A statement that names one of the tables, or lists them; None where it is none. The cursor stays where it is.

    `inside`: `queuegate` is the current database.

    Raises:
        UnsupportedSql, SqlSyntaxError: it cannot be served.
    """
    word = cursor.word
    if word == "SHOW":
        return _shown(cursor.tokens, inside=inside)
    if word not in _READING:
        return None
    described = _described(cursor, inside=inside) if word in ("EXPLAIN", "DESCRIBE", "DESC") else None
    if described is not None:
        return described
    if inside and _asks_database(_without_end(cursor.tokens)):
        return ShowSystem(SystemShow.CURRENT)
    pieces = tuple(_pieces(cursor, inside=inside))
    if not any(isinstance(piece, View | InformationTable) for piece in pieces):
        return None
    _check_alone(cursor)
    if any(token.kind is Kind.PARAMETER for token in cursor.tokens):
        if not any(isinstance(piece, View) for piece in pieces):
            return None
        raise UnsupportedSql(f"a statement on the tables of {DATABASE} takes no ?; write the value into the statement")
    return ReadSystem(pieces)


def _check_alone(cursor: TokenCursor) -> None:
    """Several statements in a text that is prepared: no server takes them, and the tables are read by a text that is
    sent as a query. Raises SqlSyntaxError."""
    for place, token in enumerate(_without_end(cursor.tokens)):
        if token.kind is Kind.SYMBOL and token.text == ";":
            cursor.position = place + 1
            raise cursor.error()


def _name(token: Token | None) -> str:
    """The name that a token is, in lower case; empty where it is none."""
    if token is None or token.kind not in (Kind.WORD, Kind.NAME):
        return ""
    return identifier_value(token).lower()


def _dot(token: Token | None) -> bool:
    return token is not None and token.kind is Kind.SYMBOL and token.text == "."


def _at(tokens: list[Token], place: int) -> Token | None:
    return tokens[place] if 0 <= place < len(tokens) else None


def _named(tokens: list[Token], place: int) -> View | None:
    """The table whose qualified name begins at that token."""
    return SYSTEM_TABLES.get(_name(_at(tokens, place + 2))) if _qualifies(tokens, place, DATABASE) else None


def _qualifies(tokens: list[Token], place: int, database: str) -> bool:
    """Whether a qualified name begins at that token, with that database."""
    return _name(tokens[place]) == database and _dot(_at(tokens, place + 1)) and not _dot(_at(tokens, place - 1))


def _listing(tokens: list[Token], place: int) -> InformationTable | None:
    """The table of information_schema whose qualified name begins at that token."""
    return _INFORMATION.get(_name(_at(tokens, place + 2))) if _qualifies(tokens, place, "information_schema") else None


def _asks_for_us(tokens: list[Token]) -> bool:
    """Whether a string is the database's name."""
    return any(token.kind is Kind.STRING and string_value(token.text).lower() == DATABASE for token in tokens)


def _unqualified(tokens: list[Token], place: int) -> View | None:
    """The table of a name without a qualifier in its own database."""
    if _dot(_at(tokens, place - 1)) or _dot(_at(tokens, place + 1)):
        return None
    return SYSTEM_TABLES.get(_name(tokens[place]))


def _asks_database(tokens: list[Token]) -> bool:
    """SELECT DATABASE(), and nothing more."""
    return [token.text.upper() for token in tokens] in _DATABASE_QUESTIONS


def _pieces(cursor: TokenCursor, *, inside: bool) -> Iterator[Piece]:
    """The text, cut where values go."""
    tokens, done = cursor.tokens, 0
    listed = inside or _asks_for_us(tokens)
    where = _Where()
    for place, token in enumerate(tokens):
        where.read(tokens, place)
        if inside and (short := _unqualified(tokens, place)) and where.table_may_stand(_at(tokens, place - 1)):
            yield cursor.sql[done : token.start]
            yield short
            if not _is_alias(_at(tokens, place + 1)):
                yield f" AS `{short.table}`"
            done = token.end
            continue
        if inside and _compared_database(tokens, place):
            yield f"{cursor.sql[done : token.start]}'{DATABASE}'"
            done = tokens[place + 2].end
            continue
        table = _named(tokens, place) or (_listing(tokens, place) if listed else None)
        if table is None:
            continue
        after, name = _at(tokens, place + 3), identifier_value(tokens[place + 2])
        if _dot(after):
            yield f"{cursor.sql[done : token.start]}{quoted(name)}"
        elif where.table_may_stand(_at(tokens, place - 1)):
            yield cursor.sql[done : token.start]
            yield table
            if not _is_alias(after):
                yield f" AS {quoted(name)}"
        else:
            continue
        done = tokens[place + 2].end
    yield cursor.sql[done:]


def _compared_database(tokens: list[Token], place: int) -> bool:
    """Whether DATABASE() is a value of a condition there. As a column of the result it would give that column its
    name."""
    before = _at(tokens, place - 1)
    if tokens[place].word not in ("DATABASE", "SCHEMA") or before is None or before.text.upper() in ("SELECT", ","):
        return False
    return [token.text for token in tokens[place + 1 : place + 3]] == ["(", ")"]


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


def _described(cursor: TokenCursor, *, inside: bool) -> ShowSystem | None:
    """DESCRIBE queuegate.queues, and nothing more."""
    table = _one_table(_without_end(cursor.tokens)[1:], inside=inside)
    return None if table is None else ShowSystem(SystemShow.COLUMNS, table)


def _without_end(tokens: list[Token]) -> list[Token]:
    while tokens and tokens[-1].kind is Kind.SYMBOL and tokens[-1].text == ";":
        tokens = tokens[:-1]
    return tokens


def _one_table(rest: list[Token], *, inside: bool) -> View | None:
    """The table, where these tokens are its name and nothing more."""
    if len(rest) == 3:
        return _named(rest, 0)
    if len(rest) == 1 and inside:
        return SYSTEM_TABLES.get(_name(rest[0]))
    return None


_OF_A_TABLE = {
    **dict.fromkeys(("COLUMNS", "FIELDS"), SystemShow.COLUMNS),
    **dict.fromkeys(("INDEX", "INDEXES", "KEYS"), SystemShow.INDEXES),
}


def _shown(tokens: list[Token], *, inside: bool) -> ShowSystem | None:
    """A SHOW about these tables or their database; one about anything else goes to the database."""
    words = _without_end(tokens)[1:]
    full = False
    while _word(words, 0) in ("FULL", "EXTENDED"):
        full = full or words[0].word == "FULL"
        words = words[1:]
    what, rest = _word(words, 0), words[1:]
    if what == "CREATE":
        return _shown_create(rest, inside=inside)
    if what in ("DATABASES", "SCHEMAS"):
        return _listed(SystemShow.DATABASES, rest) if inside else None
    if what == "TABLES":
        return _listed_in(SystemShow.TABLES, rest, full=full, inside=inside)
    if what == "TABLE" and _word(rest, 0) == "STATUS":
        return _listed_in(SystemShow.TABLE_STATUS, rest[1:], full=False, inside=inside)
    if what not in _OF_A_TABLE or not _from(rest, 0):
        return None
    rest, like = _without_like(rest[1:])
    if len(rest) > 2 and _from(rest, len(rest) - 2):  # SHOW COLUMNS FROM queues FROM queuegate
        if _name(rest[-1]) != DATABASE:
            return None
        rest, inside = rest[:-2], True
    table = _one_table(rest, inside=inside)
    return None if table is None else ShowSystem(_OF_A_TABLE[what], table, like, full)


def _shown_create(rest: list[Token], *, inside: bool) -> ShowSystem | None:
    what, rest = _word(rest, 0), rest[1:]
    if what in ("TABLE", "VIEW"):
        table = _one_table(rest, inside=inside)
        return None if table is None else ShowSystem(SystemShow.CREATE_TABLE, table)
    if what in ("DATABASE", "SCHEMA") and len(rest) == 1 and _name(rest[0]) == DATABASE:
        return ShowSystem(SystemShow.CREATE_DATABASE)
    return None


def _listed_in(what: SystemShow, rest: list[Token], *, full: bool, inside: bool) -> ShowSystem | None:
    """A list of tables: of this database where it is named, or where it is the current one and none is named."""
    if _from(rest, 0):
        if _name(_at(rest, 1)) != DATABASE:
            return None
        return _listed(what, rest[2:], full=full)
    return _listed(what, rest, full=full) if inside else None


def _listed(what: SystemShow, rest: list[Token], *, full: bool = False) -> ShowSystem:
    rest, like = _without_like(rest)
    if rest:
        raise UnsupportedSql(f"SHOW {what.value.upper()} of {DATABASE} takes LIKE 'pattern' and nothing else")
    return ShowSystem(what, None, like, full)


def _without_like(rest: list[Token]) -> tuple[list[Token], str | None]:
    if len(rest) >= 2 and rest[-2].word == "LIKE" and rest[-1].kind is Kind.STRING:
        return rest[:-2], string_value(rest[-1].text)
    return rest, None


def _word(tokens: list[Token], place: int) -> str:
    token = _at(tokens, place)
    return "" if token is None else token.word


def _from(tokens: list[Token], place: int) -> bool:
    return _word(tokens, place) in ("FROM", "IN")
