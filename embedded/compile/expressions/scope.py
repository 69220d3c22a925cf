"""Names in a query: which table or subquery a column belongs to, and what `*` expands to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from embedded.compile.compilation import quote
from embedded.compile.errors import SqlError, unknown_column
from embedded.compile.expressions.typed import Origin, Typed
from embedded.compile.schema import Table
from embedded.compile.values.types import Kind, datetime_type


@dataclass(frozen=True, slots=True)
class Source:
    """A table, view or subquery in FROM, by the name the statement knows it."""

    alias: str
    columns: tuple[tuple[str, Typed], ...]
    table: str = ""
    database: str = "main"

    def find(self, name: str) -> Typed | None:
        lowered = name.lower()
        return next((value for column, value in self.columns if column.lower() == lowered), None)


@dataclass(eq=False, slots=True)
class Scope:
    """What names mean at one level of a query. `merged` are columns of JOIN ... USING, visible once; `aliases` come
    after the tables' columns, `preferred` before them; `hidden` sources are found by their name only."""

    parent: Scope | None = None
    sources: list[Source] = field(default_factory=list)
    merged: dict[str, Typed] = field(default_factory=dict)
    aliases: dict[str, Typed] = field(default_factory=dict)
    hidden: list[Source] = field(default_factory=list)
    preferred: dict[str, Typed] = field(default_factory=dict)
    clause: str = "field list"

    def add(self, source: Source) -> None:
        if any(other.alias == source.alias for other in self.sources):
            raise SqlError(1066, f"Not unique table/alias: '{source.alias}'")
        self.sources.append(source)

    def source(self, alias: str, database: str | None = None) -> Source | None:
        return next(
            (one for one in (*self.sources, *self.hidden) if one.alias == alias and database in (None, one.database)),
            None,
        )

    def resolve(self, name: str, table: str | None = None) -> Typed:
        """The column of that name, in this scope or one around it.

        Raises:
            SqlError: 1054 unknown, 1052 ambiguous.
        """
        scope: Scope | None = self
        while scope is not None:
            match = scope.find(name, table)
            if match is not None:
                return match
            scope = scope.parent
        raise unknown_column(f"{table}.{name}" if table else name, self.clause)

    def find(self, name: str, table: str | None) -> Typed | None:
        lowered = name.lower()
        if table is not None:
            source = self.source(table)
            return source.find(name) if source is not None else None
        if lowered in self.preferred:
            return self.preferred[lowered]
        if lowered in self.merged:
            return self.merged[lowered]
        matches = [column for column in (source.find(name) for source in self.sources) if column is not None]
        if len(matches) > 1:
            raise SqlError(1052, f"Column '{name}' in {self.clause} is ambiguous")
        return matches[0] if matches else self.aliases.get(lowered)

    def star(self) -> list[tuple[str, Typed]]:
        """What `*` expands to: merged columns first, then the others in order."""
        columns: list[tuple[str, Typed]] = list(_named(self.merged))
        for source in self.sources:
            columns += [(name, value) for name, value in source.columns if name.lower() not in self.merged]
        return columns


def _named(merged: dict[str, Typed]) -> list[tuple[str, Typed]]:
    return [(value.origin.column.name if value.origin else name, value) for name, value in merged.items()]


def table_source(table: Table, alias: str, utc: bool, nullable: bool = False) -> Source:
    """A base table or view, with every column as an expression."""
    columns = []
    for column in table.columns:
        sql = f"{quote(alias)}.{quote(column.name)}" if alias else quote(column.name)
        value = Typed(
            sql,
            column.type,
            nullable or column.nullable,
            origin=Origin(alias, table.name, column, table.flags(column)),
            unquoted=f"({sql} ->> '$')" if column.type.kind is Kind.JSON else None,
            collated=table.view is None,
        )
        columns.append((column.name, value if utc else local(value)))
    return Source(alias, tuple(columns), table.name)


def local(value: Typed) -> Typed:
    """A TIMESTAMP column, stored in UTC, in the session's time zone."""
    if value.type.kind is not Kind.TIMESTAMP:
        return value
    return replace(value, sql=f"qg_local({value.sql})", type=value.type, collated=False)


def derived_source(alias: str, columns: list[tuple[str, Typed]], names: tuple[str, ...] = ()) -> Source:
    """A subquery or common table expression, whose columns are known by their names alone."""
    if names and len(names) != len(columns):
        raise SqlError(1353, "The list of column names and the SELECT's column list have different column counts")
    result: list[tuple[str, Typed]] = []
    seen: set[str] = set()
    for position, (name, value) in enumerate(columns):
        name = names[position] if names else name
        if name.lower() in seen:
            raise SqlError(1060, f"Duplicate column name '{name}'")
        seen.add(name.lower())
        sql = f"{quote(alias)}.{quote(name)}"
        result.append((name, _outer(value, sql)))
    return Source(alias, tuple(result))


def _outer(value: Typed, sql: str) -> Typed:
    kind = value.type.kind
    sql_type = datetime_type(value.type.scale) if kind is Kind.TIMESTAMP else value.type
    unquoted = f"({sql} ->> '$')" if kind is Kind.JSON else None
    return Typed(
        sql,
        sql_type,
        value.nullable,
        origin=value.origin,
        unquoted=unquoted,
        collated=value.collated,
        carried=value.carried,
        weight=value.weight,
    )
