"""SHOW and DESCRIBE: rewritten to SELECTs on information_schema, so LIKE and WHERE work as on any table."""

from __future__ import annotations

from dataclasses import dataclass

from embedded.compile.definitions.show_create import string
from embedded.compile.errors import SqlError, unsupported
from embedded.compile.schema import DATABASE
from embedded.compile.text.literal_lifting import fill_slots
from embedded.compile.text.tokens import Tokens
from engine.model.queue import quoted


@dataclass(frozen=True, slots=True)
class ShowQuery:
    """A SELECT that answers the statement; `table` must exist where it is set."""

    sql: str
    table: str | None = None


@dataclass(frozen=True, slots=True)
class ShowCreate:
    """SHOW CREATE TABLE, VIEW or DATABASE."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class ShowWarnings:
    """SHOW WARNINGS or ERRORS, with LIMIT; or their COUNT(*)."""

    errors: bool
    count: bool = False
    offset: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a statement, in MySQL's words."""

    sql: str


Show = ShowQuery | ShowCreate | ShowWarnings | Explain

_COLUMNS = (
    "SELECT COLUMN_NAME AS `Field`, COLUMN_TYPE AS `Type`, IS_NULLABLE AS `Null`, COLUMN_KEY AS `Key`,"
    " COLUMN_DEFAULT AS `Default`, EXTRA AS `Extra` FROM information_schema.COLUMNS"
)
_FULL_COLUMNS = (
    "SELECT COLUMN_NAME AS `Field`, COLUMN_TYPE AS `Type`, COLLATION_NAME AS `Collation`, IS_NULLABLE AS `Null`,"
    " COLUMN_KEY AS `Key`, COLUMN_DEFAULT AS `Default`, EXTRA AS `Extra`, PRIVILEGES AS `Privileges`,"
    " COLUMN_COMMENT AS `Comment` FROM information_schema.COLUMNS"
)
_INDEX = (
    "SELECT TABLE_NAME AS `Table`, NON_UNIQUE AS `Non_unique`, INDEX_NAME AS `Key_name`, "
    "SEQ_IN_INDEX AS `Seq_in_index`,"
    " COLUMN_NAME AS `Column_name`, COLLATION AS `Collation`, CARDINALITY AS `Cardinality`, SUB_PART AS `Sub_part`,"
    " PACKED AS `Packed`, NULLABLE AS `Null`, INDEX_TYPE AS `Index_type`, COMMENT AS `Comment`,"
    " INDEX_COMMENT AS `Index_comment`, IS_VISIBLE AS `Visible`, EXPRESSION AS `Expression`"
    " FROM information_schema.STATISTICS"
)
_STATUS = (
    "SELECT TABLE_NAME AS `Name`, ENGINE AS `Engine`, VERSION AS `Version`, ROW_FORMAT AS `Row_format`,"
    " TABLE_ROWS AS `Rows`, AVG_ROW_LENGTH AS `Avg_row_length`, DATA_LENGTH AS `Data_length`,"
    " MAX_DATA_LENGTH AS `Max_data_length`, INDEX_LENGTH AS `Index_length`, DATA_FREE AS `Data_free`,"
    " AUTO_INCREMENT AS `Auto_increment`, CREATE_TIME AS `Create_time`, UPDATE_TIME AS `Update_time`,"
    " CHECK_TIME AS `Check_time`, TABLE_COLLATION AS `Collation`, CHECKSUM AS `Checksum`,"
    " CREATE_OPTIONS AS `Create_options`, TABLE_COMMENT AS `Comment` FROM information_schema.TABLES"
)
_VARIABLES = "SELECT VARIABLE_NAME AS `Variable_name`, VARIABLE_VALUE AS `Value` FROM information_schema.{}"
_CREATED_WITH = (
    "CHARACTER_SET_CLIENT AS `character_set_client`, COLLATION_CONNECTION AS `collation_connection`,"
    " DATABASE_COLLATION AS `Database Collation`"
)
_SIMPLE = {
    "ENGINES": (
        "SELECT ENGINE AS `Engine`, SUPPORT AS `Support`, COMMENT AS `Comment`, TRANSACTIONS AS "
        "`Transactions`, XA AS `XA`,"
        " SAVEPOINTS AS `Savepoints` FROM information_schema.ENGINES"
    ),
    "PLUGINS": (
        "SELECT PLUGIN_NAME AS `Name`, PLUGIN_STATUS AS `Status`, PLUGIN_TYPE AS `Type`, PLUGIN_LIBRARY AS `Library`,"
        " PLUGIN_LICENSE AS `License` FROM information_schema.PLUGINS"
    ),
    "COLLATION": (
        "SELECT COLLATION_NAME AS `Collation`, CHARACTER_SET_NAME AS `Charset`, ID AS `Id`, IS_DEFAULT AS `Default`,"
        " IS_COMPILED AS `Compiled`, SORTLEN AS `Sortlen`, PAD_ATTRIBUTE AS `Pad_attribute`"
        " FROM information_schema.COLLATIONS"
    ),
    "CHARSET": (
        "SELECT CHARACTER_SET_NAME AS `Charset`, DESCRIPTION AS `Description`, DEFAULT_COLLATE_NAME AS "
        "`Default collation`,"
        " MAXLEN AS `Maxlen` FROM information_schema.CHARACTER_SETS"
    ),
    "PROCESSLIST": (
        "SELECT ID AS `Id`, USER AS `User`, HOST AS `Host`, DB AS `db`, COMMAND AS `Command`, TIME AS `Time`,"
        " STATE AS `State`, INFO AS `Info` FROM information_schema.PROCESSLIST"
    ),
    "TRIGGERS": (
        "SELECT TRIGGER_NAME AS `Trigger`, EVENT_MANIPULATION AS `Event`, EVENT_OBJECT_TABLE AS `Table`,"
        " ACTION_STATEMENT AS `Statement`, ACTION_TIMING AS `Timing`, CREATED AS `Created`, SQL_MODE AS `sql_mode`,"
        f" DEFINER AS `Definer`, {_CREATED_WITH} FROM information_schema.TRIGGERS"
    ),
    "EVENTS": (
        "SELECT EVENT_SCHEMA AS `Db`, EVENT_NAME AS `Name`, DEFINER AS `Definer`, TIME_ZONE AS `Time zone`,"
        " EVENT_TYPE AS `Type`, EXECUTE_AT AS `Execute at`, INTERVAL_VALUE AS `Interval value`,"
        " INTERVAL_FIELD AS `Interval field`, STARTS AS `Starts`, ENDS AS `Ends`, STATUS AS `Status`,"
        f" ORIGINATOR AS `Originator`, {_CREATED_WITH} FROM information_schema.EVENTS"
    ),
    "ROUTINES": (
        "SELECT ROUTINE_SCHEMA AS `Db`, ROUTINE_NAME AS `Name`, ROUTINE_TYPE AS `Type`, DEFINER AS `Definer`,"
        " LAST_ALTERED AS `Modified`, CREATED AS `Created`, SECURITY_TYPE AS `Security_type`,"
        f" ROUTINE_COMMENT AS `Comment`, {_CREATED_WITH} FROM information_schema.ROUTINES WHERE 1 = 0"
    ),
}

_REFUSED = frozenset(
    "PRIVILEGES PROFILES PROFILE BINARY BINLOG RELAYLOG MASTER REPLICA SLAVE ENGINE OPEN".split()  # noqa: SIM905
)


def read_show(tokens: Tokens, database: str | None, account: str) -> Show:
    """A SHOW, DESCRIBE or EXPLAIN statement."""
    word = tokens.next().upper
    if word == "SHOW":
        return _show(tokens, database, account)
    return _describe(tokens, database)


def _show(tokens: Tokens, database: str | None, account: str) -> Show:
    if tokens.accept("COUNT"):
        tokens.expect("(", "*", ")")
        word = tokens.accept_one("WARNINGS", "ERRORS")
        if not word:
            raise tokens.error()
        return ShowWarnings(word == "ERRORS", count=True)
    full = bool(tokens.accept_one("FULL", "EXTENDED"))
    full = tokens.accept("FULL") or full
    scope = tokens.accept_one("GLOBAL", "SESSION", "LOCAL")
    word = tokens.next().upper
    match word:
        case "WARNINGS" | "ERRORS":
            return _warnings(tokens, word == "ERRORS")
        case "CREATE":
            return _show_create(tokens)
        case "TABLES":
            return _tables(tokens, database, full)
        case "DATABASES" | "SCHEMAS":
            return _filtered(tokens, "SELECT SCHEMA_NAME AS `Database` FROM information_schema.SCHEMATA", "Database")
        case "COLUMNS" | "FIELDS":
            return _show_columns(tokens, database, full)
        case "INDEX" | "INDEXES" | "KEYS":
            return _show_index(tokens, database)
        case "VARIABLES" | "STATUS":
            table = f"{'GLOBAL' if scope == 'GLOBAL' else 'SESSION'}_{word}"
            return _filtered(tokens, _VARIABLES.format(table), "Variable_name")
        case "TABLE":
            tokens.expect("STATUS")
            schema = _schema(tokens, database)
            return _filtered(tokens, f"{_STATUS} WHERE TABLE_SCHEMA = {string(schema)}", "Name")
        case "GRANTS":
            tokens.position = 1 << 30
            text = f"GRANT ALL PRIVILEGES ON *.* TO {account}"
            return ShowQuery(f"SELECT {string(text)} AS {quoted('Grants for ' + account.replace('`', ''))}")
        case "STORAGE":
            tokens.expect("ENGINES")
            return ShowQuery(_SIMPLE["ENGINES"])
        case "CHARACTER":
            tokens.expect("SET")
            return _filtered(tokens, _SIMPLE["CHARSET"], "Charset")
        case _ if word in _REFUSED:
            raise unsupported(f"SHOW {word}")
        case "PROCEDURE" | "FUNCTION":
            tokens.expect("STATUS")
            return _filtered(tokens, _SIMPLE["ROUTINES"], "Name")
        case _ if word in _SIMPLE:
            if word in ("TRIGGERS", "EVENTS"):
                _schema(tokens, database)
            return _filtered(tokens, _SIMPLE[word], "Charset" if word == "CHARSET" else _first_alias(_SIMPLE[word]))
    tokens.position -= 1
    raise tokens.error()


def _first_alias(sql: str) -> str:
    return sql.split("AS `", 1)[1].split("`", 1)[0]


def _filtered(tokens: Tokens, sql: str, column: str, order: str = "", table: str | None = None) -> ShowQuery:
    """The SELECT with the condition of LIKE or WHERE; WHERE names the columns as SHOW presents them."""
    tail = f" ORDER BY {order}" if order else ""
    if tokens.at_end:
        return ShowQuery(f"SELECT * FROM ({sql}) AS shown{tail}", table)
    if tokens.accept("LIKE"):
        condition = f"{quoted(column)} LIKE {string(tokens.string())}"
        tokens.finish()
    else:
        tokens.expect("WHERE")
        shape, first = tokens.rest()
        condition = fill_slots(shape, tokens.values[first:])
    return ShowQuery(f"SELECT * FROM ({sql}) AS shown WHERE {condition}{tail}", table)


def _schema(tokens: Tokens, database: str | None) -> str:
    if tokens.accept_one("FROM", "IN"):
        database = tokens.name()
        if database.lower() not in (DATABASE, "information_schema"):
            raise SqlError(1049, f"Unknown database '{database}'")
    if database is None:
        raise SqlError(1046, "No database selected")
    return database


def _tables(tokens: Tokens, database: str | None, full: bool) -> ShowQuery:
    schema = _schema(tokens, database)
    name = f"Tables_in_{schema}"
    extra = ", TABLE_TYPE AS `Table_type`" if full else ""
    source = f"information_schema.TABLES WHERE TABLE_SCHEMA = {string(schema)}"
    sql = f"SELECT TABLE_NAME AS {quoted(name)}{extra} FROM {source}"
    return _filtered(tokens, sql, name, order="1")


def _table(tokens: Tokens, database: str | None) -> tuple[str, str]:
    qualifier, name = tokens.qualified_name()
    if tokens.accept_one("FROM", "IN"):
        qualifier = tokens.name()
    schema = qualifier or database
    if schema is None:
        raise SqlError(1046, "No database selected")
    return schema, name


def _own(schema: str, name: str) -> str | None:
    """The name where the table must exist in this database; tables of information_schema are known to exist or are
    empty."""
    return None if schema.lower() == "information_schema" else name if schema == DATABASE else f"{schema}.{name}"


def _show_columns(tokens: Tokens, database: str | None, full: bool) -> ShowQuery:
    if not tokens.accept_one("FROM", "IN"):
        raise tokens.error()
    schema, name = _table(tokens, database)
    sql = _FULL_COLUMNS if full else _COLUMNS
    sql += f" WHERE TABLE_SCHEMA = {string(schema)} AND TABLE_NAME = {string(name)} COLLATE utf8mb4_bin"
    return _filtered(tokens, sql, "Field", table=_own(schema, name))


def _show_index(tokens: Tokens, database: str | None) -> ShowQuery:
    if not tokens.accept_one("FROM", "IN"):
        raise tokens.error()
    schema, name = _table(tokens, database)
    sql = f"{_INDEX} WHERE TABLE_SCHEMA = {string(schema)} AND TABLE_NAME = {string(name)} COLLATE utf8mb4_bin"
    return _filtered(tokens, sql, "Key_name", table=_own(schema, name))


def _show_create(tokens: Tokens) -> ShowCreate:
    kind = tokens.accept_one("TABLE", "VIEW", "DATABASE", "SCHEMA")
    if not kind:
        raise unsupported(f"SHOW CREATE {tokens.peek().upper}")
    if kind in ("DATABASE", "SCHEMA"):
        tokens.accept("IF", "NOT", "EXISTS")
        return ShowCreate("DATABASE", tokens.name())
    database, name = tokens.qualified_name()
    tokens.finish()
    if database not in (None, DATABASE):
        raise SqlError(1146, f"Table '{database}.{name}' doesn't exist")
    return ShowCreate(kind, name)


def _warnings(tokens: Tokens, errors: bool) -> ShowWarnings:
    offset, limit = 0, None
    if tokens.accept("LIMIT"):
        limit = tokens.integer()
        if tokens.accept(","):
            offset, limit = limit, tokens.integer()
    tokens.finish()
    return ShowWarnings(errors, offset=offset, limit=limit)


def _describe(tokens: Tokens, database: str | None) -> Show:
    """DESCRIBE table [column]; the same words before a statement mean EXPLAIN."""
    if tokens.peek().upper in (
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "REPLACE",
        "WITH",
        "FORMAT",
        "ANALYZE",
        "EXTENDED",
    ):
        if tokens.accept("FORMAT"):
            tokens.accept("=")
            if tokens.name_or_string().upper() != "TRADITIONAL":
                raise unsupported("EXPLAIN FORMAT", "use plain EXPLAIN")
        if tokens.peek().upper == "ANALYZE":
            raise unsupported(f"EXPLAIN {tokens.peek().upper}", "use plain EXPLAIN")
        tokens.accept("EXTENDED")
        shape, first = tokens.rest()
        return Explain(fill_slots(shape, tokens.values[first:]))
    if tokens.peek().text == "(":
        shape, first = tokens.rest()
        return Explain(fill_slots(shape, tokens.values[first:]))
    schema, name = _table(tokens, database)
    sql = f"{_COLUMNS} WHERE TABLE_SCHEMA = {string(schema)} AND TABLE_NAME = {string(name)} COLLATE utf8mb4_bin"
    if not tokens.at_end:
        pattern = tokens.name_or_string()
        tokens.finish()
        sql += f" AND COLUMN_NAME LIKE {string(pattern)}"
    return ShowQuery(sql, table=_own(schema, name))
