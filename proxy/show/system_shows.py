"""What SHOW and DESCRIBE answer of the system tables and of their database, in the shape that tools read. Pure.

Tools take a table for one that they can read when SHOW FULL TABLES calls it BASE TABLE and SHOW CREATE TABLE shows its
columns. MySQL's own performance_schema, whose tables are no stored ones either, answers in this way too.
"""

from __future__ import annotations

from collections.abc import Iterable

from proxy.show.columns import Row, like_pattern
from proxy.show.status_tables import FIELDS, Field, Kind
from rewriter.grammar.system_tables import DATABASE
from rewriter.plan import ShowSystem, SystemShow
from rewriter.views import SYSTEM_TABLES, View

CHARSET, COLLATION = "utf8mb4", "utf8mb4_general_ci"
PRIVILEGES = "select"
_INDEX_COLUMNS = (
    "Table Non_unique Key_name Seq_in_index Column_name Collation Cardinality Sub_part Packed Null Index_type Comment"
    " Index_comment"
)
_STATUS_COLUMNS = (
    "Name Engine Version Row_format Rows Avg_row_length Data_length Max_data_length Index_length Data_free"
    " Auto_increment Create_time Update_time Check_time Collation Checksum Create_options Comment"
)

Table = tuple[tuple[Field, ...], list[Row]]


def system_show(plan: ShowSystem) -> Table:
    """Columns and rows of a statement that describes or lists system tables."""
    matches_name = like_pattern("%" if plan.like is None else plan.like)
    tables = sorted(filter(matches_name, SYSTEM_TABLES))
    suffix = "" if plan.like is None else f" ({plan.like})"
    match plan.what:
        case SystemShow.TABLES:
            columns = (f"Tables_in_{DATABASE}{suffix}", "Table_type")
            return _table(columns[: 1 + plan.full], [(name, "BASE TABLE")[: 1 + plan.full] for name in tables])
        case SystemShow.TABLE_STATUS:
            return _table(_STATUS_COLUMNS.split(), [_status(name) for name in tables])
        case SystemShow.INDEXES:
            return _table(_INDEX_COLUMNS.split(), [])
        case SystemShow.CREATE_DATABASE:
            text = f"CREATE DATABASE `{DATABASE}` /*!40100 DEFAULT CHARACTER SET {CHARSET} COLLATE {COLLATION} */"
            return _table(("Database", "Create Database"), [(DATABASE, text)])
        case SystemShow.CURRENT:
            return _table(("DATABASE()",), [(DATABASE,)])
        case SystemShow.DATABASES:
            return _table((f"Database{suffix}",), [(DATABASE,)] if matches_name(DATABASE) else [])
    assert plan.view is not None
    fields = [field for field in FIELDS[plan.view] if plan.what is SystemShow.CREATE_TABLE or matches_name(field.name)]
    if plan.what is SystemShow.CREATE_TABLE:
        return _table(("Table", "Create Table"), [(plan.view.table, _definition(plan.view, fields))])
    titles = "Field Type Collation Null Key Default Extra Privileges Comment"
    if plan.full:
        return _table(titles.split(), [_described(field) for field in fields])
    short = [0, 1, 3, 4, 5, 6]
    return _table([titles.split()[i] for i in short], [tuple(_described(f)[i] for i in short) for f in fields])


def _table(titles: Iterable[str], rows: Iterable[tuple[str | None, ...]]) -> Table:
    """Texts as columns and rows. The titles keep their letters."""
    values: list[Row] = [tuple(None if cell is None else cell.encode() for cell in row) for row in rows]
    return tuple(Field(title, Kind.TEXT, 4096 if title.startswith("Create ") else 256) for title in titles), values


def _described(field: Field) -> tuple[str | None, ...]:
    collation = COLLATION if field.kind is Kind.TEXT else None
    return (field.name, column_type(field), collation, "YES", "", None, "", PRIVILEGES, "")


def column_type(field: Field) -> str:
    """The column's type as MySQL writes it."""
    if field.kind is Kind.TEXT:
        return f"varchar({field.length})"
    return "bigint(20)" if field.kind is Kind.NUMBER else "decimal(20,3)"


def _definition(view: View, fields: Iterable[Field]) -> str:
    columns = ",\n".join(f"  `{field.name}` {column_type(field)} DEFAULT NULL" for field in fields)
    return f"CREATE TABLE `{view.table}` (\n{columns}\n) ENGINE=MEMORY DEFAULT CHARSET={CHARSET} COLLATE={COLLATION}"


def _status(name: str) -> tuple[str | None, ...]:
    status = {"Name": name, "Engine": "MEMORY", "Version": "10", "Row_format": "Dynamic", "Collation": COLLATION}
    blank = dict.fromkeys(("Create_options", "Comment"), "")
    return tuple((status | blank).get(title) for title in _STATUS_COLUMNS.split())
