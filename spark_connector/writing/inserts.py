"""Converts rows of Arrow batches to INSERT statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import pyarrow as pa

from spark_connector.values.literals import literals
from spark_connector.writing.plan import WritePlan

STATEMENT_CHARACTERS = (
    1_000_000  # maximum of a statement: far below any max_allowed_packet, also for multi-byte characters
)
PIECE_BYTES = 4_000_000  # of a batch, that are converted to text at the same time


def non_empty(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch] | None:
    """The same batches, or None if there are no rows: many partitions of a shuffle are empty."""
    rest = iter(batches)
    first = next((batch for batch in rest if batch.num_rows), None)
    return None if first is None else pieces(chain([first], rest))


def pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of limited size."""
    for batch in batches:
        size = max(1, batch.num_rows * PIECE_BYTES // max(batch.nbytes, PIECE_BYTES))
        for begin in range(0, batch.num_rows, size):
            yield batch.slice(begin, size)


def rows(batch: pa.RecordBatch, plan: WritePlan, now: Callable[[], int]) -> list[str]:
    """Each row's values, in the order of the plan's columns. `now`: the database's clock. Raises WriteError."""
    columns = {target.column.name: literals(batch.column(index), target) for index, target in enumerate(plan.targets)}
    beginning = {"now": str(now()) if plan.filled else "", "zero": "0"}
    for filled in plan.filled:
        values = columns[filled.like] if filled.like else [beginning[filled.value]] * batch.num_rows
        columns[filled.column.name] = values
    return list(map(",".join, zip(*columns.values(), strict=True)))


def statements(head: str, rows: Sequence[str], tail: str, most: int) -> Iterator[str]:
    """INSERT statements of at most `most` rows and about STATEMENT_CHARACTERS."""
    for chunk in _chunks(rows, most):
        yield f"{head} VALUES ({'),('.join(chunk)}){tail}"


def _chunks(rows: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    begin = size = 0
    for index, row in enumerate(rows):
        if index > begin and (index - begin >= most or size + len(row) > STATEMENT_CHARACTERS):
            yield rows[begin:index]
            begin, size = index, 0
        size += len(row)
    if rows:
        yield rows[begin:]
