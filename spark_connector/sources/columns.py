"""The columns of several queues or topics read as one, and the column that tells of each row which it is from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from spark_connector.client.columns import Field, fields
from spark_connector.client.queue import Queue
from spark_connector.errors import SchemaError
from spark_connector.values.arrow import arrow_schema


def common(queues: Sequence[Queue], column: str, *, times: bool) -> tuple[Field, ...]:
    """The fields that all of them have, with `column` in front. `times`: as TIMESTAMP.

    Raises SchemaError: they have not all the same; one has a column of that name itself.
    """
    first, *others = queues
    found = fields(first.columns, times=times)
    for other in others:
        own = {field.name.lower(): field for field in fields(other.columns, times=times)}
        known = {field.name.lower(): field for field in found}
        for name in sorted(own.keys() ^ known.keys()):
            has, lacks = (first, other) if name in known else (other, first)
            raise SchemaError(f"{has.called} has a column {name} and {lacks.called} has none: {_CHOOSE}")
        for name, field in known.items():
            if own[name].type != field.type:
                raise SchemaError(
                    f"column {name} is {field.type} in {first.called} and {own[name].type} in {other.called}: {_CHOOSE}"
                )
        found = tuple(
            Field(field.name, field.type, field.nullable or own[field.name.lower()].nullable) for field in found
        )
    for queue in queues:
        check(queue, column)
    return Field(column, "string", False), *found


_CHOOSE = "say by .schema(...) which columns are to be read, and as which types"


def check(queue: Queue, column: str) -> None:
    """That the queue has no column of that name itself. Raises SchemaError."""
    if queue.has(column):
        raise SchemaError(
            f"{queue.called} has a column {column} itself: name the column that tells which queue or topic a row is"
            " from by option sourceColumn"
        )


class SourceColumn:
    """The fields of a read, with or without a column that holds the name of the queue or topic."""

    def __init__(self, fields: Sequence[Field], column: str) -> None:
        """Raises SchemaError: the column is asked for as something else than a string."""
        self.name, self._fields = column, tuple(fields)
        self._place = next((n for n, field in enumerate(fields) if field.name.lower() == column.lower()), None)
        if self._place is not None and fields[self._place].type != "string":
            raise SchemaError(f"column {column} is a string, not {fields[self._place].type}")

    @property
    def others(self) -> tuple[Field, ...]:
        """The fields that are read from a table."""
        return tuple(field for place, field in enumerate(self._fields) if place != self._place)

    def added(self, name: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the `others`, with the name where the column is asked for."""
        if self._place is None:
            yield from batches
            return
        schema = arrow_schema(self._fields)
        for batch in batches:
            arrays = list(batch.columns)
            arrays.insert(self._place, pa.repeat(pa.scalar(name, pa.string()), batch.num_rows))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
