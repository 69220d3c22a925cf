"""A batch read: what is in a queue or a topic, in parts that tasks read side by side. It takes nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pymysql

from spark_connector.batch import parts
from spark_connector.batch.conditions import check
from spark_connector.batch.parts import Part, Range
from spark_connector.client.cluster import settings
from spark_connector.client.columns import Field
from spark_connector.client.connection import Client, told
from spark_connector.client.queue import Queue, describe
from spark_connector.client.reconnecting import opened, patiently
from spark_connector.client.topic_numbers import insist_on_numbers
from spark_connector.errors import OptionError
from spark_connector.options import BatchReadOptions
from spark_connector.values import arrow

LARGE_BYTES = 64 << 20
"""Of text and bytes in what a read carries: from there on it is worth saying how to carry less."""

_SAMPLE = 100  # rows
_LONG = ("string", "binary")
_log = logging.getLogger("queuegate.spark")


class BatchRead:
    """spark.read: planned on the driver, read by tasks in other processes, which get a pickled copy."""

    def __init__(self, options: BatchReadOptions, fields: Sequence[Field]) -> None:
        self._options = options
        self.fields = tuple(fields)

    def partitions(self) -> list[Part]:
        """One part for each task."""
        return patiently(self._options.address, self._plan)

    def _plan(self, client: Client) -> list[Part]:
        queue, options = describe(client, self._options.queue), self._options
        _insist(queue, options)
        arrow.agree(queue, self.fields)
        own = settings(client)
        for setting in own:
            client.execute(setting)
        if options.where is not None:
            check(client, queue, options.where)
        found = parts.cut(client, queue, options.num_partitions, options.include_acked, options.span, own)
        self._warn_of_size(client, queue)
        return found

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The rows of a part, as they are when it is read."""
        with opened(self._options.address, part.settings) as client:
            try:
                for one in parts.ranges(client, part, self._options.span):
                    sql, args = self._select(part.queue, one)
                    yield from arrow.batches(client, sql, args, self.fields, self._options.fetch_size)
            except pymysql.Error as error:
                raise told(error, self._options.address) from error

    def _select(self, queue: Queue, one: Range) -> tuple[str, list[object]]:
        where, args = parts.condition(one, queue, self._options.include_acked)
        if self._options.where is not None:
            where = f"{where} AND ({self._options.where.replace('%', '%%')})"
        table = queue.placed_log if self._options.where is None else queue.placed  # it may have a better index
        return f"SELECT {arrow.select_list(queue, self.fields)} FROM {table} WHERE {where}", args

    def _warn_of_size(self, client: Client, queue: Queue) -> None:
        """Where much of what is read is text or bytes, and perhaps not needed: Spark does not tell which it needs."""
        long = [queue.column(field.name).name for field in self.fields if field.type in _LONG]
        if not long:
            return
        where, args = parts.condition(Range(), queue, self._options.include_acked)
        size = " + ".join(f"COALESCE(LENGTH({queue.placed_column(name)}), 0)" for name in long)
        rows = f"SELECT {size} AS bytes FROM {queue.placed} WHERE {where} LIMIT"
        mean = client.value(f"SELECT AVG(bytes) FROM ({rows} {_SAMPLE}) AS some", args)
        if not mean:
            return
        most = int(LARGE_BYTES / float(mean)) + 1
        if int(client.value(f"SELECT COUNT(*) FROM ({rows} {most}) AS enough", args)) >= most:
            _log.warning(
                "%s has about %d bytes in %s of each message, more than %d MiB in all, and Spark carries every column"
                " that was loaded, whatever is selected: say option columns (and where) for what you need",
                queue.called, round(mean), ", ".join(long), LARGE_BYTES >> 20,
            )  # fmt: skip


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
