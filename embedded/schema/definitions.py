"""Executes CREATE, ALTER, DROP and similar statements on a connection, in a worker thread.

Tables and data dictionary change in one transaction. Foreign keys are off during it, as SQLite's own procedure for
changing tables requires; those that a definition adds or changes are checked before the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from embedded.compile.binding import bind
from embedded.compile.compilation import quote
from embedded.compile.definitions.alter_table import Alteration, references_renamed
from embedded.compile.definitions.create_table import complete
from embedded.compile.definitions.emit import (
    REBUILT,
    check_definition,
    check_key_types,
    check_parent,
    create_index,
    create_statements,
    drop_triggers,
    index_name,
    separate_indexes,
    triggers,
)
from embedded.compile.definitions.statements import (
    AddKey,
    AlterTable,
    CreateTable,
    CreateView,
    Definition,
    DropKey,
    DropTables,
    RenameColumn,
    RenameTables,
    TruncateTable,
)
from embedded.compile.errors import SqlError, unsupported
from embedded.compile.functions.context import CallContext
from embedded.compile.plan import Insert, Query
from embedded.compile.queries.sources import has_star, table_name
from embedded.compile.schema import DATABASE, Column, ForeignKey, Schema, Table, to_json
from embedded.compile.statement import compile_statement
from embedded.compile.text.literal_lifting import lift
from embedded.compile.text.modes import Modes
from embedded.compile.text.parse import parse
from embedded.compile.values.types import Kind, collation_name, meta, text_type, text_width
from embedded.database.connection import SqliteConnection
from embedded.database.errors import SqliteFault
from embedded.schema.alter_table import Rebuild, set_next_number
from engine.model.queue import QUEUE_MARK
from engine.store.statements.sqlite import unfit_id

Lookup = Callable[[str, tuple[object, ...]], object]


@dataclass(slots=True)
class Defined:
    """What a definition did: rows written (CREATE TABLE ... SELECT), notes, and the tables it left."""

    affected: int = 0
    notes: list[tuple[int, str]] = field(default_factory=list)


@dataclass(slots=True)
class Definer:
    """Executes one definition. `schema` follows its steps; `foreign_keys` False: they are not checked."""

    connection: SqliteConnection
    context: CallContext
    schema: Schema
    modes: Modes
    lookup: Lookup
    foreign_keys: bool = True
    defined: Defined = field(default_factory=Defined)

    def run(self, definition: Definition, *, temporary: bool = False) -> Defined:
        """All of the definition, or nothing. A definition of temporary tables alone blocks no other session."""
        if self.connection.in_transaction:
            return self._inside(definition)
        self.connection.context = self.context
        self.connection.execute("PRAGMA foreign_keys = OFF").close()
        try:
            self.connection.execute("BEGIN" if temporary else "BEGIN IMMEDIATE").close()
            self.apply(definition)
            self.connection.execute("COMMIT").close()
        except BaseException:
            self.connection.rollback()
            raise
        finally:
            self.connection.execute("PRAGMA foreign_keys = ON").close()
        return self.defined

    def _inside(self, definition: Definition) -> Defined:
        """Temporary tables in the middle of a transaction."""
        self.connection.execute("SAVEPOINT definition").close()
        try:
            self.apply(definition)
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK TO definition").close()
                self.connection.execute("RELEASE definition").close()
            raise
        self.connection.execute("RELEASE definition").close()
        return self.defined

    def apply(self, definition: Definition) -> None:
        """The steps of a definition, inside an open transaction."""
        match definition:
            case CreateTable():
                self._create_table(definition)
            case DropTables():
                self._drop(definition)
            case RenameTables():
                for old, new in definition.pairs:
                    self._rename(old, new)
            case TruncateTable():
                self._truncate(definition.name)
            case CreateView():
                self._create_view(definition)
            case AlterTable():
                self._alter(definition)
            case _:
                raise unsupported("this definition")

    def _create_table(self, definition: CreateTable) -> None:
        table = definition.table
        if self._exists(table):
            if not definition.if_not_exists:
                raise SqlError(1050, f"Table '{table.name}' already exists")
            self.defined.notes.append((1050, f"Table '{table.name}' already exists"))
            return
        if definition.like is not None:
            table = _copied(self._base(definition.like), table)
        if definition.query is not None:
            selected = self._query_columns(table, definition.query)
            filled = tuple(column.name for column in selected)
            table = complete(replace(table, columns=_with_selected(table.columns, selected)), definition.keys)
        table = replace(table, created=f"{datetime.now():%Y-%m-%d %H:%M:%S}")
        self._make(table)
        if definition.query is not None:
            self._fill(table, filled, definition.query)
            _check_rows(self.connection, self.schema, table, table.foreign_keys if self.foreign_keys else ())

    def _exists(self, table: Table) -> bool:
        present = self.schema.table(table.name)
        return present is not None and present.temporary == table.temporary

    def _make(self, table: Table) -> None:
        _refuse_namesake(self.schema, table)
        if table.temporary and table.foreign_keys:
            raise SqlError(1215, "Cannot add foreign key constraint")
        check_definition(table, self.schema, parents=self.foreign_keys)
        check_key_types(table, self.schema, table.foreign_keys)
        for statement in create_statements(table):
            self._execute(statement)
        if table.auto_increment is not None:
            set_next_number(self.connection, table, table.auto_increment)
        self._store(table)

    def _query_columns(self, table: Table, query: str) -> tuple[Column, ...]:
        lifted = lift(query)
        plan = compile_statement(lifted.shape, lifted.values, self.schema, self.modes).plan
        assert isinstance(plan, Query)
        _no_variables(plan)
        columns = []
        for column in plan.columns:
            sql_type = column.type
            if sql_type.kind in (Kind.NULL, Kind.UNKNOWN):
                sql_type = replace(text_type(0), name="varchar")
            if sql_type.kind is Kind.BITS:
                sql_type = replace(sql_type, kind=Kind.INT)
            if sql_type.kind is Kind.STRING:
                collation = table.collation if sql_type.collation is None else collation_name(sql_type.collation)
                base = sql_type if sql_type.collation is not None else text_type(text_width(sql_type))
                sql_type = replace(base, collation=collation)
            columns.append(Column(column.meta.name, sql_type))
        return tuple(columns)

    def _fill(self, table: Table, filled: Sequence[str], query: str) -> None:
        listed = ", ".join(quote(name) for name in filled)
        lifted = lift(f"INSERT INTO {quote(table.name)} ({listed}) {query}")
        plan = compile_statement(lifted.shape, lifted.values, self.schema, self.modes).plan
        assert isinstance(plan, Insert)
        dynamics = {
            (one.dynamic, one.arguments): self.lookup(one.dynamic, one.arguments)
            for one in plan.statement.binds
            if one.slot < 0
        }
        cursor = self.connection.execute(plan.statement.sql, bind(plan.statement.binds, lifted.values, dynamics))
        self.defined.affected = max(cursor.rowcount, 0)
        cursor.close()

    def _drop(self, definition: DropTables) -> None:
        missing = []
        for name in definition.names:
            table = self.schema.table(name)
            wrong = table is None or (definition.temporary and not table.temporary)
            if table is None or wrong or (table.view is not None) != definition.views:
                missing.append(name)
                if table is not None and not wrong and definition.views:
                    raise SqlError(1347, f"'{DATABASE}.{name}' is not VIEW")
        if missing and not definition.if_exists:
            raise SqlError(1051, f"Unknown table '{','.join(f'{DATABASE}.{name}' for name in missing)}'")
        self.defined.notes += [(1051, f"Unknown table '{DATABASE}.{name}'") for name in missing]
        dropped = [name for name in definition.names if name not in missing]
        self._refuse_parents(dropped)
        for name in dropped:
            table = self._known(name)
            if table.view is None:
                self._execute(f"DROP TABLE {table_name(table)}")
            self._delete(table)

    def _refuse_parents(self, names: list[str]) -> None:
        for other in self.schema.tables.values() if self.foreign_keys else ():
            for key in other.foreign_keys:
                if key.table in names and other.name not in names:
                    where = f"'{key.name}' on table '{other.name}'"
                    text = f"Cannot drop table '{key.table}' referenced by a foreign key constraint {where}."
                    raise SqlError(3730, text)

    def _truncate(self, name: str) -> None:
        table = self._base(name)
        for other in self.schema.tables.values() if self.foreign_keys else ():
            for key in other.foreign_keys:
                if key.table == name and other.name != name:
                    where = f"(`{DATABASE}`.`{other.name}`, CONSTRAINT `{key.name}`)"
                    text = f"Cannot truncate a table referenced in a foreign key constraint {where}"
                    raise SqlError(1701, text)
        self._execute(f"DELETE FROM {table_name(table)}")
        if table.auto_column is not None:
            set_next_number(self.connection, table, 1)

    def _rename(self, old_name: str, new_name: str) -> None:
        old = self._known(old_name)
        if old_name == new_name:
            return
        if new_name in self.schema.tables:
            raise SqlError(1050, f"Table '{new_name}' already exists")
        new = replace(old, name=new_name)
        if old.view is None:
            _refuse_namesake(self.schema, new, old_name)
            self._rename_table(old, new)
        self._store(new, old_name)
        for other in list(self.schema.tables.values()):
            keys = tuple(replace(key, table=new_name) if key.table == old_name else key for key in other.foreign_keys)
            if keys != other.foreign_keys:
                self._store(replace(other, foreign_keys=keys))

    def _rename_table(self, old: Table, new: Table) -> None:
        for index in separate_indexes(old):
            self._execute(f"DROP INDEX {index_name(old, index)}")
        for statement in drop_triggers(old):
            self._execute(statement)
        between = replace(old, name=REBUILT)  # SQLite has no renaming that changes case alone
        self._execute(f"ALTER TABLE {table_name(old)} RENAME TO {quote(between.name)}")
        self._execute(f"ALTER TABLE {table_name(between)} RENAME TO {quote(new.name)}")
        for index in separate_indexes(new):
            self._execute(create_index(new, index))
        for statement in triggers(new):
            self._execute(statement)

    def _create_view(self, definition: CreateView) -> None:
        present = self.schema.table(definition.name)
        if present is not None and (present.view is None or not definition.replace):
            raise SqlError(1050, f"Table '{definition.name}' already exists")
        lifted = lift(definition.query)
        plan = compile_statement(lifted.shape, lifted.values, self.schema, self.modes).plan
        if not isinstance(plan, Query):
            raise SqlError(1064, "A view is made of a SELECT")
        _no_variables(plan)
        if plan.temporary:
            raise SqlError(1352, "View's SELECT refers to a temporary table")
        if definition.columns and has_star(parse(lifted.shape, lifted.values, "SELECT").tree):
            raise unsupported("* in a view whose columns are named", "name the columns that it shows")
        names = definition.columns or tuple(column.meta.name for column in plan.columns)
        if len(names) != len(plan.columns):
            raise SqlError(
                1353,
                "In definition of view, derived table or common table expression, SELECT list and column names "
                "list have different column counts",
            )
        if len({name.lower() for name in names}) != len(names):
            raise SqlError(1060, "Duplicate column name in the view")
        columns = tuple(Column(name, column.type) for name, column in zip(names, plan.columns, strict=True))
        self._store(Table(definition.name, columns, view=definition.query))

    def _alter(self, definition: AlterTable) -> None:
        old = self._base(definition.name)
        alteration = Alteration.of(replace(old, auto_increment=None))  # what an earlier statement set is used up
        for change in definition.changes:
            if isinstance(change, AddKey) and change.if_not_exists and old.index(change.key.name) is not None:
                self.defined.notes.append((1061, f"Duplicate key name '{change.key.name}'"))
                continue
            if isinstance(change, DropKey):
                self._refuse_needed(old, change)
            alteration.apply(change)
        new = alteration.finish()
        renamed = new.name
        new = replace(new, name=old.name)
        check_definition(new, self.schema, parents=self.foreign_keys)
        old = self._rename_referenced(old, alteration.sources)
        self._refuse_loss(new)
        changed_keys = _changed_keys(self.schema, old, new, alteration.sources)
        for table, keys in changed_keys if self.foreign_keys else changed_keys[:1]:
            check_key_types(table, Schema(-1, {**self.schema.tables, new.name: new}), keys)
        Rebuild(self.connection, self.context, self.schema, old, new, alteration.sources).run()
        self._store(new)
        for table, keys in changed_keys if self.foreign_keys else ():
            _check_rows(self.connection, self.schema, table, keys)
        if renamed != old.name:
            self._rename(old.name, renamed)

    def _rename_referenced(self, table: Table, sources: dict[str, str]) -> Table:
        """Columns that foreign keys lead to get their new names first, by SQLite, which renames them there as well. One
        may have been another's name before, so each has a name of its own in between."""
        referenced = {
            name.lower()
            for other in self.schema.tables.values()
            for key in other.foreign_keys
            if key.table == table.name
            for name in key.references
        }
        names = {old: new for new, old in sources.items() if old != new and old.lower() in referenced}
        between = {old: f"queuegate_meta_{number}" for number, old in enumerate(names)}
        steps = [*between.items(), *((between[old], new) for old, new in names.items())]
        for old, new in steps:
            self._execute(f"ALTER TABLE {table_name(table)} RENAME COLUMN {quote(old)} TO {quote(new)}")
            alteration = Alteration.of(table)
            alteration.apply(RenameColumn(old, new))
            table = alteration.table
        sources.update({new: new for new in names.values()})
        for other in list(self.schema.tables.values()) if names else ():
            keys = tuple(references_renamed(key, table.name, names) for key in other.foreign_keys)
            if keys != other.foreign_keys and other.name != table.name:
                self._store(replace(other, foreign_keys=keys))
        return table

    def _refuse_loss(self, new: Table) -> None:
        """What foreign keys of other tables lead to has to stay."""
        for other in self.schema.tables.values() if self.foreign_keys else ():
            for key in other.foreign_keys if other.name != new.name else ():
                for name in key.references if key.table == new.name else ():
                    if new.column(name) is None:
                        needed = f"needed in a foreign key constraint '{key.name}' of table '{other.name}'"
                        raise SqlError(1829, f"Cannot drop column '{name}': {needed}")
                if key.table == new.name:
                    check_parent(new, key.name, key.references)

    def _refuse_needed(self, table: Table, change: DropKey) -> None:
        """A key that a foreign key leans on cannot go."""
        index = table.index(change.name) if change.kind == "INDEX" else None
        if index is None:
            return
        for other in self.schema.tables.values():
            for key in other.foreign_keys:
                if key.table == table.name and index.unique and set(key.references) == set(index.columns):
                    raise SqlError(1553, f"Cannot drop index '{index.name}': needed in a foreign key constraint")

    def _known(self, name: str) -> Table:
        table = self.schema.table(name)
        if table is None:
            raise self.schema.unknown(name)
        return table

    def _base(self, name: str) -> Table:
        table = self._known(name)
        if table.view is not None:
            raise SqlError(1347, f"'{DATABASE}.{name}' is not BASE TABLE")
        return table

    def _store(self, table: Table, old_name: str | None = None) -> None:
        if not table.temporary:
            _check_queue(table)
            store_definition(self.connection, table, old_name)
        tables = {name: one for name, one in self.schema.tables.items() if name != old_name}
        self._set({**tables, table.name: table})

    def _delete(self, table: Table) -> None:
        if not table.temporary:
            delete_definition(self.connection, table.name)
        self._set({name: one for name, one in self.schema.tables.items() if name != table.name})

    def _set(self, tables: Mapping[str, Table]) -> None:
        self.schema = Schema(-1, tables)

    def _execute(self, sql: str) -> None:
        self.connection.execute(sql).close()


def _changed_keys(
    schema: Schema, old: Table, new: Table, sources: Mapping[str, str]
) -> list[tuple[Table, list[ForeignKey]]]:
    """The foreign keys that are new, or of which a column has other values or another type, with their tables."""
    before = {one.name: old.column(sources.get(one.name, one.name)) for one in new.columns}
    changed = {
        one.name.lower()
        for one in new.columns
        if (was := before[one.name]) is not None and (was.type, was.generated) != (one.type, one.generated)
    }

    def is_new(key: ForeignKey) -> bool:
        return replace(key, columns=tuple(sources.get(name, name) for name in key.columns)) not in old.foreign_keys

    def touched(names: Iterable[str]) -> bool:
        return not changed.isdisjoint(map(str.lower, names))

    own = [
        key
        for key in new.foreign_keys
        if is_new(key) or touched(key.columns) or (key.table == new.name and touched(key.references))
    ]
    others = [
        (other, [key for key in other.foreign_keys if key.table == new.name and touched(key.references)])
        for other in schema.tables.values()
        if other.name != new.name
    ]
    return [(new, own), *others]


def _check_rows(connection: SqliteConnection, schema: Schema, table: Table, keys: Iterable[ForeignKey]) -> None:
    """Refuse rows without a parent by these keys alone: by others there may be rows that were never checked."""
    for key in keys:
        pairs = zip(key.columns, key.references, strict=True)
        same = " AND ".join(f"`parent`.{quote(theirs)} = `child`.{quote(own)}" for own, theirs in pairs)
        filled = " AND ".join(f"`child`.{quote(own)} IS NOT NULL" for own in key.columns)
        parent = f"SELECT 1 FROM {table_name(schema.tables[key.table])} AS `parent` WHERE {same}"
        sql = f"SELECT 1 FROM {table_name(table)} AS `child` WHERE {filled} AND NOT EXISTS ({parent}) LIMIT 1"
        if connection.fetch_all(sql):
            text = f"Cannot add or update a child row: a foreign key constraint fails (`{DATABASE}`.`{table.name}`)"
            raise SqliteFault("SQLITE_CONSTRAINT_FOREIGNKEY", "foreign_key_check", text, 1452)


def _check_queue(table: Table) -> None:
    """A table that is marked as a queue must have ids that can name its messages here."""
    identity = table.column("id") if QUEUE_MARK in table.comment else None
    reason = None if identity is None else unfit_id(meta(identity.type, identity.name))
    if reason is not None:
        raise SqlError(1235, f"The embedded backend has no such queue: {reason}")


def _with_selected(defined: Sequence[Column], selected: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of CREATE TABLE (...) SELECT: those only defined, then the query's in its order, as defined if so."""
    known = {column.name.lower(): column for column in defined}
    names = {column.name.lower() for column in selected}
    own = [column for column in defined if column.name.lower() not in names]
    return (*own, *(known.get(column.name.lower(), column) for column in selected))


def _copied(source: Table, target: Table) -> Table:
    """CREATE TABLE ... LIKE: everything but foreign keys and the count of AUTO_INCREMENT."""
    checks = tuple(
        replace(check, name=check.name.replace(f"{source.name}_chk_", f"{target.name}_chk_")) for check in source.checks
    )
    return replace(
        source,
        name=target.name,
        temporary=target.temporary,
        foreign_keys=(),
        checks=checks,
        auto_increment=None,
    )


def _no_variables(plan: Query) -> None:
    if plan.assigned:
        raise unsupported("assigning variables in the query of a definition", "use SET")


def store_definition(connection: SqliteConnection, table: Table, old_name: str | None = None) -> None:
    """Write a table's definition, in place of the one under its old name."""
    delete_definition(connection, old_name or table.name)
    delete_definition(connection, table.name)
    kind = "table" if table.view is None else "view"
    connection.execute(
        "INSERT INTO queuegate_meta_tables (name, comment, kind, definition) VALUES (?, ?, ?, ?)",
        (table.name, table.comment, kind, to_json(table)),
    ).close()
    for ordinal, column in enumerate(table.columns, 1):
        described = meta(column.type, column.name, table.flags(column))
        values = (described.type, described.charset, described.length, described.flags, described.decimals)
        connection.execute(
            "INSERT INTO queuegate_meta_columns (table_name, ordinal, name, type, charset, length, flags, decimals)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (table.name, ordinal, column.name, *values),
        ).close()


def delete_definition(connection: SqliteConnection, name: str) -> None:
    """Remove a table's definition."""
    connection.execute("DELETE FROM queuegate_meta_tables WHERE name = ?", (name,)).close()
    connection.execute("DELETE FROM queuegate_meta_columns WHERE table_name = ?", (name,)).close()


def _refuse_namesake(schema: Schema, table: Table, but: str = "") -> None:
    """SQLite has no two tables whose names differ in case alone, as MySQL on Linux has."""
    other = schema.namesake(table.name, temporary=table.temporary)
    if other is not None and other.name != but:
        text = f"Table '{table.name}' already exists as '{other.name}': here names have to differ in more than case"
        raise SqlError(1050, text)
