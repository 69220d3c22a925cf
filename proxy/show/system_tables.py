"""Values of the system tables as SQL: derived tables that every database here reads. Pure."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from proxy.show.status_tables import FIELDS, Field, Kind, Value, Values
from rewriter.views import View

_GROUP = 20  # rows in one subquery: the embedded backend's compiler goes down one step for each
_PLAIN = re.compile(r"[ !#-&(-\[\]-~]*", re.ASCII)  # needs no escape in whatever sql_mode and charset


def derived_table(table: View, rows: Sequence[Values]) -> str:
    """The rows in parentheses, with names and types also without any row."""
    header = _header(FIELDS[table])
    return f"({' UNION ALL '.join((header, *unions(header, rows)))})"


def unions(header: str, rows: Sequence[Values], unsigned: Container[int] = ()) -> list[str]:
    """SELECTs of the rows, to be joined by UNION ALL. `header`: a SELECT of no rows, with their names and types.

    Each group begins with the header: a column that is NULL in all of a group's rows would be a text otherwise, and
    with it the same column of the whole. `unsigned`: the places of the columns whose numbers have no sign; together
    with a number that has one, or with NULL, they would be decimal.
    """
    selects = [f"SELECT {', '.join(_cell(value, n in unsigned) for n, value in enumerate(row))}" for row in rows]
    groups = [selects[start : start + _GROUP] for start in range(0, len(selects), _GROUP)]
    return [f"SELECT * FROM ({' UNION ALL '.join((header, *group))}) AS qg_{n}" for n, group in enumerate(groups)]


def _header(fields: Sequence[Field]) -> str:
    columns = ", ".join(f"{_typed(field)} AS `{field.name}`" for field in fields)
    return f"SELECT {columns} FROM (SELECT 1 AS qg_one) AS qg_none WHERE 1 = 0"


def _typed(field: Field) -> str:
    if field.kind is Kind.TEXT:
        return f"CAST('' AS CHAR({field.length}))"
    return "CAST(0 AS SIGNED)" if field.kind is Kind.NUMBER else "CAST(0 AS DECIMAL(20,3))"


def _cell(value: Value, unsigned: bool) -> str:
    return f"CAST({_literal(value)} AS UNSIGNED)" if unsigned else _literal(value)


def _literal(value: Value) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, int):
        return str(value)
    if _PLAIN.fullmatch(value):
        return f"'{value}'"
    return f"CONVERT(X'{value.encode('utf-8', 'replace').hex()}' USING utf8mb4)"
