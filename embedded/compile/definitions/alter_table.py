"""ALTER TABLE: parses its clauses, and applies each to a table's definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from embedded.compile.definitions.columns import DefinitionReader
from embedded.compile.definitions.create_table import add_key, check_table, own_name, read_options
from embedded.compile.definitions.statements import (
    AddColumn,
    AddKey,
    AlterTable,
    Change,
    ChangeColumn,
    DropColumn,
    DropKey,
    RenameColumn,
    RenameKey,
    RenameTo,
    SetDefault,
    SetOptions,
)
from embedded.compile.definitions.types import charset_collation, check_collation, with_collation
from embedded.compile.errors import SqlError, unknown_column, unsupported
from embedded.compile.schema import Column, ForeignKey, Index, Table
from embedded.compile.text.tokens import Tokens
from embedded.compile.values.types import TEXT, TEXTUAL, SqlType

_INHERITED = "inherited"
"""The collation of a column that names none, until the table's is known."""

_NO_OPERATION = ("ALGORITHM", "LOCK", "FORCE", "ENABLE", "DISABLE", "WITH", "WITHOUT")


def read_alter_table(tokens: Tokens) -> AlterTable:
    """ALTER TABLE, after the words."""
    name = own_name(tokens.qualified_name())
    changes: list[Change] = []
    if not tokens.at_end:
        changes += _clause(tokens)
        while tokens.accept(","):
            changes += _clause(tokens)
    tokens.finish()
    return AlterTable(name, tuple(changes))


def _clause(tokens: Tokens) -> list[Change]:
    word = tokens.peek().upper
    if word in _NO_OPERATION:
        return _no_operation(tokens)
    reader = DefinitionReader(tokens, _INHERITED)
    match word:
        case "ADD":
            tokens.next()
            return _add(tokens, reader)
        case "DROP":
            tokens.next()
            return [_drop(tokens)]
        case "MODIFY":
            tokens.next()
            tokens.accept("COLUMN")
            name = tokens.name()
            return [_change(tokens, reader, name, name)]
        case "CHANGE":
            tokens.next()
            tokens.accept("COLUMN")
            return [_change(tokens, reader, tokens.name(), tokens.new_column())]
        case "ALTER":
            tokens.next()
            return [_alter(tokens, reader)]
        case "RENAME":
            tokens.next()
            return [_rename(tokens)]
        case "CONVERT":
            tokens.next()
            return _convert(tokens)
        case "ORDER" | "PARTITION" | "DISCARD" | "IMPORT":
            raise unsupported(f"ALTER TABLE ... {word}")
    start = tokens.position
    options = read_options(tokens)
    if tokens.position == start:
        raise tokens.error()
    return [SetOptions(options.comment, options.auto_increment, options.collation)]


def _no_operation(tokens: Tokens) -> list[Change]:
    word = tokens.next().upper
    if word in ("ALGORITHM", "LOCK"):
        tokens.accept("=")
    if word != "FORCE":
        tokens.next()
    return []


def _add(tokens: Tokens, reader: DefinitionReader) -> list[Change]:
    explicit = tokens.accept("COLUMN")
    if not explicit:
        key = reader.key()
        if key is not None:
            return [AddKey(key)]
    if_not_exists = tokens.accept("IF", "NOT", "EXISTS")
    if tokens.accept("("):
        changes: list[Change] = [_added_column(tokens, reader, if_not_exists)]
        while tokens.accept(","):
            changes.append(_added_column(tokens, reader, if_not_exists))
        tokens.expect(")")
        return changes
    return [_added_column(tokens, reader, if_not_exists)]


def _added_column(tokens: Tokens, reader: DefinitionReader, if_not_exists: bool) -> AddColumn:
    column, keys = reader.column(tokens.new_column())
    return AddColumn(column, _place(tokens), tuple(keys), if_not_exists)


def _place(tokens: Tokens) -> str | None:
    if tokens.accept("FIRST"):
        return ""
    return tokens.name() if tokens.accept("AFTER") else None


def _change(tokens: Tokens, reader: DefinitionReader, old: str, new: str) -> ChangeColumn:
    column, keys = reader.column(new)
    return ChangeColumn(old, column, _place(tokens), tuple(keys))


def _drop(tokens: Tokens) -> Change:
    if tokens.accept("PRIMARY", "KEY"):
        return DropKey("PRIMARY", "INDEX")
    if tokens.accept("FOREIGN", "KEY"):
        exists = tokens.accept("IF", "EXISTS")
        return DropKey(tokens.name(), "FOREIGN KEY", exists)
    word = tokens.accept_one("INDEX", "KEY", "CONSTRAINT", "CHECK")
    if word:
        exists = tokens.accept("IF", "EXISTS")
        return DropKey(tokens.name(), "INDEX" if word in ("INDEX", "KEY") else word, exists)
    tokens.accept("COLUMN")
    exists = tokens.accept("IF", "EXISTS")
    name = tokens.name()
    tokens.accept_one("RESTRICT", "CASCADE")
    return DropColumn(name, exists)


def _alter(tokens: Tokens, reader: DefinitionReader) -> Change:
    if tokens.peek().upper in ("INDEX", "CHECK", "CONSTRAINT"):
        raise unsupported(f"ALTER TABLE ... ALTER {tokens.peek().upper}")
    tokens.accept("COLUMN")
    name = tokens.name()
    if tokens.accept("DROP", "DEFAULT"):
        return SetDefault(name, None)
    tokens.expect("SET", "DEFAULT")
    return SetDefault(name, reader.default(TEXT, name))


def _rename(tokens: Tokens) -> Change:
    if tokens.accept("COLUMN"):
        old = tokens.name()
        tokens.expect("TO")
        return RenameColumn(old, tokens.new_column())
    if tokens.accept_one("INDEX", "KEY"):
        old = tokens.name()
        tokens.expect("TO")
        return RenameKey(old, tokens.name())
    tokens.accept_one("TO", "AS", "=")
    return RenameTo(own_name(tokens.qualified_name()))


def _convert(tokens: Tokens) -> list[Change]:
    tokens.expect("TO")
    if not tokens.accept("CHARSET"):
        tokens.expect("CHARACTER", "SET")
    collation = charset_collation(tokens.name_or_string())
    if tokens.accept("COLLATE"):
        collation = check_collation(tokens.name_or_string())
    return [SetOptions(collation=collation, convert=True)]


@dataclass(eq=False, slots=True)
class Alteration:
    """A table between its old and its new definition. `sources`: of each column, the old column its values come
    from. `converts`: all texts get the table's collation."""

    table: Table
    sources: dict[str, str] = field(default_factory=dict)
    converts: bool = False

    @classmethod
    def of(cls, table: Table) -> Alteration:
        return cls(table, {column.name: column.name for column in table.columns})

    def apply(self, change: Change) -> None:
        """Make one change.

        Raises:
            SqlError: 1054, 1060, 1061, 1068, 1091 and their like.
        """
        match change:
            case AddColumn():
                self._add_column(change)
            case ChangeColumn():
                self._change_column(change)
            case DropColumn():
                self._drop_column(change)
            case RenameColumn():
                column = self._column(change.old)
                self._change_column(ChangeColumn(change.old, replace(column, name=change.new)))
            case SetDefault():
                column = self._column(change.name)
                self._replace(column, replace(column, default=change.default))
            case AddKey():
                self.table = add_key(self.table, change.key)
            case DropKey():
                self._drop_key(change)
            case RenameKey():
                self._rename_key(change)
            case RenameTo():
                self.table = replace(self.table, name=change.name)
            case SetOptions():
                self._set_options(change)

    def finish(self) -> Table:
        columns = tuple(replace(column, type=self._collated(column.type)) for column in self.table.columns)
        return check_table(replace(self.table, columns=columns))

    def _collated(self, sql_type: SqlType) -> SqlType:
        inherits = sql_type.collation == _INHERITED or (self.converts and sql_type.kind in TEXTUAL)
        return with_collation(sql_type, self.table.collation) if inherits else sql_type

    def _column(self, name: str) -> Column:
        column = self.table.column(name)
        if column is None:
            raise unknown_column(name, self.table.name)
        return column

    def _add_column(self, change: AddColumn) -> None:
        if self.table.column(change.column.name) is not None:
            if change.if_not_exists:
                return
            raise SqlError(1060, f"Duplicate column name '{change.column.name}'")
        self._place(change.column, change.after, len(self.table.columns))
        for key in change.keys:
            self.table = add_key(self.table, key)

    def _place(self, column: Column, after: str | None, end: int) -> None:
        others = [one for one in self.table.columns if one.name != column.name]
        position = min(end, len(others))
        if after == "":
            position = 0
        elif after is not None:
            names = [one.name.lower() for one in others]
            if after.lower() not in names:
                raise unknown_column(after, self.table.name)
            position = names.index(after.lower()) + 1
        self.table = replace(self.table, columns=(*others[:position], column, *others[position:]))

    def _change_column(self, change: ChangeColumn) -> None:
        old = self._column(change.old)
        other = self.table.column(change.column.name)
        if other is not None and other is not old:
            raise SqlError(1060, f"Duplicate column name '{change.column.name}'")
        new = change.column
        if _is_virtual(old) != _is_virtual(new):
            raise SqlError(3106, "'Changing the STORED status' is not supported for generated columns.")
        primary = self.table.primary_key
        if primary is not None and old.name in primary.columns:
            new = replace(new, nullable=False)
        self._replace(old, new)
        if change.after is not None:
            self._place(new, change.after, 0)
        for key in change.keys:
            self.table = add_key(self.table, key)

    def _replace(self, old: Column, new: Column) -> None:
        source = self.sources.pop(old.name, None)
        if source is not None:
            self.sources[new.name] = source
        columns = tuple(new if one is old else one for one in self.table.columns)
        self.table = replace(self.table, columns=columns)
        if old.name != new.name:
            self.table = _renamed_in_keys(self.table, old.name, new.name)

    def _drop_column(self, change: DropColumn) -> None:
        column = self.table.column(change.name)
        if column is None:
            if change.if_exists:
                return
            raise SqlError(1091, f"Can't DROP '{change.name}'; check that column/key exists")
        if len(self.table.columns) == 1:
            raise SqlError(1090, "You can't delete all columns with ALTER TABLE; use DROP TABLE instead")
        for key in self.table.foreign_keys:
            if column.name in key.columns:
                raise SqlError(
                    1828, f"Cannot drop column '{column.name}': needed in a foreign key constraint '{key.name}'"
                )
        self.sources.pop(column.name, None)
        columns = tuple(one for one in self.table.columns if one is not column)
        self.table = replace(self.table, columns=columns, indexes=_indexes_without(self.table, column.name))

    def _drop_key(self, change: DropKey) -> None:
        name = change.name.lower()
        if change.kind in ("INDEX", "CONSTRAINT") and self.table.index(name) is not None:
            remaining = tuple(one for one in self.table.indexes if one.name.lower() != name)
            self.table = replace(self.table, indexes=remaining)
            return
        if change.kind in ("FOREIGN KEY", "CONSTRAINT"):
            keys = tuple(one for one in self.table.foreign_keys if one.name.lower() != name)
            if len(keys) != len(self.table.foreign_keys):
                self.table = replace(self.table, foreign_keys=keys)
                return
        if change.kind in ("CHECK", "CONSTRAINT"):
            checks = tuple(one for one in self.table.checks if one.name.lower() != name)
            if len(checks) != len(self.table.checks):
                self.table = replace(self.table, checks=checks)
                return
        if not change.if_exists:
            raise SqlError(1091, f"Can't DROP '{change.name}'; check that column/key exists")

    def _rename_key(self, change: RenameKey) -> None:
        index = self.table.index(change.old)
        if index is None:
            raise SqlError(1176, f"Key '{change.old}' doesn't exist in table '{self.table.name}'")
        if self.table.index(change.new) is not None:
            raise SqlError(1061, f"Duplicate key name '{change.new}'")
        indexes = tuple(replace(one, name=change.new) if one is index else one for one in self.table.indexes)
        self.table = replace(self.table, indexes=indexes)

    def _set_options(self, change: SetOptions) -> None:
        if change.comment is not None:
            self.table = replace(self.table, comment=change.comment)
        if change.auto_increment is not None:
            self.table = replace(self.table, auto_increment=change.auto_increment)
        if change.collation is not None:
            self.table = replace(self.table, collation=change.collation)
        self.converts = self.converts or change.convert


def _is_virtual(column: Column) -> bool:
    return column.generated is not None and not column.stored


def _indexes_without(table: Table, column: str) -> tuple[Index, ...]:
    """A dropped column leaves the keys it was part of; a key without columns is dropped."""
    indexes = []
    for index in table.indexes:
        parts = tuple(part for part in index.parts if part.column.lower() != column.lower())
        if parts:
            indexes.append(replace(index, parts=parts))
    return tuple(indexes)


def references_renamed(key: ForeignKey, table: str, names: Mapping[str, str]) -> ForeignKey:
    """A foreign key after columns of that table have new names."""
    if key.table != table:
        return key
    known = {old.lower(): new for old, new in names.items()}
    return replace(key, references=tuple(known.get(name.lower(), name) for name in key.references))


def _renamed_in_keys(table: Table, old: str, new: str) -> Table:
    names: Mapping[str, str] = {old: new}
    indexes = tuple(
        replace(index, parts=tuple(replace(part, column=names.get(part.column, part.column)) for part in index.parts))
        for index in table.indexes
    )
    keys = tuple(
        replace(key, columns=tuple(names.get(column, column) for column in key.columns)) for key in table.foreign_keys
    )
    keys = tuple(references_renamed(key, table.name, names) for key in keys)
    for column in table.columns:
        texts = [column.generated or "", (column.default.text or "") if column.default is not None else ""]
        if column.name != new and any(f"`{old}`" in text or old in text.split() for text in texts):
            raise unsupported(
                f"renaming column '{old}' that another column's expression uses", "drop that column first"
            )
    return replace(table, indexes=indexes, foreign_keys=keys)
