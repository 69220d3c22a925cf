"""The reads of a stream's task: unbuffered rows in bounded memory, resumed after a lost connection.

A task's rows are ordered by a number that the statement also selects. Rows that were passed to Spark cannot be taken
back, so after a lost connection the statement is repeated for the rows after the last one that was passed. The rows
after it are the same: they are selected by number, and their numbers never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_connector.client import pool
from spark_connector.client.columns import Field
from spark_connector.client.connection import Client
from spark_connector.client.reconnecting import READ_COMMITTED
from spark_connector.options import StreamReadOptions
from spark_connector.values.arrow import keyed_batches

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Statement:
    """A SELECT whose last column is the number that it is ordered by. Its values: `args`, `after`, `last`."""

    sql: str
    args: tuple[Any, ...]
    after: int  # exclusive lower bound of the number
    last: int  # inclusive upper bound


def read(
    options: StreamReadOptions,
    statements: Sequence[Statement],
    fields: Sequence[Field],
    settings: tuple[str, ...] = (),
    first: Callable[[Client], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Their rows, at most `fetchsize` or about 4 MiB at a time. `settings`: further initial statements of the
    connection. `first`: called before anything is read. Raises ConnectionFailed, ConnectorError."""
    with pool.pooled(options.address, (READ_COMMITTED, *settings)) as connection:
        if first is not None:
            connection.run(first)
        for statement in statements:
            reading = _Reading(statement, fields, options.fetch_size)
            while (batch := connection.run(reading.next)) is not None:
                yield batch


class _Reading:
    """One statement and how far it has been read."""

    def __init__(self, statement: Statement, fields: Sequence[Field], size: int) -> None:
        self._statement, self._fields, self._size = statement, fields, size
        self._after = statement.after
        self._batches: Iterator[tuple[pa.RecordBatch, int]] | None = None

    def next(self, client: Client) -> pa.RecordBatch | None:
        """The next rows, on this connection; None at the end. After an error it continues on the next connection."""
        if self._batches is None:
            values = (*self._statement.args, self._after, self._statement.last)
            self._batches = keyed_batches(client, self._statement.sql, values, self._fields, self._size)
        try:
            batch_and_key = next(self._batches, None)
        except BaseException:
            self._batches = None
            raise
        if batch_and_key is None:
            return None
        batch, self._after = batch_and_key
        return batch
