"""The format `queuegate` as Spark calls it: thin wrappers, each around a core that does not depend on Spark.

Spark calls these in different processes (schema and planning in one each, a stream's reader in one that lives as long
as the query, tasks in workers). So a core is pickled: it contains options and fields, and opens connections where it
runs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from spark_connector.client.columns import Field
from spark_connector.errors import ConnectorError

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_connector.batch.read import BatchRead
    from spark_connector.sources.batch import SeveralRead
    from spark_connector.streaming.offsets import MicroBatch
    from spark_connector.streaming.source import StreamSource
    from spark_connector.writing.batch_write import BatchWrite, StreamWrite

FORMAT = "queuegate"
_log = logging.getLogger("queuegate.spark")
# Local properties that Spark sets for the tasks of a streaming query.
_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


class QueuegateDataSource(DataSource):
    """spark.read, spark.readStream, df.write and df.writeStream, each with .format("queuegate")."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        from spark_connector.options import check

        self._options = dict(options.items())
        check(self._options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        """The columns of the queue's table; of several queues, the common columns and the source column."""
        from spark_connector.sources.schema import schema

        return schema(self._options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from spark_connector.options import batch_read
        from spark_connector.sources.batch import batch_reader

        return _Reader(batch_reader(batch_read(self._options), _fields(schema)))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from spark_connector.options import stream_read
        from spark_connector.sources.stream import stream_source

        return _StreamReader(stream_source(stream_read(self._options), _fields(schema)))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from spark_connector.option_names import Use
        from spark_connector.options import write
        from spark_connector.writing.batch_write import BatchWrite

        return _Writer(BatchWrite(write(self._options, Use.BATCH_WRITE), _fields(schema), overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from spark_connector.option_names import Use
        from spark_connector.options import write
        from spark_connector.writing.batch_write import StreamWrite

        return _StreamWriter(StreamWrite(write(self._options, Use.STREAM_WRITE), _fields(schema), overwrite))


class _Reader(DataSourceReader):
    """A batch read. It accepts no filters: Spark 4.3 would apply the filters of one action to the next ones, too,
    because it has one reader for each load()."""

    def __init__(self, core: BatchRead | SeveralRead) -> None:
        self._core = core

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(part) for part in self._core.partitions()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._core.read(partition.value)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, core: StreamSource) -> None:
        self._core = core

    def initialOffset(self) -> dict[str, Any]:
        return self._core.initial_offset()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._core.max_messages)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._core.latest_offset(start, _row_limit(limit))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._core.report()

    def prepareForTriggerAvailableNow(self) -> None:
        self._core.prepare_available_now()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(part) for part in self._core.partitions(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._core.read(partition.value, _micro_batch())

    def commit(self, end: dict[str, Any]) -> None:
        self._core.commit(end)

    def stop(self) -> None:
        self._core.stop()  # Spark rarely calls it: nothing depends on it


@dataclass
class _Message(WriterCommitMessage):
    """What a task reports to the committer."""

    value: Any


class _Writer(DataSourceArrowWriter):
    def __init__(self, core: BatchWrite) -> None:
        self._core = core

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _Message(self._core.write(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with _logged_failure():
            self._core.commit(_all_values(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._core.abort(_values(messages))


class _StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, core: StreamWrite) -> None:
        self._core = core

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _Message(self._core.write(iterator, _query()))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        with _logged_failure():
            self._core.commit(_all_values(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._core.abort(_values(messages), batchId)


@contextmanager
def _logged_failure() -> Iterator[None]:
    """Logs the failure of a commit: Spark reports it to the caller only as "Writing job failed" without a cause."""
    try:
        yield
    except ConnectorError as error:
        _log.error("nothing was committed: spark_connector.errors.%s: %s", type(error).__name__, error)
        raise


def _fields(schema: StructType) -> tuple[Field, ...]:
    return tuple(Field(field.name, field.dataType.simpleString(), field.nullable) for field in schema.fields)


def _row_limit(limit: ReadLimit) -> int | None:
    """The limit in rows; None: no limit."""
    if isinstance(limit, ReadMaxRows):
        rows: int = limit.max_rows
        return rows
    if not isinstance(limit, ReadAllAvailable):
        raise ConnectorError(f"this version of Spark bounds a micro-batch in a way that is not known here: {limit}")
    return None


def _values(messages: Sequence[WriterCommitMessage | None]) -> list[Any]:
    """The values of the tasks that sent one; a failed task sent none."""
    return [message.value for message in messages if isinstance(message, _Message)]


def _all_values(messages: Sequence[WriterCommitMessage | None]) -> list[Any]:
    """The values of all tasks. Spark commits only if all tasks have sent one."""
    values = _values(messages)
    if len(values) != len(messages):
        raise ConnectorError("Spark commits a write of which a task has reported nothing: nothing is published")
    return values


def _property(name: str) -> str | None:
    """A local property of the current task."""
    from pyspark import TaskContext

    task = TaskContext.get()
    return task.getLocalProperty(name) if task is not None else None


def _micro_batch() -> MicroBatch | None:
    """The micro-batch that this task is part of, if Spark sets it (not in foreachBatch of Spark Connect)."""
    from spark_connector.streaming.offsets import MicroBatch

    query, number = _property(_QUERY_ID), _property(_BATCH_ID)
    return MicroBatch(query, int(number)) if query and number else None


def _query() -> str:
    """The streaming query's id, which stays the same when it is restarted from its checkpoint."""
    query_id = _property(_QUERY_ID)
    if not query_id:
        raise ConnectorError("Spark tells the task no streaming query's id: write with df.writeStream")
    return query_id
