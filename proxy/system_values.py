"""Values of the system tables as SQL: derived tables that every database here reads. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from proxy.status_tables import IN_FLIGHT, QUEUES, SUBSCRIPTIONS, Field, Kind, Value, Values
from rewriter.plan import SystemTable

FIELDS = {
    SystemTable.QUEUES: QUEUES,
    SystemTable.SUBSCRIPTIONS: SUBSCRIPTIONS,
    SystemTable.IN_FLIGHT: IN_FLIGHT,
}
"""The columns of each table."""

_GROUP = 20  # rows in one subquery: the embedded backend's compiler goes down one step for each
_PLAIN = re.compile(r"[ !#-&(-\[\]-~]*", re.ASCII)  # needs no escape in whatever sql_mode and charset


def derived_table(table: SystemTable, rows: Sequence[Values]) -> str:
    """The rows in parentheses, with names and types that hold for no rows at all."""
    return f"({' UNION ALL '.join((_header(FIELDS[table]), *unions(rows)))})"


def unions(rows: Sequence[Values]) -> list[str]:
    """SELECTs of the rows, to be joined by UNION ALL."""
    selects = [f"SELECT {_cells(row, named=number % _GROUP == 0)}" for number, row in enumerate(rows)]
    groups = [" UNION ALL ".join(selects[start : start + _GROUP]) for start in range(0, len(selects), _GROUP)]
    return [f"SELECT * FROM ({group}) AS qg_{n}" for n, group in enumerate(groups)]


def _cells(row: Values, *, named: bool) -> str:
    """A row's values; `named`: the first of a subquery names its columns, which must differ."""
    return ", ".join(f"{_literal(value)} AS qg_{n}" if named else _literal(value) for n, value in enumerate(row))


def _header(fields: Sequence[Field]) -> str:
    columns = ", ".join(f"{_typed(field)} AS `{field.name}`" for field in fields)
    return f"SELECT {columns} FROM (SELECT 1 AS qg_one) AS qg_none WHERE 1 = 0"


def _typed(field: Field) -> str:
    if field.kind is Kind.TEXT:
        return f"CAST('' AS CHAR({field.length}))"
    return "CAST(0 AS SIGNED)" if field.kind is Kind.NUMBER else "CAST(0 AS DECIMAL(20,3))"


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
