"""SHOW CREATE TABLE: a definition in MySQL's words, which this backend reads back unchanged."""

from __future__ import annotations

from embedded.compile.compilation import quote
from embedded.compile.schema import Column, ForeignKey, Index, Table, decimals_suffix
from embedded.compile.values.types import Kind


def create_table_text(table: Table, next_number: int | None = None) -> str:
    """The whole statement; `next_number` is the table's next AUTO_INCREMENT value."""
    if table.view is not None:
        listed = ", ".join(quote(column.name) for column in table.columns)
        return f"CREATE ALGORITHM=UNDEFINED SQL SECURITY INVOKER VIEW {quote(table.name)} ({listed}) AS {table.view}"
    lines = [column_text(column, table.collation) for column in table.columns]
    lines += [_index(index) for index in table.indexes]
    lines += [_foreign_key(key) for key in sorted(table.foreign_keys, key=lambda key: key.name)]  # as InnoDB does
    lines += [f"CONSTRAINT {quote(check.name)} CHECK ({check.expression})" for check in table.checks]
    kind = "TEMPORARY TABLE" if table.temporary else "TABLE"
    body = ",\n  ".join(lines)
    return f"CREATE {kind} {quote(table.name)} (\n  {body}\n) {_options(table, next_number)}"


def string(text: str) -> str:
    """A string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def column_text(column: Column, table_collation: str) -> str:
    """One column's definition."""
    parts = [quote(column.name), column.type.declared]
    collation = column.type.collation
    if column.type.kind in (Kind.STRING, Kind.ENUM) and collation is not None and collation != table_collation:
        parts.append(f"CHARACTER SET {collation.split('_')[0]} COLLATE {collation}")
    if column.generated is not None:
        parts.append(f"GENERATED ALWAYS AS ({column.generated}) {'STORED' if column.stored else 'VIRTUAL'}")
    if not column.nullable:
        parts.append("NOT NULL")
    elif column.type.kind is Kind.TIMESTAMP:
        parts.append("NULL")
    parts += _default(column)
    if column.on_update_now is not None:
        parts.append(f"ON UPDATE CURRENT_TIMESTAMP{decimals_suffix(column.on_update_now)}")
    if column.auto_increment:
        parts.append("AUTO_INCREMENT")
    if column.comment:
        parts.append(f"COMMENT {string(column.comment)}")
    return " ".join(parts)


def _default(column: Column) -> list[str]:
    default = column.default
    if default is None:
        bare = column.generated is not None or column.auto_increment or not column.nullable
        long = column.type.name.endswith(("text", "blob"))
        return [] if bare or long else ["DEFAULT NULL"]
    if default.now is not None:
        return [f"DEFAULT CURRENT_TIMESTAMP{decimals_suffix(default.now)}"]
    if default.expression:
        return [f"DEFAULT ({default.text})"]
    if column.type.kind is Kind.BIT and (default.text or "").isdecimal():
        return [f"DEFAULT b'{int(default.text or 0):b}'"]
    return [f"DEFAULT {string(default.text or '')}"]


def _index(index: Index) -> str:
    parts = []
    for part in index.parts:
        length = f"({part.length})" if part.length is not None else ""
        parts.append(f"{quote(part.column)}{length}{' DESC' * part.descending}")
    head = "PRIMARY KEY" if index.primary else f"{'UNIQUE ' * index.unique}KEY {quote(index.name)}"
    comment = f" COMMENT {string(index.comment)}" if index.comment else ""
    return f"{head} ({','.join(parts)}){comment}"


def _foreign_key(key: ForeignKey) -> str:
    columns = ", ".join(quote(column) for column in key.columns)
    references = ", ".join(quote(column) for column in key.references)
    text = f"CONSTRAINT {quote(key.name)} FOREIGN KEY ({columns}) REFERENCES {quote(key.table)} ({references})"
    if key.on_delete != "NO ACTION":
        text += f" ON DELETE {key.on_delete}"
    if key.on_update != "NO ACTION":
        text += f" ON UPDATE {key.on_update}"
    return text


def _options(table: Table, next_number: int | None) -> str:
    parts = ["ENGINE=InnoDB"]
    if next_number is not None and next_number > 1:
        parts.append(f"AUTO_INCREMENT={next_number}")
    parts.append(f"DEFAULT CHARSET={table.collation.split('_')[0]} COLLATE={table.collation}")
    if table.comment:
        parts.append(f"COMMENT={string(table.comment)}")
    return " ".join(parts)
