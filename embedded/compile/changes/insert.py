"""INSERT and REPLACE. A statement with many rows is compiled as one row: see `rows`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from embedded.compile.changes.assignments import Assignments
from embedded.compile.changes.column_value import DefaultScope, default_value, generated_value, is_default, stored
from embedded.compile.compilation import Compilation, key_part, quote, sql_literal
from embedded.compile.errors import SqlError, unsupported
from embedded.compile.expressions.compiler import Expressions, refuse_parts
from embedded.compile.expressions.dates import EPOCH_MICROSECONDS
from embedded.compile.expressions.scope import Scope, Source, table_source
from embedded.compile.expressions.typed import Typed
from embedded.compile.plan import COMPUTED, GENERATED, Bind, Insert, InsertMode, Statement
from embedded.compile.queries.query import Queries
from embedded.compile.queries.sources import table_name
from embedded.compile.schema import Column, Index, IndexPart, Table
from embedded.compile.text.keywords import keywords
from embedded.compile.text.parse import Parsed
from embedded.compile.values.store import StoreAs
from embedded.compile.values.types import BIGINT, Kind

_PARTS = keywords("this expression conflict ignore with_ returning")
_IMPLICIT: dict[Kind, Any] = {Kind.STRING: "", Kind.BINARY: b"", Kind.JSON: "null"}


@dataclass(frozen=True, slots=True)
class AutoValue:
    """Converts a value for the AUTO_INCREMENT column: NULL and 0 ask for the next number."""

    convert: StoreAs
    zero_is_value: bool

    def __call__(self, value: Any) -> Any:
        number = self.convert(value)
        return None if number == 0 and not self.zero_is_value else number


def compile_insert(compilation: Compilation, parsed: Parsed) -> Insert:
    """The plan of an INSERT or REPLACE."""
    tree = parsed.tree
    if not isinstance(tree, exp.Insert):
        raise unsupported(f"this form of {parsed.verb}")
    refuse_parts(tree, _PARTS)
    queries = Queries(compilation)
    mode = _mode(parsed, tree)
    table, names = _target(compilation, queries, tree.this)
    builder = _InsertBuilder(compilation, queries, table, names, mode)
    source = tree.args.get("expression")
    if isinstance(source, exp.Values):
        return builder.values(source, tree)
    if source is None:
        raise unsupported("INSERT without VALUES or SELECT")
    return builder.select(source, tree)


def _mode(parsed: Parsed, tree: exp.Expression) -> InsertMode:
    conflict = tree.args.get("conflict") is not None
    if parsed.verb == "REPLACE":
        if conflict or parsed.ignore:
            raise SqlError(1064, "You have an error in your SQL syntax near 'REPLACE'")
        return InsertMode.REPLACE
    if conflict and parsed.ignore:
        raise unsupported("INSERT IGNORE with ON DUPLICATE KEY UPDATE", "use one of the two")
    return InsertMode.UPDATE if conflict else InsertMode.IGNORE if parsed.ignore else InsertMode.FAIL


def _target(compilation: Compilation, queries: Queries, node: exp.Expression) -> tuple[Table, list[str] | None]:
    names = None
    if isinstance(node, exp.Schema):
        names = [compilation.name(one.name) for one in node.expressions]
        node = node.this
    if not isinstance(node, exp.Table):
        raise unsupported("this target of INSERT")
    refuse_parts(node, frozenset(["this", "db"]))
    database = compilation.name(node.args["db"].name) if node.args.get("db") is not None else None
    table = queries.sources.find(compilation.name(node.name), database)
    if table.view is not None:
        raise unsupported("INSERT into a view", "insert into its table")
    return table, names


@dataclass(eq=False, slots=True)
class _InsertBuilder:
    """Builds one INSERT. `assigned` are the columns that get a value, in storage form."""

    compilation: Compilation
    queries: Queries
    table: Table
    names: list[str] | None
    mode: InsertMode
    assigned: dict[str, Typed] = field(default_factory=dict)
    targets: list[Column] = field(default_factory=list)
    missing: str = ""

    @property
    def expressions(self) -> Expressions:
        return self.queries.expressions

    def columns(self) -> list[Column]:
        """The columns that the statement names."""
        if self.names is None:
            return list(self.table.columns)
        columns = []
        for name in self.names:
            column = self.table.column(name)
            if column is None:
                raise SqlError(1054, f"Unknown column '{name}' in 'field list'")
            if column in columns:
                raise SqlError(1110, f"Column '{column.name}' specified twice")
            columns.append(column)
        return columns

    def values(self, source: exp.Values, tree: exp.Expression) -> Insert:
        """INSERT ... VALUES of one row."""
        if len(source.expressions) != 1:
            raise unsupported("this form of VALUES", "write VALUES (...), (...)")
        row = source.expressions[0]
        nodes = row.expressions if isinstance(row, exp.Tuple) else [row.this if isinstance(row, exp.Paren) else row]
        columns = self.columns() if nodes or self.names else []
        if len(nodes) != len(columns):
            raise SqlError(1136, "Column count doesn't match value count at row 1")
        explicit = [(column, node) for column, node in zip(columns, nodes, strict=True) if not is_default(node)]
        for column, node in explicit:
            self._assign_value(column, node)
        self._fill_defaults({column.name for column, _ in explicit})
        if not self.targets and self.table.auto_column is not None and tree.args.get("conflict") is not None:
            # SQLite has no ON CONFLICT after DEFAULT VALUES.
            body = f" ({quote(self.table.auto_column.name)}) VALUES (NULL)"
        elif self.targets:
            listed = ", ".join(quote(column.name) for column in self.targets)
            values = ", ".join(self.assigned[column.name.lower()].sql for column in self.targets)
            body = f" ({listed}) VALUES ({values})"
        else:
            body = " DEFAULT VALUES"
        conflict = self._conflict(tree, source.args.get("alias"))
        statement = self.compilation.finish(
            f"INSERT INTO {table_name(self.table)} AS {quote(self.table.name)}{body}{conflict}"
        )
        return self._plan(statement, rows=True)

    def select(self, source: exp.Expression, tree: exp.Expression) -> Insert:
        """INSERT ... SELECT."""
        columns = self.columns()
        node = source.this if isinstance(source, exp.Subquery) and not source.args.get("alias") else source
        if tree.args.get("with_") is not None:
            node.set("with_", tree.args["with_"])
        selected = self.queries.query(node, None)
        if len(selected.columns) != len(columns):
            raise SqlError(1136, "Column count doesn't match value count at row 1")
        alias = self.compilation.alias()
        for position, (column, (_, value)) in enumerate(zip(columns, selected.columns, strict=True)):
            if column.generated is not None:
                self._refuse_generated(column)
                continue
            inner = replace(value, sql=f"{alias}.c{position}", slot=None, unquoted=None)
            sql = stored(self.expressions, column, inner)
            self._set(column, self._numbered(sql) if column.auto_increment else self._not_null(column, sql))
        self._fill_defaults({column.name for column in columns})
        names = ", ".join(f"c{position}" for position in range(len(columns)))
        values = ", ".join(self._counted(i, self.assigned[one.name.lower()].sql) for i, one in enumerate(self.targets))
        listed = ", ".join(quote(column.name) for column in self.targets)
        verb = "INSERT OR REPLACE" if self.mode is InsertMode.REPLACE else "INSERT"
        body = (
            f"SELECT {values} FROM (WITH {alias}({names}) AS ({selected.sql}) SELECT * FROM {alias}) AS {alias} WHERE 1"
        )
        conflict = self._conflict(tree, None)
        target = f"{table_name(self.table)} AS {quote(self.table.name)}"
        statement = self.compilation.finish(f"{verb} INTO {target} ({listed}) {body}{conflict}")
        return self._plan(statement, rows=False)

    def _not_null(self, column: Column, sql: str) -> str:
        """SQLite's REPLACE would put the column's default where a NULL is not allowed."""
        if self.mode is not InsertMode.REPLACE or column.nullable or column.default is None:
            return sql
        return self.compilation.function(f"qg_not_null({sql}, {sql_literal(column.name)})")

    def _counted(self, position: int, sql: str) -> str:
        """The first value is passed through a function that counts the rows read, for the counts in the answer."""
        return self.compilation.function(f"qg_seen({sql})") if position == 0 else sql

    def _assign_value(self, column: Column, node: exp.Expression) -> None:
        if column.generated is not None:
            self._refuse_generated(column)
            return
        scope = DefaultScope(self.expressions, self.table, column, self.assigned)
        value = self.expressions.compile(node, scope)
        if column.auto_increment:
            self._assign_number(column, value)
        else:
            self._set(column, stored(self.expressions, column, value))

    def _refuse_generated(self, column: Column) -> None:
        """Without strict mode such a value is ignored, as in MariaDB, whose dumps have values for all columns."""
        if self.compilation.modes.strict:
            which = f"column '{column.name}' in table '{self.table.name}'"
            raise SqlError(3105, f"The value specified for generated {which} is not allowed.")

    def _assign_number(self, column: Column, value: Typed) -> None:
        if value.type.kind is Kind.NULL:
            return
        zero_is_value = self.compilation.modes.no_auto_value_on_zero
        if value.slot is not None:
            convert = AutoValue(StoreAs(column.type, column.name), zero_is_value)
            self._set(column, self.compilation.slot(value.slot, convert, value.negative))
            return
        self._set(column, self._numbered(stored(self.expressions, column, value)))

    def _numbered(self, sql: str) -> str:
        """The value is passed through a function that reports which numbers were explicit, and which the table
        generates."""
        return self.compilation.function(f"qg_numbered({sql}, {int(self.compilation.modes.no_auto_value_on_zero)})")

    def _set(self, column: Column, sql: str) -> None:
        self.targets.append(column)
        self.assigned[column.name.lower()] = Typed(sql, column.type, checked=True)

    def _fill_defaults(self, named: set[str]) -> None:
        """Defaults that SQLite cannot evaluate itself are written into the statement."""
        for column in self.table.columns:
            if column.name in named or column.generated is not None or column.auto_increment:
                continue
            if column.default is None:
                self._fill_missing(column)
            elif column.default.expression or column.default.now is not None:
                value = default_value(self.expressions, self.table, column, self.assigned)
                safe = EPOCH_MICROSECONDS in value.sql and column.type == BIGINT
                self._set(column, value.sql if safe else stored(self.expressions, column, value))

    def _fill_missing(self, column: Column) -> None:
        if column.nullable:
            return
        if self.mode is not InsertMode.IGNORE:
            self.missing = self.missing or column.name
            return
        self._set(column, sql_literal(implicit_default(column)))

    def _conflict(self, tree: exp.Expression, alias: exp.Expression | None) -> str:
        conflict = tree.args.get("conflict")
        if conflict is None:
            return " ON CONFLICT DO NOTHING" if self.mode is InsertMode.IGNORE and not self._by_row(tree) else ""
        scope = Scope(sources=[table_source(self.table, self.table.name, self.compilation.modes.utc)])
        scope.hidden = [_excluded(self.table, "excluded", None, self.compilation.modes.utc)]
        if alias is not None:
            names = [self.compilation.name(one.name) for one in alias.args.get("columns") or ()]
            renamed = self.columns() if names else None
            listed = list(zip(names, renamed or [], strict=True)) if names else None
            scope.hidden.append(_excluded(self.table, alias.name, listed, self.compilation.modes.utc))
        assignments = Assignments(self.expressions, self.table, scope)
        changes = assignments.compile(conflict.expressions)
        return "".join(f" ON CONFLICT{target} DO UPDATE SET {changes}" for target in self._conflict_targets())

    def _conflict_targets(self) -> list[str]:
        """The keys in the order in which MySQL searches the conflicting row: only the first one counts."""
        unique = [index for index in self.table.indexes if index.unique]
        if len(unique) < 2:
            return [""]
        unique.sort(key=lambda index: (not index.primary, self._may_be_null(index)))
        return [f"({', '.join(key_part(self.table, part, unique=True) for part in index.parts)})" for index in unique]

    def _may_be_null(self, index: Index) -> bool:
        columns = (self.table.column(part.column) for part in index.parts)
        return any(column is not None and column.nullable for column in columns)

    def _by_row(self, tree: exp.Expression) -> bool:
        return isinstance(tree.args.get("expression"), exp.Values)

    def _plan(self, statement: Statement, rows: bool) -> Insert:
        places = tuple(
            (column.name, position)
            for column in self.targets
            if (position := self._position(statement, self.assigned[column.name.lower()].sql)) >= 0
        )
        clear = self._clear() if self.mode is InsertMode.REPLACE and rows else ()
        auto = self._auto_position(statement)
        numbered = self.table.auto_column is not None
        return Insert(
            self.table,
            statement,
            self.mode,
            rows,
            places,
            auto,
            clear,
            self.missing,
            self.compilation.temporary,
            numbered,
        )

    def _auto_position(self, statement: Statement) -> int:
        column = self.table.auto_column
        if column is None or column.name.lower() not in self.assigned:
            return GENERATED
        position = self._position(statement, self.assigned[column.name.lower()].sql)
        return position if position >= 0 else COMPUTED

    def _position(self, statement: Statement, sql: str) -> int:
        bind = self._bind_of(sql)
        return statement.binds.index(bind) if bind is not None and bind in statement.binds else -1

    def _bind_of(self, sql: str) -> Bind | None:
        plain = sql.startswith("\x01") and sql.endswith("\x02") and sql.count("\x01") == 1
        return self.compilation.binds[int(sql[1:-1])] if plain else None

    def _clear(self) -> tuple[Statement, ...]:
        """For REPLACE: one DELETE per key that the new row could collide with."""
        statements = []
        for index in self.table.indexes:
            if not index.unique:
                continue
            tests = [self._key_test(part) for part in index.parts]
            if all(tests):
                where = " AND ".join(test for test in tests if test)
                statements.append(self.compilation.finish(f"DELETE FROM {table_name(self.table)} WHERE {where}"))
        return tuple(statements)

    def _key_test(self, part: IndexPart) -> str:
        column = self.table.column(part.column)
        assert column is not None
        value = self.assigned.get(part.column.lower())
        if value is not None:
            sql = value.sql
        elif column.generated is not None:
            sql = stored(self.expressions, column, generated_value(self.expressions, self.table, column, self.assigned))
        elif column.auto_increment or column.default is None:
            return ""
        else:
            sql = stored(self.expressions, column, default_value(self.expressions, self.table, column))
        sql = sql if part.length is None else f"substr({sql}, 1, {part.length})"
        return f"{key_part(self.table, part, unique=True)} = {sql}"


def _excluded(table: Table, alias: str, renamed: list[tuple[str, Column]] | None, utc: bool) -> Source:
    """The row that was to be inserted, under its alias in the statement."""
    source = table_source(table, "excluded", utc)
    if renamed is None:
        return replace(source, alias=alias)
    by_name = dict(source.columns)
    return Source(alias, tuple((name, by_name[column.name]) for name, column in renamed))


def implicit_default(column: Column) -> Any:
    """What INSERT IGNORE puts into a column without default."""
    if column.type.kind is Kind.ENUM:
        return column.type.values[0]
    if column.type.kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP):
        raise SqlError(1364, f"Field '{column.name}' doesn't have a default value")
    return _IMPLICIT.get(column.type.kind, 0)
