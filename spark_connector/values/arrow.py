"""Rows of the database as Arrow record batches of exactly the types that Spark expects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_connector.client.columns import Column, Field, spark_type
from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue
from spark_connector.client.row_blocks import Block
from spark_connector.errors import SchemaError
from spark_connector.mysql_client.driver import escaped

_TYPES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
# Intermediate types where a cast from text needs two steps.
_INTERMEDIATE_TYPES: Mapping[str, pa.DataType] = {"float": pa.float64(), "timestamp": pa.timestamp("us")}


def arrow_type(spark: str) -> pa.DataType:
    """The Arrow type for a Spark type. Raises SchemaError."""
    if precision_and_scale := decimal(spark):
        return pa.decimal128(*precision_and_scale)
    if spark not in _TYPES:
        raise SchemaError(f"columns of type {spark} cannot be read from or written to a queue")
    return _TYPES[spark]


def arrow_schema(fields: Sequence[Field]) -> pa.Schema:
    """The Arrow schema of the batches for these fields."""
    return pa.schema([pa.field(field.name, arrow_type(field.type), field.nullable) for field in fields])


def agree(queue: Queue, fields: Sequence[Field]) -> None:
    """Checks that each field is a column which can be read as that type. Raises SchemaError."""
    for field in fields:
        column = queue.column(field.name)
        own = spark_type(column)
        arrow_type(field.type)
        if column.is_time and field.type == "timestamp":
            own = field.type
        elif not lossless(column.type, own, field.type):
            raise SchemaError(
                f"column {column.name} of {queue.label} is {column.type}, which is read as {own}: "
                f"as {field.type} it could lose something"
            )
        if column.nullable and not field.nullable:
            raise SchemaError(f"column {column.name} of {queue.label} may be NULL: declare it nullable")


def select_list(queue: Queue, fields: Sequence[Field], table: str = "") -> str:
    """The columns of the fields, in their order, for a SELECT with placeholders; `table`: its alias."""
    return ", ".join(_expression(queue.column(field.name), field, table) for field in fields) or "1"


def batches(
    client: Client, sql: str, args: Sequence[Any], fields: Sequence[Field], size: int
) -> Iterator[pa.RecordBatch]:
    """The rows of a SELECT of `select_list`, at most `size` at a time. Raises SchemaError, and pymysql's errors."""
    schema = arrow_schema(fields)
    for block in client.blocks(sql, args, size):
        yield _batch(block, fields, schema)


def keyed_batches(
    client: Client, sql: str, args: Sequence[Any], fields: Sequence[Field], size: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The same for a SELECT with an additional last column, an integer: each batch with the last row's value of it."""
    schema = arrow_schema(fields)
    for block in client.blocks(sql, args, size):
        *texts, keys = block.columns(max(1, len(fields)) + 1)
        yield _arrays(texts, len(block.starts), fields, schema), int(keys[-1].as_py())


def _batch(block: Block, fields: Sequence[Field], schema: pa.Schema) -> pa.RecordBatch:
    # Without fields, as for count(), the SELECT still has one column.
    return _arrays(block.columns(len(fields)) if fields else [], len(block.starts), fields, schema)


def _arrays(texts: Sequence[pa.BinaryArray], count: int, fields: Sequence[Field], schema: pa.Schema) -> pa.RecordBatch:
    if not fields:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
    ids = next((text for text, field in zip(texts, fields, strict=True) if field.name.lower() == "id"), None)
    arrays = [_array(text, field, of, ids) for text, field, of in zip(texts, fields, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _expression(column: Column, field: Field, table: str) -> str:
    name = escaped(table, column.name) if table else escaped(column.name)
    if column.base == "bit":
        return f"{name} + 0"
    if column.is_time and field.type == "timestamp":
        return f"{name} DIV 1000"  # nanoseconds; a TIMESTAMP has microseconds
    # The text of a FLOAT has six digits, and a FLOAT about seven: as a DOUBLE it is exact.
    return f"{name} * 1E0" if column.base == "float" and field.type in ("float", "double", "string") else name


def _array(text: pa.BinaryArray, field: Field, of: pa.DataType, ids: pa.BinaryArray | None = None) -> pa.Array:
    """A column's values, cast at once from the database's text. `ids`: of their rows."""
    if text.null_count == len(text):
        return pa.nulls(len(text), of)
    if field.type == "binary":
        return text
    try:
        return _cast(text, field, of)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"column {field.name}{_where(text, field, of, ids)} holds a value that is no {field.type}: {error}. "
            f"Read it as {'binary' if field.type == 'string' else 'string'} by .schema(...)"
        ) from None


def _cast(text: pa.BinaryArray, field: Field, of: pa.DataType) -> pa.Array:
    """Raises ArrowInvalid."""
    first = text.cast(pa.string())  # raises if it is not UTF-8
    if field.type == "timestamp" and not pc.any(pc.match_substring(first, ":")).as_py():
        return first.cast(pa.int64()).cast(of)  # microseconds, from a BIGINT time
    return first.cast(_INTERMEDIATE_TYPES[field.type]).cast(of) if field.type in _INTERMEDIATE_TYPES else first.cast(of)


def _where(text: pa.BinaryArray, field: Field, of: pa.DataType, ids: pa.BinaryArray | None) -> str:
    """The message with the first invalid value, if its id is read as well."""
    for number in range(len(text)) if ids is not None else ():
        try:
            _cast(text.slice(number, 1), field, of)
        except pa.ArrowInvalid:
            assert ids is not None
            return f" of message {ids[number].as_py().decode('utf-8', 'backslashreplace')}"
    return ""


# The types that a column may be read as besides its own: all that can represent each of its values, and text.

_DIGITS: Mapping[str, int] = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_WHOLE = tuple(_DIGITS)  # from narrow to wide
# Whole numbers up to 2^24 are exact in a float, up to 2^53 in a double.
_FLOATS: Mapping[str, frozenset[str]] = {
    "float": frozenset({"tinyint", "smallint"}),
    "double": frozenset({"tinyint", "smallint", "int", "float"}),
}
_OTHERS = frozenset({("binary", "string"), ("string", "binary"), ("date", "timestamp_ntz")})
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def decimal(spark: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type, None for any other."""
    match = _DECIMAL.fullmatch(spark)
    return (int(match[1]), int(match[2])) if match else None


def lossless(declared: str, own: str, requested: str) -> bool:
    """Whether a column, `declared` in the database and `own` in Spark, loses nothing when it is read as `requested`."""
    if requested in (own, "string") or (own, requested) in _OTHERS:
        return True
    if requested == "boolean":
        return declared.lower().startswith("tinyint(1)")  # MySQL's BOOLEAN; a value of 2 is refused when it is read
    if own == "boolean":
        return requested in _WHOLE
    if into := decimal(requested):
        return _fits(own, into)
    if requested in _FLOATS:
        return own in _FLOATS[requested]
    return own in _WHOLE and requested in _WHOLE and _WHOLE.index(own) < _WHOLE.index(requested)


def _fits(own: str, into: tuple[int, int]) -> bool:
    precision, scale = decimal(own) or (_DIGITS.get(own, 99), 0)
    return into[1] >= scale and into[0] - into[1] >= precision - scale
