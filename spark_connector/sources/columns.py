"""The columns of several queues or topics read as one, and the column with the source of each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from spark_connector.client.columns import Field, fields
from spark_connector.client.queue import Queue
from spark_connector.errors import SchemaError
from spark_connector.values.arrow import arrow_schema


def common(queues: Sequence[Queue], column: str, *, times: bool) -> tuple[Field, ...]:
    """The fields, which must be the same in all of them, with `column` in front. `times`: as TIMESTAMP.

    Raises SchemaError if they differ, or one has a column of that name.
    """
    first, *others = queues
    common_fields = fields(first.columns, times=times)
    for other in others:
        own = {field.name.lower(): field for field in fields(other.columns, times=times)}
        by_name = {field.name.lower(): field for field in common_fields}
        for name in sorted(own.keys() ^ by_name.keys()):
            has, lacks = (first, other) if name in by_name else (other, first)
            raise SchemaError(f"{has.label} has a column {name} and {lacks.label} has none: {_CHOOSE}")
        for name, field in by_name.items():
            if own[name].type != field.type:
                raise SchemaError(
                    f"column {name} is {field.type} in {first.label} and {own[name].type} in {other.label}: {_CHOOSE}"
                )
        common_fields = tuple(
            Field(field.name, field.type, field.nullable or own[field.name.lower()].nullable) for field in common_fields
        )
    for queue in queues:
        check(queue, column)
    return Field(column, "string", False), *common_fields


_CHOOSE = "say by .schema(...) which columns are to be read, and as which types"


def check(queue: Queue, column: str) -> None:
    """Checks that the queue has no column of that name. Raises SchemaError."""
    if queue.has(column):
        raise SchemaError(
            f"{queue.label} has a column {column} itself: name the column that tells which queue or topic a row is"
            " from by option sourceColumn"
        )


class SourceColumn:
    """The fields of a read, with or without a column that holds the name of the queue or topic."""

    def __init__(self, fields: Sequence[Field], column: str) -> None:
        """Raises SchemaError if the column is requested as another type than string."""
        self.name, self._fields = column, tuple(fields)
        self._index = next((n for n, field in enumerate(fields) if field.name.lower() == column.lower()), None)
        if self._index is not None and fields[self._index].type != "string":
            raise SchemaError(f"column {column} is a string, not {fields[self._index].type}")

    @property
    def others(self) -> tuple[Field, ...]:
        """The fields that are read from a table."""
        return tuple(field for index, field in enumerate(self._fields) if index != self._index)

    def added(self, name: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the `others`, with the name if the column is requested."""
        if self._index is None:
            yield from batches
            return
        schema = arrow_schema(self._fields)
        for batch in batches:
            arrays = list(batch.columns)
            arrays.insert(self._index, pa.repeat(pa.scalar(name, pa.string()), batch.num_rows))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
