"""Rows of Arrow batches as the texts of INSERT statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import pyarrow as pa

from spark_connector.values.literals import literals
from spark_connector.writing.plan import WritePlan

STATEMENT_CHARACTERS = 1_000_000  # where a statement ends: far below any max_allowed_packet, whatever the bytes of each
PIECE_BYTES = 4_000_000  # of a batch, that are texts at the same time


def begun(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch] | None:
    """The same, once the first row is there; None where there is none: many partitions of a shuffle are empty."""
    rest = iter(batches)
    first = next((batch for batch in rest if batch.num_rows), None)
    return None if first is None else pieces(chain([first], rest))


def pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are not large, however wide the rows are."""
    for batch in batches:
        size = max(1, batch.num_rows * PIECE_BYTES // max(batch.nbytes, PIECE_BYTES))
        for begin in range(0, batch.num_rows, size):
            yield batch.slice(begin, size)


def rows(batch: pa.RecordBatch, plan: WritePlan, now: Callable[[], int]) -> list[str]:
    """Each row's values, in the order of the plan's columns. `now`: the database's clock. Raises WriteError."""
    columns = {target.column.name: literals(batch.column(place), target) for place, target in enumerate(plan.targets)}
    beginning = {"now": str(now()) if plan.filled else "", "zero": "0"}
    for filled in plan.filled:
        values = columns[filled.like] if filled.like else [beginning[filled.value]] * batch.num_rows
        columns[filled.column.name] = values
    return list(map(",".join, zip(*columns.values(), strict=True)))


def statements(head: str, rows: Sequence[str], tail: str, most: int) -> Iterator[str]:
    """INSERT statements of at most so many rows and about STATEMENT_CHARACTERS."""
    for chunk in _chunks(rows, most):
        yield f"{head} VALUES ({'),('.join(chunk)}){tail}"


def _chunks(rows: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    begin = size = 0
    for place, row in enumerate(rows):
        if place > begin and (place - begin >= most or size + len(row) > STATEMENT_CHARACTERS):
            yield rows[begin:place]
            begin, size = place, 0
        size += len(row)
    if rows:
        yield rows[begin:]
