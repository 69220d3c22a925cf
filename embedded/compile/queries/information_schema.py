"""information_schema (and what of performance_schema clients read): the columns of its tables.

The rows come from the session as JSON when a statement runs, so they are ordinary tables to SELECT from.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from embedded.compile.compilation import Compilation, quote
from embedded.compile.errors import SqlError
from embedded.compile.expressions.scope import Source
from embedded.compile.expressions.typed import Origin, Typed
from embedded.compile.schema import Column
from embedded.compile.values.types import TEXT, UNSIGNED_BIGINT, SqlType, datetime_type, varchar

INFORMATION_SCHEMA = "information_schema"

# One letter per column after the name: s text of 64, l long text, i number, d date and time.
_TABLES = {
    "SCHEMATA": "CATALOG_NAME:s SCHEMA_NAME:s DEFAULT_CHARACTER_SET_NAME:s DEFAULT_COLLATION_NAME:s SQL_PATH:s",
    "TABLES": "TABLE_CATALOG:s TABLE_SCHEMA:s TABLE_NAME:s TABLE_TYPE:s ENGINE:s VERSION:i ROW_FORMAT:s TABLE_ROWS:i "
    "AVG_ROW_LENGTH:i DATA_LENGTH:i MAX_DATA_LENGTH:i INDEX_LENGTH:i DATA_FREE:i AUTO_INCREMENT:i CREATE_TIME:d "
    "UPDATE_TIME:d CHECK_TIME:d TABLE_COLLATION:s CHECKSUM:i CREATE_OPTIONS:l TABLE_COMMENT:l",
    "COLUMNS": "TABLE_CATALOG:s TABLE_SCHEMA:s TABLE_NAME:s COLUMN_NAME:s ORDINAL_POSITION:i COLUMN_DEFAULT:l "
    "IS_NULLABLE:s "
    "DATA_TYPE:s CHARACTER_MAXIMUM_LENGTH:i CHARACTER_OCTET_LENGTH:i NUMERIC_PRECISION:i NUMERIC_SCALE:i "
    "DATETIME_PRECISION:i CHARACTER_SET_NAME:s COLLATION_NAME:s COLUMN_TYPE:l COLUMN_KEY:s EXTRA:s PRIVILEGES:s "
    "COLUMN_COMMENT:l GENERATION_EXPRESSION:l SRS_ID:i",
    "STATISTICS": "TABLE_CATALOG:s TABLE_SCHEMA:s TABLE_NAME:s NON_UNIQUE:i INDEX_SCHEMA:s INDEX_NAME:s SEQ_IN_INDEX:i "
    "COLUMN_NAME:s COLLATION:s CARDINALITY:i SUB_PART:i PACKED:s NULLABLE:s INDEX_TYPE:s COMMENT:s INDEX_COMMENT:l "
    "IS_VISIBLE:s EXPRESSION:l",
    "KEY_COLUMN_USAGE": "CONSTRAINT_CATALOG:s CONSTRAINT_SCHEMA:s CONSTRAINT_NAME:s TABLE_CATALOG:s TABLE_SCHEMA:s "
    "TABLE_NAME:s "
    "COLUMN_NAME:s ORDINAL_POSITION:i POSITION_IN_UNIQUE_CONSTRAINT:i REFERENCED_TABLE_SCHEMA:s "
    "REFERENCED_TABLE_NAME:s "
    "REFERENCED_COLUMN_NAME:s",
    "TABLE_CONSTRAINTS": "CONSTRAINT_CATALOG:s CONSTRAINT_SCHEMA:s CONSTRAINT_NAME:s TABLE_SCHEMA:s TABLE_NAME:s "
    "CONSTRAINT_TYPE:s ENFORCED:s",
    "REFERENTIAL_CONSTRAINTS": "CONSTRAINT_CATALOG:s CONSTRAINT_SCHEMA:s CONSTRAINT_NAME:s UNIQUE_CONSTRAINT_CATALOG:s "
    "UNIQUE_CONSTRAINT_SCHEMA:s UNIQUE_CONSTRAINT_NAME:s MATCH_OPTION:s UPDATE_RULE:s DELETE_RULE:s TABLE_NAME:s "
    "REFERENCED_TABLE_NAME:s",
    "CHECK_CONSTRAINTS": "CONSTRAINT_CATALOG:s CONSTRAINT_SCHEMA:s CONSTRAINT_NAME:s CHECK_CLAUSE:l TABLE_NAME:s",
    "VIEWS": "TABLE_CATALOG:s TABLE_SCHEMA:s TABLE_NAME:s VIEW_DEFINITION:l CHECK_OPTION:s IS_UPDATABLE:s DEFINER:s "
    "SECURITY_TYPE:s CHARACTER_SET_CLIENT:s COLLATION_CONNECTION:s",
    "CHARACTER_SETS": "CHARACTER_SET_NAME:s DEFAULT_COLLATE_NAME:s DESCRIPTION:s MAXLEN:i",
    "COLLATIONS": "COLLATION_NAME:s CHARACTER_SET_NAME:s ID:i IS_DEFAULT:s IS_COMPILED:s SORTLEN:i PAD_ATTRIBUTE:s",
    "COLLATION_CHARACTER_SET_APPLICABILITY": "COLLATION_NAME:s CHARACTER_SET_NAME:s",
    "ENGINES": "ENGINE:s SUPPORT:s COMMENT:s TRANSACTIONS:s XA:s SAVEPOINTS:s",
    "PLUGINS": "PLUGIN_NAME:s PLUGIN_VERSION:s PLUGIN_STATUS:s PLUGIN_TYPE:s PLUGIN_LIBRARY:s PLUGIN_LICENSE:s",
    "ROUTINES": "SPECIFIC_NAME:s ROUTINE_CATALOG:s ROUTINE_SCHEMA:s ROUTINE_NAME:s ROUTINE_TYPE:s DATA_TYPE:s "
    "CHARACTER_MAXIMUM_LENGTH:i CHARACTER_OCTET_LENGTH:i NUMERIC_PRECISION:i NUMERIC_SCALE:i DATETIME_PRECISION:i "
    "CHARACTER_SET_NAME:s COLLATION_NAME:s DTD_IDENTIFIER:l ROUTINE_BODY:s ROUTINE_DEFINITION:l EXTERNAL_NAME:s "
    "EXTERNAL_LANGUAGE:s PARAMETER_STYLE:s IS_DETERMINISTIC:s SQL_DATA_ACCESS:s SQL_PATH:s SECURITY_TYPE:s CREATED:d "
    "LAST_ALTERED:d SQL_MODE:s ROUTINE_COMMENT:l DEFINER:s CHARACTER_SET_CLIENT:s COLLATION_CONNECTION:s "
    "DATABASE_COLLATION:s",
    "PARAMETERS": "SPECIFIC_CATALOG:s SPECIFIC_SCHEMA:s SPECIFIC_NAME:s ORDINAL_POSITION:i PARAMETER_MODE:s "
    "PARAMETER_NAME:s "
    "DATA_TYPE:s CHARACTER_MAXIMUM_LENGTH:i CHARACTER_OCTET_LENGTH:i NUMERIC_PRECISION:i NUMERIC_SCALE:i "
    "DATETIME_PRECISION:i CHARACTER_SET_NAME:s COLLATION_NAME:s DTD_IDENTIFIER:l ROUTINE_TYPE:s",
    "TRIGGERS": "TRIGGER_CATALOG:s TRIGGER_SCHEMA:s TRIGGER_NAME:s EVENT_MANIPULATION:s EVENT_OBJECT_SCHEMA:s "
    "EVENT_OBJECT_TABLE:s ACTION_STATEMENT:l ACTION_TIMING:s SQL_MODE:s DEFINER:s CREATED:d "
    "CHARACTER_SET_CLIENT:s COLLATION_CONNECTION:s DATABASE_COLLATION:s",
    "EVENTS": "EVENT_CATALOG:s EVENT_SCHEMA:s EVENT_NAME:s DEFINER:s TIME_ZONE:s EVENT_TYPE:s EXECUTE_AT:d "
    "INTERVAL_VALUE:s INTERVAL_FIELD:s STARTS:d ENDS:d STATUS:s EVENT_COMMENT:s ORIGINATOR:i CHARACTER_SET_CLIENT:s "
    "COLLATION_CONNECTION:s DATABASE_COLLATION:s",
    "PARTITIONS": "TABLE_CATALOG:s TABLE_SCHEMA:s TABLE_NAME:s PARTITION_NAME:s PARTITION_ORDINAL_POSITION:i "
    "PARTITION_METHOD:s PARTITION_EXPRESSION:l TABLE_ROWS:i",
    "FILES": "FILE_ID:i FILE_NAME:l FILE_TYPE:s TABLESPACE_NAME:s TABLE_CATALOG:s TABLE_SCHEMA:s TABLE_NAME:s "
    "LOGFILE_GROUP_NAME:s LOGFILE_GROUP_NUMBER:i ENGINE:s TOTAL_EXTENTS:i EXTENT_SIZE:i INITIAL_SIZE:i EXTRA:s",
    "USER_PRIVILEGES": "GRANTEE:s TABLE_CATALOG:s PRIVILEGE_TYPE:s IS_GRANTABLE:s",
    "SCHEMA_PRIVILEGES": "GRANTEE:s TABLE_CATALOG:s TABLE_SCHEMA:s PRIVILEGE_TYPE:s IS_GRANTABLE:s",
    "TABLE_PRIVILEGES": "GRANTEE:s TABLE_CATALOG:s TABLE_SCHEMA:s TABLE_NAME:s PRIVILEGE_TYPE:s IS_GRANTABLE:s",
    "COLUMN_PRIVILEGES": "GRANTEE:s TABLE_CATALOG:s TABLE_SCHEMA:s TABLE_NAME:s COLUMN_NAME:s PRIVILEGE_TYPE:s "
    "IS_GRANTABLE:s",
    "PROCESSLIST": "ID:i USER:s HOST:s DB:s COMMAND:s TIME:i STATE:s INFO:l",
    "GLOBAL_VARIABLES": "VARIABLE_NAME:s VARIABLE_VALUE:l",
    "SESSION_VARIABLES": "VARIABLE_NAME:s VARIABLE_VALUE:l",
    "GLOBAL_STATUS": "VARIABLE_NAME:s VARIABLE_VALUE:l",
    "SESSION_STATUS": "VARIABLE_NAME:s VARIABLE_VALUE:l",
    "KEYWORDS": "WORD:s RESERVED:i",
}
# Of database `mysql`: what programs read to learn of rights. All are empty here.
_GRANTS = {
    "TABLES_PRIV": "Host:s Db:s User:s Table_name:s Grantor:s Timestamp:d Table_priv:s Column_priv:s",
    "COLUMNS_PRIV": "Host:s Db:s User:s Table_name:s Column_name:s Timestamp:d Column_priv:s",
    "PROCS_PRIV": "Host:s Db:s User:s Routine_name:s Routine_type:s Grantor:s Proc_priv:s Timestamp:d",
}
_TYPES: dict[str, SqlType] = {"s": varchar(512), "l": TEXT, "i": UNSIGNED_BIGINT, "d": datetime_type(0)}


@cache
def virtual_tables() -> Mapping[str, tuple[Column, ...]]:
    """Every table with its columns."""
    return {name: _columns(text) for name, text in _TABLES.items()}


def is_grant_table(database: str | None, name: str) -> bool:
    """Whether it is one of the tables of rights of database `mysql`, which are empty: see the configuration."""
    return (database or "").lower() == "mysql" and name.upper() in _GRANTS


def virtual_source(compilation: Compilation, name: str, alias: str) -> tuple[str, Source]:
    """An information_schema table in FROM."""
    text = _TABLES.get(name.upper())
    if text is None:
        raise SqlError(1109, f"Unknown table '{name.upper()}' in information_schema")
    return _source(_columns(text), compilation.dynamic("virtual", name.upper()), name, alias)


def grant_source(name: str, alias: str) -> tuple[str, Source]:
    """A table of rights in FROM."""
    return _source(_columns(_GRANTS[name.upper()]), "'[]'", name, alias)


def _source(columns: tuple[Column, ...], rows: str, name: str, alias: str) -> tuple[str, Source]:
    outputs = ", ".join(
        f"json_extract(value, '$[{position}]') AS {quote(column.name)}" for position, column in enumerate(columns)
    )
    source = Source(
        alias,
        tuple((column.name, _value(alias, name.upper(), column)) for column in columns),
        name.upper(),
        INFORMATION_SCHEMA,
    )
    return f"(SELECT {outputs} FROM json_each({rows})) AS {quote(alias)}", source


def _value(alias: str, table: str, column: Column) -> Typed:
    return Typed(f"{quote(alias)}.{quote(column.name)}", column.type, origin=Origin(alias, table, column))


def _columns(text: str) -> tuple[Column, ...]:
    parts = (item.split(":") for item in text.split())
    return tuple(Column(name, _TYPES[letter]) for name, letter in parts)
