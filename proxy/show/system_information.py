"""information_schema with the system tables among its rows: derived tables that every database here reads. Pure.

They have the columns of the server's own, in its order, so that SELECT * stays what it is there. A column without
meaning for a system table is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence

from proxy.show.status_tables import FIELDS, Field, Kind, Value, Values
from proxy.show.system_shows import CHARSET, COLLATION, PRIVILEGES, column_type
from rewriter.grammar.system_tables import DATABASE
from rewriter.plan import InformationTable
from rewriter.views import SYSTEM_TABLES, View

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


# Values of the system tables as SQL: derived tables that every database here reads. Pure.

_GROUP = 20  # rows in one subquery: the embedded backend's compiler goes down one step for each
_PLAIN = re.compile(r"[ !#-&(-\[\]-~]*", re.ASCII)  # needs no escape in whatever sql_mode and charset


def derived_table(table: View, rows: Sequence[Values], *, utf8: bool = True) -> str:
    """The rows in parentheses, with names and types also without any row. `utf8`: whether the client's texts are in
    UTF-8."""
    header = _header(FIELDS[table])
    return f"({' UNION ALL '.join((header, *unions(header, rows, utf8=utf8)))})"


def unions(header: str, rows: Sequence[Values], unsigned: Container[int] = (), *, utf8: bool = False) -> list[str]:
    """SELECTs of the rows, to be joined by UNION ALL. `header`: a SELECT of no rows, with their names and types.

    Each group begins with the header: a column that is NULL in all of a group's rows would be a text otherwise, and
    with it the same column of the whole. `unsigned`: the places of the columns whose numbers have no sign; together
    with a number that has one, or with NULL, they would be decimal.
    """
    selects = [f"SELECT {', '.join(_cell(value, n in unsigned, utf8) for n, value in enumerate(row))}" for row in rows]
    groups = [selects[start : start + _GROUP] for start in range(0, len(selects), _GROUP)]
    return [f"SELECT * FROM ({' UNION ALL '.join((header, *group))}) AS qg_{n}" for n, group in enumerate(groups)]


def _header(fields: Sequence[Field]) -> str:
    columns = ", ".join(f"{_typed(field)} AS `{field.name}`" for field in fields)
    return f"SELECT {columns} FROM (SELECT 1 AS qg_one) AS qg_none WHERE 1 = 0"


def _typed(field: Field) -> str:
    if field.kind is Kind.TEXT:
        return f"CAST('' AS CHAR({field.length}))"
    return "CAST(0 AS SIGNED)" if field.kind is Kind.NUMBER else "CAST(0 AS DECIMAL(20,3))"


def _cell(value: Value, unsigned: bool, utf8: bool) -> str:
    return f"CAST({_literal(value, utf8)} AS UNSIGNED)" if unsigned else _literal(value, utf8)


def _literal(value: Value, utf8: bool) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, int):
        return str(value)
    if _PLAIN.fullmatch(value):
        return f"'{value}'"
    converted = f"CONVERT(X'{value.encode('utf-8', 'replace').hex()}' USING {CHARSET})"
    # Cast, it has the collation of the client's connection, as the header has. A character set with less would lose.
    return f"CAST({converted} AS CHAR)" if utf8 and max(value) <= "\uffff" else converted
