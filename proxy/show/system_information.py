"""information_schema with the system tables among its rows: derived tables that every database here reads. Pure.

They have the columns of the server's own, in its order, so that SELECT * stays what it is there. A column without
meaning for a system table is NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proxy.show.status_tables import FIELDS, Field, Kind, Value
from proxy.show.system_shows import CHARSET, COLLATION, PRIVILEGES, column_type
from proxy.show.system_tables import unions
from rewriter.grammar.system_tables import DATABASE
from rewriter.plan import InformationTable
from rewriter.views import SYSTEM_TABLES

Cells = Mapping[str, Value]


def columns_of(table: InformationTable) -> str:
    """A SELECT of the names and types of the columns that the database's own table has."""
    return (
        "SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'information_schema'"
        f" AND TABLE_NAME = '{table.value}' ORDER BY ORDINAL_POSITION"
    )


def with_system_tables(table: InformationTable, columns: Sequence[tuple[str, str]]) -> str:
    """The database's own table and our rows, in parentheses. `columns`: names and types of the database's own."""
    rows = [tuple(row.get(name.upper()) for name, _ in columns) for row in _ROWS[table]]
    unsigned = {place for place, (_, sql_type) in enumerate(columns) if "unsigned" in sql_type.lower()}
    own = f"SELECT * FROM information_schema.{table.value}"
    return f"({' UNION ALL '.join((own, *unions(f'{own} WHERE 1 = 0', rows, unsigned)))})"


def _schema() -> Cells:
    return {
        "CATALOG_NAME": "def",
        "SCHEMA_NAME": DATABASE,
        "DEFAULT_CHARACTER_SET_NAME": CHARSET,
        "DEFAULT_COLLATION_NAME": COLLATION,
        "SCHEMA_COMMENT": "",
        "DEFAULT_ENCRYPTION": "NO",
    }


def _table(name: str) -> Cells:
    return {
        "TABLE_CATALOG": "def",
        "TABLE_SCHEMA": DATABASE,
        "TABLE_NAME": name,
        "TABLE_TYPE": "BASE TABLE",
        "ENGINE": "MEMORY",
        "VERSION": 10,
        "ROW_FORMAT": "Dynamic",
        "TABLE_COLLATION": COLLATION,
        "CREATE_OPTIONS": "",
        "TABLE_COMMENT": "",
        "TEMPORARY": "N",
    }


def _column(table: str, place: int, field: Field) -> Cells:
    described: dict[str, Value] = {
        "TABLE_CATALOG": "def",
        "TABLE_SCHEMA": DATABASE,
        "TABLE_NAME": table,
        "COLUMN_NAME": field.name,
        "ORDINAL_POSITION": place,
        "IS_NULLABLE": "YES",
        "COLUMN_TYPE": column_type(field),
        "DATA_TYPE": column_type(field).partition("(")[0],
        "COLUMN_KEY": "",
        "EXTRA": "",
        "PRIVILEGES": PRIVILEGES,
        "COLUMN_COMMENT": "",
        "IS_GENERATED": "NEVER",
    }
    if field.kind is Kind.TEXT:
        lengths = {"CHARACTER_MAXIMUM_LENGTH": field.length, "CHARACTER_OCTET_LENGTH": 4 * field.length}
        return described | lengths | {"CHARACTER_SET_NAME": CHARSET, "COLLATION_NAME": COLLATION}
    whole = field.kind is Kind.NUMBER
    return described | {"NUMERIC_PRECISION": 19 if whole else 20, "NUMERIC_SCALE": 0 if whole else 3}


_ROWS: Mapping[InformationTable, Sequence[Cells]] = {
    InformationTable.SCHEMATA: (_schema(),),
    InformationTable.TABLES: tuple(map(_table, SYSTEM_TABLES)),
    InformationTable.COLUMNS: tuple(
        _column(name, place, field)
        for name, view in SYSTEM_TABLES.items()
        for place, field in enumerate(FIELDS[view], 1)
    ),
}
