"""A batch read: what is in a queue or a topic, in parts that tasks read side by side. It takes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pymysql

from spark_connector.batch import parts
from spark_connector.batch.filters import Condition, split
from spark_connector.batch.parts import Part
from spark_connector.client.cluster import settings
from spark_connector.client.columns import Field
from spark_connector.client.connection import Client, placed, told
from spark_connector.client.queue import Queue, describe
from spark_connector.client.topic_numbers import insist_on_numbers
from spark_connector.errors import OptionError
from spark_connector.options import BatchReadOptions
from spark_connector.values import arrow

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


class BatchRead:
    """spark.read: planned on the driver, read by tasks in other processes, which get a pickled copy."""

    def __init__(self, options: BatchReadOptions, fields: Sequence[Field]) -> None:
        self._options = options
        self.fields = tuple(fields)
        self._queue: Queue | None = None  # described on the driver, once
        self._pushed: tuple[Condition, ...] = ()

    def partitions(self) -> list[Part]:
        """One part for each task; one cut-off for all of them."""
        with Client(self._options.address) as client:
            queue = self._described(client)
            try:
                options, own = self._options, settings(client)
                for setting in own:
                    client.execute(setting)
                return parts.cut(client, queue, options.num_partitions, options.include_acked, options.span, own)
            except pymysql.Error as error:
                raise told(error, self._options.address) from error

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The rows of a part. A task that is repeated gets the same ones (docs/spark.md says within which bounds)."""
        with Client(self._options.address) as client:
            queue = self._described(client)
            where, args = self._where(part, queue)
            table = placed(queue.name) if self._pushed else queue.placed_log  # a filter may have a better index
            sql = f"SELECT {arrow.select_list(queue, self.fields)} FROM {table} WHERE {where}"
            try:
                for setting in part.settings:
                    client.execute(setting)
                yield from arrow.batches(client, sql, args, self.fields, self._options.fetch_size)
            except pymysql.Error as error:
                raise told(error, self._options.address) from error

    def push(self, filters: Sequence[Filter]) -> Iterator[Filter]:
        """Takes the filters that the database evaluates exactly as Spark would, and gives the others back."""
        with Client(self._options.address) as client:
            found, rest = split(filters, self._described(client), self.fields)
        self._pushed = tuple(found)
        return rest

    def _where(self, part: Part, queue: Queue) -> tuple[str, list[Any]]:
        where, args = parts.condition(part, queue, self._options.include_acked)
        return " AND ".join([where, *(each.sql for each in self._pushed)]), [
            *args,
            *(arg for each in self._pushed for arg in each.args),
        ]

    def _described(self, client: Client) -> Queue:
        if self._queue is None:
            self._queue = describe(client, self._options.queue)
            _insist(self._queue, self._options)
            arrow.agree(self._queue, self.fields)
        return self._queue


def _insist(queue: Queue, options: BatchReadOptions) -> None:
    """That the options have a meaning for what is read, and its numbers are there. Raises OptionError, QueueError."""
    insist_on_numbers(queue)
    if queue.is_topic and options.include_acked:
        raise OptionError(f"option includeAcked has no meaning for {queue.called}, whose messages are not acked")
    if not queue.is_topic and options.span is not None:
        raise OptionError(
            f"options startingOffsets, startingTimestamp, endingOffsets and endingTimestamp are for topics, and"
            f" {queue.name} is a queue: choose by .where(...)"
        )
