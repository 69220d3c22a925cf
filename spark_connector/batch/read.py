"""A batch read: the content of a queue or a topic, in parts that tasks read in parallel. It leases and acks nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pymysql

from spark_connector.batch import parts
from spark_connector.batch.parts import Part, Range
from spark_connector.client.columns import Field
from spark_connector.client.connection import Client, settings, to_connector_error
from spark_connector.client.queue import Queue, describe
from spark_connector.client.reconnecting import open_client, run_with_retries
from spark_connector.client.topic_log import check_numbers
from spark_connector.errors import OptionError
from spark_connector.mysql_client.driver import error_number
from spark_connector.option_condition import OPTION
from spark_connector.options import BatchReadOptions
from spark_connector.values import arrow

LARGE_BYTES = 64 << 20
"""Of text and bytes in a read: above this size a warning explains how to read less."""

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
        return run_with_retries(self._options.address, self._plan)

    def _plan(self, client: Client) -> list[Part]:
        queue, options = describe(client, self._options.queue), self._options
        _check_options(queue, options)
        arrow.agree(queue, self.fields)
        own = settings(client)
        for setting in own:
            client.execute(setting)
        if options.where is not None:
            check_condition(client, queue, options.where)
        planned = parts.cut(client, queue, options.num_partitions, options.include_acked, options.span, own)
        self._warn_of_size(client, queue)
        return planned

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The current rows of a part."""
        with open_client(self._options.address, part.settings) as client:
            try:
                for one in parts.ranges(client, part, self._options.span):
                    sql, args = self._select(part.queue, one)
                    yield from arrow.batches(client, sql, args, self.fields, self._options.fetch_size)
            except pymysql.Error as error:
                raise to_connector_error(error, self._options.address) from error

    def _select(self, queue: Queue, one: Range) -> tuple[str, list[object]]:
        where, args = parts.condition(one, queue, self._options.include_acked)
        if self._options.where is not None:
            where = f"{where} AND ({self._options.where.replace('%', '%%')})"
        table = (
            queue.escaped_log if self._options.where is None else queue.escaped
        )  # the database may choose a better index
        return f"SELECT {arrow.select_list(queue, self.fields)} FROM {table} WHERE {where}", args

    def _warn_of_size(self, client: Client, queue: Queue) -> None:
        """Warns if much text or bytes are read, perhaps unnecessarily: Spark does not report which columns it needs."""
        long = [queue.column(field.name).name for field in self.fields if field.type in _LONG]
        if not long:
            return
        where, args = parts.condition(Range(), queue, self._options.include_acked)
        size = " + ".join(f"COALESCE(LENGTH({queue.escaped_column(name)}), 0)" for name in long)
        rows = f"SELECT {size} AS bytes FROM {queue.escaped} WHERE {where} LIMIT"
        mean = client.value(f"SELECT AVG(bytes) FROM ({rows} {_SAMPLE}) AS some", args)
        if not mean:
            return
        most = int(LARGE_BYTES / float(mean)) + 1
        if int(client.value(f"SELECT COUNT(*) FROM ({rows} {most}) AS enough", args)) >= most:
            _log.warning(
                "%s has about %d bytes in %s of each message, more than %d MiB in all, and Spark carries every column"
                " that was loaded, whatever is selected: say option columns (and where) for what you need",
                queue.label, round(mean), ", ".join(long), LARGE_BYTES >> 20,
            )  # fmt: skip


def _check_options(queue: Queue, options: BatchReadOptions) -> None:
    """Checks that the options apply to what is read, and that its numbers exist. Raises OptionError, QueueError."""
    check_numbers(queue)
    if queue.is_topic and options.include_acked:
        raise OptionError(f"option includeAcked has no meaning for {queue.label}, whose messages are not acked")
    if not queue.is_topic and options.span is not None:
        raise OptionError(
            f"options startingOffsets, startingTimestamp, endingOffsets and endingTimestamp are for topics, and"
            f" {queue.name} is a queue: choose by .where(...)"
        )


# The server's errors for an invalid condition; other errors are not caused by the option.
_FAULTS = frozenset({1052, 1054, 1064, 1111, 1221, 1235, 1241, 1242, 1305, 1630, 1582, 1583, 3593})


def check_condition(client: Client, queue: Queue, text: str) -> None:
    """Checks that the database accepts it. Raises OptionError, ConnectionFailed, ConnectorError."""
    try:
        client.rows(f"SELECT 1 FROM {queue.quoted} WHERE ({text}) LIMIT 0")
    except pymysql.Error as error:
        if error_number(error) in _FAULTS:
            raise OptionError(f"{OPTION}: of {text[:80]!r} the database says: {error.args[1]}") from error
        raise to_connector_error(error, client.address) from error
