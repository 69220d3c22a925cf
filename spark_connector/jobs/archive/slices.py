"""Acked messages of a queue as a DataFrame, one task for each interval of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pymysql

from spark_connector.client.columns import Field, ddl, fields
from spark_connector.client.connection import Client, to_connector_error
from spark_connector.client.queue import Queue
from spark_connector.jobs.archive.intervals import Interval
from spark_connector.jobs.console import Phase
from spark_connector.mysql_client.driver import escaped
from spark_connector.options import Address
from spark_connector.values.arrow import batches, select_list

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

FETCH_ROWS = 10_000


def frame_of(
    spark: SparkSession, address: Address, queue: Queue, intervals: Sequence[Interval], phase: Phase
) -> DataFrame:
    """All columns of the messages that were acked in the intervals, each read by its own task.

    The phase's count is updated when tasks end.
    """
    wanted_fields = fields(queue.columns)
    counter = spark.sparkContext.accumulator(0)
    phase.live = lambda: int(counter.value)
    numbers = spark.range(0, len(intervals), 1, len(intervals))
    return numbers.mapInArrow(reader(address, queue, wanted_fields, tuple(intervals), counter), ddl(wanted_fields))


def reader(
    address: Address,
    queue: Queue,
    wanted_fields: Sequence[Field],
    intervals: Sequence[Interval],
    counter: Accumulator[int],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that runs in the tasks: from the numbers of intervals to their messages."""
    columns, table = select_list(queue, wanted_fields), escaped(queue.name)
    sql = f"SELECT {columns} FROM {table} WHERE time_acked > %s AND time_acked <= %s"

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                bounds = (intervals[number].after, intervals[number].until)
                for rows in _rows(address, sql, bounds, wanted_fields):
                    counter.add(rows.num_rows)
                    yield rows

    return read


def _rows(
    address: Address, sql: str, bounds: tuple[int, int], wanted_fields: Sequence[Field]
) -> Iterator[pa.RecordBatch]:
    """Raises ConnectionFailed, ConnectorError: errors of pymysql cannot be pickled between Spark's processes."""
    with Client(address) as client:
        try:
            yield from batches(client, sql, bounds, wanted_fields, FETCH_ROWS)
        except pymysql.Error as error:
            raise to_connector_error(error, address) from error
