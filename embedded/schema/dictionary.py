"""The data dictionary: what MySQL knows of a table and SQLite does not, stored in the same file and transaction."""

from __future__ import annotations

from embedded.compile.schema import Table, to_json
from embedded.compile.values.types import meta
from embedded.database.connection import SqliteConnection


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
