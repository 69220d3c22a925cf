"""The rows of information_schema, made from the schema when a statement reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from embedded.compile.queries.information_schema import INFORMATION_SCHEMA, virtual_tables
from embedded.compile.schema import DATABASE, Column, ForeignKey, Index, Schema, Table, decimals_suffix
from embedded.compile.values.types import COLLATION_IDS, TEXTUAL, Kind, SqlType, collation_name, digits
from embedded.session.variables import Variables

Rows = Iterator[dict[str, Any]]
_CATALOG = "def"
_PRIVILEGES = "select,insert,update,references"
_CHARSETS = {
    "utf8mb4": ("UTF-8 Unicode", "utf8mb4_general_ci", 4),
    "utf8mb3": ("UTF-8 Unicode", "utf8mb3_general_ci", 3),
    "latin1": ("cp1252 West European", "latin1_swedish_ci", 1),
    "ascii": ("US ASCII", "ascii_general_ci", 1),
    "binary": ("Binary pseudo charset", "binary", 1),
}


@dataclass(eq=False, slots=True)
class ColumnTexts:
    """The rows of COLUMNS as text, cached for a table until it is changed: a client may query them at each read."""

    _texts: dict[str, tuple[Table, str]] = field(default_factory=dict)

    def of(self, tables: Iterator[Table]) -> Iterator[str]:
        """The rows of each table that has any, with commas between them."""
        texts = {}
        for table in tables:
            known = self._texts.get(table.name)
            texts[table.name] = known if known is not None and known[0] is table else (table, _columns_text(table))
        self._texts = texts
        return (text for _, text in texts.values() if text)


@dataclass(frozen=True, slots=True)
class Information:
    """What the rows are made from. `numbers` returns a table's next AUTO_INCREMENT value and its row count."""

    schema: Schema
    variables: Variables
    processes: Sequence[Any]
    account: str
    status: dict[str, Any]
    column_texts: ColumnTexts
    named: str | None = None  # the table that is queried by its name, which may be a temporary one

    def rows(self, table: str) -> str:
        """A table's rows as JSON, its columns in their order."""
        if table == "COLUMNS":
            return f"[{','.join([_own_columns(), *self.column_texts.of(_visible(self))])}]"
        make = _ROWS.get(table)
        return f"[{_text(table, make(self) if make is not None else iter(()))}]"


def _text(table: str, rows: Rows) -> str:
    """Rows as JSON, with commas between them and no brackets around them."""
    columns = [column.name for column in virtual_tables()[table]]
    return json.dumps([[row.get(column) for column in columns] for row in rows], ensure_ascii=False)[1:-1]


def _schemata(info: Information) -> Rows:
    for name in (INFORMATION_SCHEMA, DATABASE):
        yield {
            "CATALOG_NAME": _CATALOG,
            "SCHEMA_NAME": name,
            "DEFAULT_CHARACTER_SET_NAME": "utf8mb4",
            "DEFAULT_COLLATION_NAME": "utf8mb4_general_ci",
        }


def _visible(info: Information) -> Iterator[Table]:
    """Temporary tables are in no list, but DESCRIBE and SHOW COLUMNS show them by name."""
    return (table for table in info.schema.tables.values() if not table.temporary or table.name == info.named)


def _tables(info: Information) -> Rows:
    for name in virtual_tables():
        yield {
            "TABLE_CATALOG": _CATALOG,
            "TABLE_SCHEMA": INFORMATION_SCHEMA,
            "TABLE_NAME": name,
            "TABLE_TYPE": "SYSTEM VIEW",
            "TABLE_COMMENT": "",
        }
    for table in _visible(info):
        base = {"TABLE_CATALOG": _CATALOG, "TABLE_SCHEMA": DATABASE, "TABLE_NAME": table.name}
        if table.view is not None:
            yield {**base, "TABLE_TYPE": "VIEW", "TABLE_COMMENT": "VIEW"}
            continue
        yield {
            **base,
            "TABLE_TYPE": "BASE TABLE",
            "ENGINE": "InnoDB",
            "VERSION": 10,
            "ROW_FORMAT": "Dynamic",
            "TABLE_ROWS": info.status.get(f"rows:{table.name}"),
            "AUTO_INCREMENT": info.status.get(f"next:{table.name}"),
            "DATA_LENGTH": 0,
            "CREATE_TIME": table.created or None,
            "TABLE_COLLATION": table.collation,
            "CREATE_OPTIONS": "",
            "TABLE_COMMENT": table.comment,
        }


@cache
def _own_columns() -> str:
    """The rows of COLUMNS about information_schema itself."""
    return ",".join(
        _columns_text(Table(name, columns), INFORMATION_SCHEMA) for name, columns in virtual_tables().items()
    )


def _columns_text(table: Table, schema: str = DATABASE) -> str:
    rows = (_column(table, column, position) for position, column in enumerate(table.columns, 1))
    return _text("COLUMNS", ({**row, "TABLE_SCHEMA": schema} for row in rows))


def _column(table: Table, column: Column, position: int) -> dict[str, Any]:
    return {
        "TABLE_CATALOG": _CATALOG,
        "TABLE_NAME": table.name,
        "COLUMN_NAME": column.name,
        "ORDINAL_POSITION": position,
        "COLUMN_DEFAULT": _default(column),
        "IS_NULLABLE": "YES" if column.nullable else "NO",
        "DATA_TYPE": column.type.name,
        **_dimensions(column.type),
        "COLUMN_TYPE": column.type.declared,
        "COLUMN_KEY": table.key_of(column),
        "EXTRA": column.extra,
        "PRIVILEGES": _PRIVILEGES,
        "COLUMN_COMMENT": column.comment,
        "GENERATION_EXPRESSION": column.generated or "",
    }


def _default(column: Column) -> str | None:
    default = column.default
    if default is None:
        return None
    if default.now is not None:
        return f"CURRENT_TIMESTAMP{decimals_suffix(default.now)}"
    if column.type.kind is Kind.BIT and (default.text or "").isdecimal():
        return f"b'{int(default.text or 0):b}'"
    return default.text


def _dimensions(sql_type: SqlType) -> dict[str, Any]:
    if sql_type.kind in TEXTUAL:
        length = sql_type.character_length or 0
        in_bytes = sql_type.name.endswith("text")
        collation = collation_name(sql_type.collation)
        return {
            "CHARACTER_MAXIMUM_LENGTH": length,
            "CHARACTER_OCTET_LENGTH": length if in_bytes else length * 4,
            "CHARACTER_SET_NAME": collation.split("_")[0],
            "COLLATION_NAME": collation,
        }
    if sql_type.kind is Kind.BINARY:
        return {
            "CHARACTER_MAXIMUM_LENGTH": sql_type.character_length,
            "CHARACTER_OCTET_LENGTH": sql_type.character_length,
        }
    if sql_type.kind in (Kind.INT, Kind.DECIMAL, Kind.EXACT):
        precision = digits(sql_type) if sql_type.kind is not Kind.INT else _integer_digits(sql_type)
        return {"NUMERIC_PRECISION": precision, "NUMERIC_SCALE": sql_type.scale}
    if sql_type.kind is Kind.BIT:
        return {"NUMERIC_PRECISION": sql_type.size or 1}
    if sql_type.kind is Kind.DOUBLE and sql_type.size is not None:
        return {"NUMERIC_PRECISION": sql_type.size, "NUMERIC_SCALE": sql_type.scale}
    if sql_type.kind is Kind.DOUBLE:
        return {"NUMERIC_PRECISION": 12 if sql_type.name == "float" else 22}
    if sql_type.kind in (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME):
        return {"DATETIME_PRECISION": sql_type.scale}
    return {}


def _integer_digits(sql_type: SqlType) -> int:
    return {"tinyint": 3, "smallint": 5, "mediumint": 7, "int": 10}.get(sql_type.name, 20 if sql_type.unsigned else 19)


def _statistics(info: Information) -> Rows:
    for table in _visible(info):
        for index in table.indexes:
            for position, part in enumerate(index.parts, 1):
                column = table.column(part.column)
                yield {
                    "TABLE_CATALOG": _CATALOG,
                    "TABLE_SCHEMA": DATABASE,
                    "TABLE_NAME": table.name,
                    "NON_UNIQUE": int(not index.unique),
                    "INDEX_SCHEMA": DATABASE,
                    "INDEX_NAME": index.name,
                    "SEQ_IN_INDEX": position,
                    "COLUMN_NAME": part.column,
                    "COLLATION": "D" if part.descending else "A",
                    "CARDINALITY": info.status.get(f"rows:{table.name}", 0),
                    "SUB_PART": part.length,
                    "NULLABLE": "YES" if column is not None and column.nullable else "",
                    "INDEX_TYPE": "BTREE",
                    "COMMENT": "",
                    "INDEX_COMMENT": index.comment,
                    "IS_VISIBLE": "YES",
                }


def _constraint(table: Table, name: str) -> dict[str, Any]:
    return {
        "CONSTRAINT_CATALOG": _CATALOG,
        "CONSTRAINT_SCHEMA": DATABASE,
        "CONSTRAINT_NAME": name,
        "TABLE_CATALOG": _CATALOG,
        "TABLE_SCHEMA": DATABASE,
        "TABLE_NAME": table.name,
    }


def _unique(table: Table) -> Iterator[Index]:
    return (index for index in table.indexes if index.unique)


def _key_column_usage(info: Information) -> Rows:
    for table in _visible(info):
        for index in _unique(table):
            for position, part in enumerate(index.parts, 1):
                row = _constraint(table, index.name)
                yield {**row, "COLUMN_NAME": part.column, "ORDINAL_POSITION": position}
        for key in _foreign_keys(table):
            for position, (column, reference) in enumerate(zip(key.columns, key.references, strict=True), 1):
                yield {
                    **_constraint(table, key.name),
                    "COLUMN_NAME": column,
                    "ORDINAL_POSITION": position,
                    "POSITION_IN_UNIQUE_CONSTRAINT": position,
                    "REFERENCED_TABLE_SCHEMA": DATABASE,
                    "REFERENCED_TABLE_NAME": key.table,
                    "REFERENCED_COLUMN_NAME": reference,
                }


def _foreign_keys(table: Table) -> list[ForeignKey]:
    """In the order in which InnoDB lists them."""
    return sorted(table.foreign_keys, key=lambda key: key.name)


def _table_constraints(info: Information) -> Rows:
    for table in _visible(info):
        kinds = [(index.name, "PRIMARY KEY" if index.primary else "UNIQUE") for index in _unique(table)]
        kinds += [(key.name, "FOREIGN KEY") for key in _foreign_keys(table)]
        kinds += [(check.name, "CHECK") for check in table.checks]
        for name, kind in kinds:
            yield {**_constraint(table, name), "CONSTRAINT_TYPE": kind, "ENFORCED": "YES"}


def _referential_constraints(info: Information) -> Rows:
    for table in _visible(info):
        for key in _foreign_keys(table):
            parent = info.schema.table(key.table)
            unique = (
                next((one.name for one in _unique(parent) if set(one.columns) == set(key.references)), None)
                if parent
                else None
            )
            yield {
                **_constraint(table, key.name),
                "UNIQUE_CONSTRAINT_CATALOG": _CATALOG,
                "UNIQUE_CONSTRAINT_SCHEMA": DATABASE,
                "UNIQUE_CONSTRAINT_NAME": unique,
                "MATCH_OPTION": "NONE",
                "UPDATE_RULE": key.on_update,
                "DELETE_RULE": key.on_delete,
                "REFERENCED_TABLE_NAME": key.table,
            }


def _check_constraints(info: Information) -> Rows:
    for table in _visible(info):
        for check in table.checks:
            yield {**_constraint(table, check.name), "CHECK_CLAUSE": f"({check.expression})"}


def _views(info: Information) -> Rows:
    for table in _visible(info):
        if table.view is not None:
            yield {
                "TABLE_CATALOG": _CATALOG,
                "TABLE_SCHEMA": DATABASE,
                "TABLE_NAME": table.name,
                "VIEW_DEFINITION": table.view,
                "CHECK_OPTION": "NONE",
                "IS_UPDATABLE": "NO",
                "DEFINER": info.account.replace("`", ""),
                "SECURITY_TYPE": "INVOKER",
                "CHARACTER_SET_CLIENT": "utf8mb4",
                "COLLATION_CONNECTION": "utf8mb4_general_ci",
            }


def _character_sets(info: Information) -> Rows:
    for name, (description, collation, size) in _CHARSETS.items():
        yield {
            "CHARACTER_SET_NAME": name,
            "DEFAULT_COLLATE_NAME": collation,
            "DESCRIPTION": description,
            "MAXLEN": size,
        }


def _collations(info: Information) -> Rows:
    defaults = {collation for _, collation, _ in _CHARSETS.values()}
    for name, number in COLLATION_IDS.items():
        yield {
            "COLLATION_NAME": name,
            "CHARACTER_SET_NAME": name.split("_")[0],
            "ID": number,
            "IS_DEFAULT": "Yes" if name in defaults else "",
            "IS_COMPILED": "Yes",
            "SORTLEN": 1,
            "PAD_ATTRIBUTE": "NO PAD",
        }


def _engines(info: Information) -> Rows:
    yield {
        "ENGINE": "InnoDB",
        "SUPPORT": "DEFAULT",
        "COMMENT": "SQLite under the name that clients expect",
        "TRANSACTIONS": "YES",
        "XA": "NO",
        "SAVEPOINTS": "YES",
    }


def _user_privileges(info: Information) -> Rows:
    grantee = info.account.replace("`", "'")
    yield {"GRANTEE": grantee, "TABLE_CATALOG": _CATALOG, "PRIVILEGE_TYPE": "ALL PRIVILEGES", "IS_GRANTABLE": "NO"}


def _processlist(info: Information) -> Rows:
    for process in info.processes:
        yield {
            "ID": process.connection_id,
            "USER": process.user,
            "HOST": process.host,
            "DB": process.database,
            "COMMAND": process.command,
            "TIME": process.seconds,
            "STATE": process.state,
            "INFO": process.info,
        }


def _variables(scope: str) -> Callable[[Information], Rows]:
    def rows(info: Information) -> Rows:
        for name, value in info.variables.all(scope):
            yield {"VARIABLE_NAME": name, "VARIABLE_VALUE": value}

    return rows


def _status(info: Information) -> Rows:
    for name, value in info.status.items():
        if ":" not in name:
            yield {"VARIABLE_NAME": name, "VARIABLE_VALUE": str(value)}


_ROWS: dict[str, Callable[[Information], Rows]] = {
    "SCHEMATA": _schemata,
    "TABLES": _tables,
    "STATISTICS": _statistics,
    "KEY_COLUMN_USAGE": _key_column_usage,
    "TABLE_CONSTRAINTS": _table_constraints,
    "REFERENTIAL_CONSTRAINTS": _referential_constraints,
    "CHECK_CONSTRAINTS": _check_constraints,
    "VIEWS": _views,
    "CHARACTER_SETS": _character_sets,
    "COLLATIONS": _collations,
    "COLLATION_CHARACTER_SET_APPLICABILITY": _collations,
    "ENGINES": _engines,
    "USER_PRIVILEGES": _user_privileges,
    "PROCESSLIST": _processlist,
    "GLOBAL_VARIABLES": _variables("global"),
    "SESSION_VARIABLES": _variables("session"),
    "GLOBAL_STATUS": _status,
    "SESSION_STATUS": _status,
}
