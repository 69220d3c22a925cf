"""Reading definition statements: CREATE, ALTER, DROP, RENAME, TRUNCATE."""

from __future__ import annotations

from embedded.compile.definitions.alter_table import read_alter_table
from embedded.compile.definitions.columns import DefinitionReader
from embedded.compile.definitions.create_table import own_name, read_create_table
from embedded.compile.definitions.statements import (
    AddKey,
    AlterTable,
    CreateDatabase,
    CreateTable,
    CreateView,
    Definition,
    DropDatabase,
    DropKey,
    DropRoutine,
    DropTables,
    RenameTables,
    TruncateTable,
)
from embedded.compile.errors import unsupported
from embedded.compile.schema import Index
from embedded.compile.text.keywords import keywords
from embedded.compile.text.literal_lifting import fill_slots
from embedded.compile.text.tokens import Tokens
from embedded.compile.values.types import DEFAULT_COLLATION

_ROUTINES = ("PROCEDURE", "FUNCTION", "TRIGGER", "EVENT")
_OTHER_OBJECTS = keywords(
    "PROCEDURE FUNCTION TRIGGER EVENT USER ROLE SERVER TABLESPACE LOGFILE SEQUENCE PACKAGE AGGREGATE DEFINER"
)


def read_definition(tokens: Tokens) -> Definition:
    """The statement as a value.

    Raises:
        SqlSyntaxError: 1064.
        UnsupportedSql: objects that this backend does not have.
    """
    match tokens.next().upper:
        case "CREATE":
            return _create(tokens)
        case "ALTER":
            return _alter(tokens)
        case "DROP":
            return _drop(tokens)
        case "RENAME":
            return _rename(tokens)
        case "TRUNCATE":
            tokens.accept("TABLE")
            name = own_name(tokens.qualified_name())
            tokens.finish()
            return TruncateTable(name)
    tokens.position -= 1
    raise tokens.error()


def _create(tokens: Tokens) -> Definition:
    replacing = tokens.accept("OR", "REPLACE")
    temporary = tokens.accept("TEMPORARY")
    if tokens.accept("TABLE"):
        if replacing:
            raise unsupported("CREATE OR REPLACE TABLE", "use DROP TABLE IF EXISTS, then CREATE TABLE")
        created: CreateTable = read_create_table(tokens, temporary)
        tokens.position = tokens.position if created.query is None else len(tokens.shape)
        if created.query is None:
            tokens.finish()
        return created
    if tokens.accept_one("DATABASE", "SCHEMA"):
        if_not_exists = tokens.accept("IF", "NOT", "EXISTS")
        return CreateDatabase(tokens.name(), if_not_exists)
    word = tokens.peek().upper
    if word in ("INDEX", "UNIQUE", "FULLTEXT", "SPATIAL"):
        return _create_index(tokens)
    if word in ("VIEW", "ALGORITHM", "SQL") or (word == "DEFINER" and _has_view(tokens)):
        return _create_view(tokens, replacing)
    raise _no_such_object(tokens, "CREATE")


def _has_view(tokens: Tokens) -> bool:
    return any(tokens.peek(ahead).upper == "VIEW" for ahead in range(12))


def _no_such_object(tokens: Tokens, verb: str) -> Exception:
    word = tokens.peek().upper
    if word in _OTHER_OBJECTS:
        return unsupported(f"{verb} {word}", "keep this logic in the application")
    return tokens.error()


def _create_index(tokens: Tokens) -> AlterTable:
    word = tokens.accept_one("UNIQUE", "FULLTEXT", "SPATIAL")
    if word in ("FULLTEXT", "SPATIAL"):
        raise unsupported(f"{word} indexes", "leave the index out")
    tokens.expect("INDEX")
    if_not_exists = tokens.accept("IF", "NOT", "EXISTS")
    name = tokens.name()
    if tokens.accept("USING"):
        tokens.name()
    tokens.expect("ON")
    table = own_name(tokens.qualified_name())
    reader = DefinitionReader(tokens, DEFAULT_COLLATION)
    parts = reader.parts()
    comment = reader.index_options()
    _skip_algorithm(tokens)
    return AlterTable(table, (AddKey(Index(name, parts, word == "UNIQUE", comment), if_not_exists),))


def _skip_algorithm(tokens: Tokens) -> None:
    while tokens.accept_one("ALGORITHM", "LOCK"):
        tokens.accept("=")
        tokens.next()
    tokens.finish()


def _create_view(tokens: Tokens, replacing: bool) -> CreateView:
    while not tokens.accept("VIEW"):
        if tokens.at_end:
            raise tokens.error()
        tokens.next()
    name = own_name(tokens.qualified_name())
    columns = tokens.names() if tokens.peek().text == "(" else ()
    tokens.expect("AS")
    shape, first = tokens.rest()
    query = fill_slots(shape, tokens.values[first:])
    return CreateView(name, query, columns, replacing)


def _alter(tokens: Tokens) -> Definition:
    if tokens.accept("TABLE") or tokens.accept("IGNORE", "TABLE"):
        tokens.accept("IF", "EXISTS")
        return read_alter_table(tokens)
    if tokens.peek().upper in ("DATABASE", "SCHEMA", "VIEW"):
        raise unsupported(f"ALTER {tokens.peek().upper}")
    raise _no_such_object(tokens, "ALTER")


def _drop(tokens: Tokens) -> Definition:
    temporary = tokens.accept("TEMPORARY")
    word = tokens.accept_one("TABLE", "TABLES", "VIEW", "INDEX", "DATABASE", "SCHEMA")
    if word in ("TABLE", "TABLES", "VIEW"):
        if_exists = tokens.accept("IF", "EXISTS")
        names = [own_name(tokens.qualified_name())]
        while tokens.accept(","):
            names.append(own_name(tokens.qualified_name()))
        tokens.accept_one("RESTRICT", "CASCADE")
        tokens.finish()
        return DropTables(tuple(names), if_exists, temporary, word == "VIEW")
    if word == "INDEX":
        if_exists = tokens.accept("IF", "EXISTS")
        name = tokens.name()
        tokens.expect("ON")
        table = own_name(tokens.qualified_name())
        _skip_algorithm(tokens)
        return AlterTable(table, (DropKey(name, "INDEX", if_exists),))
    if word:
        if_exists = tokens.accept("IF", "EXISTS")
        return DropDatabase(tokens.name(), if_exists)
    kind = tokens.peek().upper
    if kind in _ROUTINES and tokens.accept(kind, "IF", "EXISTS"):
        name = own_name(tokens.qualified_name())
        tokens.finish()
        return DropRoutine(kind, name)
    raise _no_such_object(tokens, "DROP")


def _rename(tokens: Tokens) -> RenameTables:
    if not tokens.accept_one("TABLE", "TABLES"):
        raise _no_such_object(tokens, "RENAME")
    pairs = []
    while True:
        old = own_name(tokens.qualified_name())
        tokens.expect("TO")
        pairs.append((old, own_name(tokens.qualified_name())))
        if not tokens.accept(","):
            break
    tokens.finish()
    return RenameTables(tuple(pairs))
