"""What a task of a stream reads: rows as they come, in bounded memory, read on where a connection was lost.

A task's rows are in the order of a number that the statement selects too. What was handed to Spark cannot be taken
back, so after a lost connection the statement is run again for the rows after the last one that was handed over. The
rows after it are the same then: they are chosen by number, and nothing that happens to the queue gives them new ones.
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
    after: int  # the rows that it reads have a larger number
    last: int  # and none larger than that


def read(
    options: StreamReadOptions,
    statements: Sequence[Statement],
    fields: Sequence[Field],
    settings: tuple[str, ...] = (),
    first: Callable[[Client], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Their rows, at most `fetchsize` or about 4 MiB at a time. `settings`: what the connection begins with besides.
    `first`: what is done before anything is read. Raises ConnectionFailed, ConnectorError."""
    with pool.kept(options.address, (READ_COMMITTED, *settings)) as line:
        if first is not None:
            line.run(first)
        for statement in statements:
            reading = _Reading(statement, fields, options.fetch_size)
            while (batch := line.run(reading.next)) is not None:
                yield batch


class _Reading:
    """One statement, as far as it has been read."""

    def __init__(self, statement: Statement, fields: Sequence[Field], size: int) -> None:
        self._statement, self._fields, self._size = statement, fields, size
        self._after = statement.after
        self._batches: Iterator[tuple[pa.RecordBatch, int]] | None = None

    def next(self, client: Client) -> pa.RecordBatch | None:
        """The next rows, by this connection; None at the end. After an error it goes on by whichever comes next."""
        if self._batches is None:
            values = (*self._statement.args, self._after, self._statement.last)
            self._batches = keyed_batches(client, self._statement.sql, values, self._fields, self._size)
        try:
            found = next(self._batches, None)
        except BaseException:
            self._batches = None
            raise
        if found is None:
            return None
        batch, self._after = found
        return batch
