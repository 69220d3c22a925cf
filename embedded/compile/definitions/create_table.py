"""CREATE TABLE, and the rules that a table's definition must follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from embedded.compile.definitions.columns import DefinitionReader, Key
from embedded.compile.definitions.statements import CreateTable
from embedded.compile.definitions.types import charset_collation, check_collation
from embedded.compile.errors import SqlError, ValueRefused, unsupported
from embedded.compile.schema import (
    DATABASE,
    SIDE_TABLE_PREFIX,
    Check,
    Column,
    ForeignKey,
    Index,
    IndexPart,
    Table,
    stored_default,
)
from embedded.compile.text.keywords import keywords
from embedded.compile.text.literal_lifting import fill_slots
from embedded.compile.text.tokens import Tokens
from embedded.compile.values.types import DEFAULT_COLLATION, Kind

_IGNORED_OPTIONS = keywords(
    "ENGINE TYPE ROW_FORMAT KEY_BLOCK_SIZE AVG_ROW_LENGTH MAX_ROWS MIN_ROWS PACK_KEYS CHECKSUM "
    "DELAY_KEY_WRITE STATS_PERSISTENT STATS_AUTO_RECALC STATS_SAMPLE_PAGES INSERT_METHOD COMPRESSION "
    "TABLESPACE TRANSACTIONAL PAGE_CHECKSUM"
)
_KEYED_LENGTHLESS = frozenset(("text", "blob"))


@dataclass(frozen=True, slots=True)
class Options:
    """Table options; None where not specified."""

    comment: str | None = None
    auto_increment: int | None = None
    collation: str | None = None


def read_create_table(tokens: Tokens, temporary: bool) -> CreateTable:
    """CREATE [TEMPORARY] TABLE, after the words."""
    if_not_exists = tokens.accept("IF", "NOT", "EXISTS")
    name = own_name(tokens.qualified_name())
    if tokens.accept("LIKE"):
        return _like(tokens, name, if_not_exists, temporary)
    if tokens.peek().text == "(" and tokens.peek(1).upper == "LIKE":
        tokens.expect("(", "LIKE")
        return _like(tokens, name, if_not_exists, temporary, closing=True)
    return _TableReading(tokens, name, temporary).read(if_not_exists)


def own_name(name: tuple[str | None, str]) -> str:
    """A table's name without its database, which can only be this one."""
    database, table = name
    if database not in (None, DATABASE):
        raise SqlError(1049, f"Unknown database '{database}'")
    if table.lower().startswith((SIDE_TABLE_PREFIX, "sqlite_")):
        raise SqlError(1103, f"Incorrect table name '{table}'")
    return table


def _like(tokens: Tokens, name: str, if_not_exists: bool, temporary: bool, closing: bool = False) -> CreateTable:
    source = own_name(tokens.qualified_name())
    if closing:
        tokens.expect(")")
    tokens.finish()
    return CreateTable(Table(name, (), temporary=temporary), if_not_exists, like=source)


@dataclass(eq=False, slots=True)
class _TableReading:
    tokens: Tokens
    name: str
    temporary: bool
    columns: list[Column] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)

    def read(self, if_not_exists: bool) -> CreateTable:
        # The default collation is written after the columns that it applies to.
        collation = self._collation_ahead()
        if self.tokens.peek().text == "(" and self.tokens.peek(1).upper not in ("SELECT", "WITH"):
            self._body(DefinitionReader(self.tokens, collation))
        options = read_options(self.tokens)
        query = self._query()
        table = Table(
            self.name,
            (),
            comment=options.comment or "",
            collation=options.collation or DEFAULT_COLLATION,
            auto_increment=options.auto_increment,
            temporary=self.temporary,
        )
        if query is None and not self.columns:
            raise SqlError(1113, "A table must have at least 1 column")
        if query is None:
            table = complete(replace(table, columns=tuple(self.columns)), self.keys)
        else:
            table = replace(table, columns=tuple(self.columns))
        return CreateTable(table, if_not_exists, query=query, keys=() if query is None else tuple(self.keys))

    def _body(self, reader: DefinitionReader) -> None:
        tokens = self.tokens
        tokens.expect("(")
        while True:
            key = reader.key()
            if key is not None:
                self.keys.append(key)
            else:
                column, keys = reader.column(tokens.new_column())
                self.columns.append(column)
                self.keys += keys
            if not tokens.accept(","):
                break
        tokens.expect(")")

    def _collation_ahead(self) -> str:
        start = self.tokens.position
        if self.tokens.peek().text == "(":
            self.tokens.parenthesised()
        try:
            return read_options(self.tokens).collation or DEFAULT_COLLATION
        finally:
            self.tokens.position = start

    def _query(self) -> str | None:
        tokens = self.tokens
        if tokens.accept_one("IGNORE", "REPLACE"):
            raise unsupported("IGNORE or REPLACE in CREATE TABLE ... SELECT", "create the table first")
        tokens.accept("AS")
        if tokens.at_end:
            return None
        if tokens.peek().upper not in ("SELECT", "WITH", "("):
            raise tokens.error()
        shape, first = tokens.rest()
        return fill_slots(shape, tokens.values[first:])


def read_options(tokens: Tokens) -> Options:
    """Table options, to the end of the statement, a SELECT or a comma that an option does not follow."""
    options = Options()
    while True:
        start = tokens.position
        tokens.accept(",")
        default = tokens.accept("DEFAULT")
        word = tokens.accept_one("CHARSET", "COLLATE", "COMMENT", "AUTO_INCREMENT", *_IGNORED_OPTIONS)
        if not word and tokens.accept("CHARACTER", "SET"):
            word = "CHARSET"
        if not word and tokens.accept_one("PARTITION"):
            raise unsupported("partitioned tables", "leave PARTITION BY out")
        if not word:
            tokens.position = start
            if default:
                raise tokens.error()
            return options
        tokens.accept("=")
        options = _option(tokens, word, options)


def _option(tokens: Tokens, word: str, options: Options) -> Options:
    match word:
        case "COMMENT":
            return replace(options, comment=tokens.string())
        case "AUTO_INCREMENT":
            return replace(options, auto_increment=tokens.integer())
        case "COLLATE":
            return replace(options, collation=check_collation(tokens.name_or_string()))
        case "CHARSET":
            return replace(options, collation=_of_charset(tokens.name_or_string(), options.collation))
    tokens.next()
    return options


def _of_charset(charset: str, named: str | None) -> str:
    """The collation of a table with this character set: the one that was named before it, or its default."""
    collation = charset_collation(charset)
    if named is None:
        return collation
    if named.split("_")[0] != collation.split("_")[0]:
        raise SqlError(1253, f"COLLATION '{named}' is not valid for CHARACTER SET '{charset}'")
    return named


def complete(table: Table, keys: Iterable[Key]) -> Table:
    """The table with these keys, all of them named and all rules observed."""
    seen: set[str] = set()
    for column in table.columns:
        if column.name.lower() in seen:
            raise SqlError(1060, f"Duplicate column name '{column.name}'")
        seen.add(column.name.lower())
    for key in keys:
        table = add_key(table, key)
    return check_table(table)


def add_key(table: Table, key: Key) -> Table:
    """The table with one more key or constraint."""
    match key:
        case Index():
            return _add_index(table, key)
        case Check():
            name = key.name or _free_name(f"{table.name}_chk_", [check.name for check in table.checks])
            if any(check.name.lower() == name.lower() for check in table.checks):
                raise SqlError(3822, f"Duplicate check constraint name '{name}'.")
            return replace(table, checks=(*table.checks, replace(key, name=name)))
        case ForeignKey():
            return _add_foreign_key(table, key)


def _add_index(table: Table, index: Index) -> Table:
    if index.primary:
        if table.primary_key is not None:
            raise SqlError(1068, "Multiple primary key defined")
        table = _without_null(table, index)
    parts = tuple(_checked_part(table, index, part) for part in index.parts)
    name = index.name or _index_name(table, parts[0].column)
    if table.index(name) is not None:
        raise SqlError(1061, f"Duplicate key name '{name}'")
    index = replace(index, name=name, parts=parts)
    table = _without_implied(table, index)
    # MySQL lists the primary key first, then unique keys, then the others.
    rank = [(0 if one.primary else 1 if one.unique else 2) for one in table.indexes]
    own = 0 if index.primary else 1 if index.unique else 2
    place = sum(one <= own for one in rank)
    return replace(table, indexes=(*table.indexes[:place], index, *table.indexes[place:]))


def _without_implied(table: Table, index: Index) -> Table:
    """A key that was created for a foreign key is dropped once a declared one begins with its columns."""
    columns = [column.lower() for column in index.columns]
    indexes = tuple(
        one
        for one in table.indexes
        if not one.implied or [part.lower() for part in one.columns] != columns[: len(one.columns)]
    )
    return replace(table, indexes=indexes)


def _checked_part(table: Table, index: Index, part: IndexPart) -> IndexPart:
    column = table.column(part.column)
    if column is None:
        raise SqlError(1072, f"Key column '{part.column}' doesn't exist in table")
    name = column.type.name
    if part.length is None and (name.endswith(("text", "blob"))):
        raise SqlError(1170, f"BLOB/TEXT column '{column.name}' used in key specification without a key length")
    if column.type.kind is Kind.JSON:
        raise SqlError(
            3152, f"JSON column '{column.name}' supports indexing only via generated columns on a specified JSON path."
        )
    length = part.length
    if length is not None and length >= (column.type.character_length or 0):
        length = None
    if length is not None and index.primary:
        raise unsupported("a primary key on the first characters of a column", "shorten the column")
    return replace(part, column=column.name, length=length)


def _without_null(table: Table, index: Index) -> Table:
    names = {part.column.lower() for part in index.parts}
    columns = tuple(replace(one, nullable=False) if one.name.lower() in names else one for one in table.columns)
    return replace(table, columns=columns)


def _index_name(table: Table, column: str) -> str:
    if table.index(column) is None and column.upper() != "PRIMARY":
        return column
    number = 2
    while table.index(f"{column}_{number}") is not None:
        number += 1
    return f"{column}_{number}"


def _free_name(prefix: str, taken: Sequence[str]) -> str:
    lowered = {name.lower() for name in taken}
    number = 1
    while f"{prefix}{number}".lower() in lowered:
        number += 1
    return f"{prefix}{number}"


def _add_foreign_key(table: Table, key: ForeignKey) -> Table:
    name = key.name or _free_name(f"{table.name}_ibfk_", [one.name for one in table.foreign_keys])
    if any(one.name.lower() == name.lower() for one in table.foreign_keys):
        raise SqlError(1826, f"Duplicate foreign key constraint name '{name}'")
    columns = []
    for key_column in key.columns:
        column = table.column(key_column)
        if column is None:
            raise SqlError(1072, f"Key column '{key_column}' doesn't exist in table")
        columns.append(column.name)
    if len(columns) != len(key.references):
        raise SqlError(
            1239, f"Incorrect foreign key definition for '{name}': Key reference and table reference don't match"
        )
    table = replace(table, foreign_keys=(*table.foreign_keys, replace(key, name=name, columns=tuple(columns))))
    covered = any(
        [part.lower() for part in index.columns[: len(columns)]] == [one.lower() for one in columns]
        for index in table.indexes
    )
    if covered:
        return table
    preferred = key.name or columns[0]
    free = preferred if table.index(preferred) is None else _index_name(table, preferred)
    return _add_index(table, Index(free, tuple(IndexPart(column) for column in columns), implied=True))


def check_table(table: Table) -> Table:
    """Rules that concern the table as a whole."""
    if not table.columns:
        raise SqlError(1113, "A table must have at least 1 column")
    autos = [column for column in table.columns if column.auto_increment]
    if len(autos) > 1:
        raise SqlError(
            1075, "Incorrect table definition; there can be only one auto column and it must be defined as a key"
        )
    for auto in autos:
        _check_auto(table, auto)
    for column in table.columns:
        _check_column(column)
    return table


def _check_auto(table: Table, auto: Column) -> None:
    firsts = [index for index in table.indexes if index.columns[0].lower() == auto.name.lower()]
    if not firsts:
        raise SqlError(
            1075, "Incorrect table definition; there can be only one auto column and it must be defined as a key"
        )
    if not any(index.unique and len(index.parts) == 1 for index in firsts):
        raise unsupported("AUTO_INCREMENT on a column without a unique key of its own", "add UNIQUE (column)")
    if auto.type.kind is not Kind.INT:
        raise SqlError(1063, f"Incorrect column specifier for column '{auto.name}'")
    if auto.default is not None:
        raise SqlError(1067, f"Invalid default value for '{auto.name}'")


def _check_column(column: Column) -> None:
    if column.default is None:
        return
    if column.generated is not None:
        raise SqlError(1221, "Incorrect usage of DEFAULT and generated column")
    long = column.type.name.endswith(tuple(_KEYED_LENGTHLESS)) or column.type.kind is Kind.JSON
    if long and not column.default.expression:
        raise SqlError(1101, f"BLOB, TEXT, GEOMETRY or JSON column '{column.name}' can't have a default value")
    if column.default.now is not None and column.type.kind not in (Kind.DATETIME, Kind.TIMESTAMP):
        raise SqlError(1067, f"Invalid default value for '{column.name}'")
    if column.default.now is None and not column.default.expression:
        _check_literal(column)


def _check_literal(column: Column) -> None:
    assert column.default is not None
    try:
        stored_default(column)
    except ValueRefused:
        raise SqlError(1067, f"Invalid default value for '{column.name}'") from None
