"""Rows of the database as Arrow record batches of exactly the types that Spark was told of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any

import pyarrow as pa

from spark_connector.client import Client, quoted
from spark_connector.columns import Column, Field, spark_type
from spark_connector.errors import SchemaError
from spark_connector.queue import Queue

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
# What a column may be read as besides its own type: nothing is lost on the way.
_WIDER: Mapping[str, frozenset[str]] = {
    "boolean": frozenset({"tinyint", "smallint", "int", "bigint"}),
    "tinyint": frozenset({"smallint", "int", "bigint", "boolean"}),
    "smallint": frozenset({"int", "bigint"}),
    "int": frozenset({"bigint"}),
    "float": frozenset({"double"}),
    "string": frozenset({"binary"}),
    "binary": frozenset({"string"}),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def arrow_type(spark: str) -> pa.DataType:
    """The Arrow type that Spark takes for a type of its own. Raises SchemaError."""
    if found := _DECIMAL.fullmatch(spark):
        return pa.decimal128(int(found[1]), int(found[2]))
    if spark not in _TYPES:
        raise SchemaError(f"columns of type {spark} cannot be read from or written to a queue")
    return _TYPES[spark]


def arrow_schema(fields: Sequence[Field]) -> pa.Schema:
    """The schema of the batches that Spark is given for these fields."""
    return pa.schema([pa.field(field.name, arrow_type(field.type), field.nullable) for field in fields])


def agree(queue: Queue, fields: Sequence[Field]) -> None:
    """That each field is a column which can be read as that type. Raises SchemaError."""
    for field in fields:
        column = queue.column(field.name)
        own = spark_type(column)
        if field.type != own and field.type not in _WIDER.get(own, frozenset()):
            raise SchemaError(
                f"column {column.name} of queue {queue.name} is {column.type}, which is read as {own}, not {field.type}"
            )
        if column.nullable and not field.nullable:
            raise SchemaError(f"column {column.name} of queue {queue.name} may be NULL: declare it nullable")


def select_list(queue: Queue, fields: Sequence[Field], table: str = "") -> str:
    """The columns of the fields, in their order, as a SELECT names them; `table`: its alias."""
    return ", ".join(_expression(queue.column(field.name), table) for field in fields) or "1"


def batches(
    client: Client, sql: str, args: Sequence[Any], fields: Sequence[Field], size: int
) -> Iterator[pa.RecordBatch]:
    """The rows of a SELECT of `select_list`, `size` at a time."""
    schema = arrow_schema(fields)
    for rows in client.chunks(sql, args, size):
        columns = list(zip(*rows, strict=True))
        arrays = [_array(columns[place], field, schema.field(place).type) for place, field in enumerate(fields)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema) if fields else _empty(len(rows))


def _empty(count: int) -> pa.RecordBatch:
    """Rows without columns, as for count()."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))


def _expression(column: Column, table: str) -> str:
    name = quoted(table, column.name) if table else quoted(column.name)
    if column.base == "bit":
        return f"{name} + 0"
    return f"CAST({name} AS CHAR)" if column.base == "time" else name


def _array(values: Sequence[Any], field: Field, of: pa.DataType) -> pa.Array:
    convert = _CONVERSIONS.get(field.type)
    return pa.array(values if convert is None else [None if v is None else convert(v) for v in values], of)


_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "boolean": bool,
    "string": lambda value: value.decode() if isinstance(value, bytes) else str(value),
    "binary": lambda value: value.encode() if isinstance(value, str) else value,
    "timestamp": lambda value: value.replace(tzinfo=UTC),
}
