"""A batch write: a DataFrame's rows become messages when all its tasks have reported."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from spark_connector.client.columns import Field
from spark_connector.options import WriteOptions
from spark_connector.writing import publish_log
from spark_connector.writing.publish_log import Publication
from spark_connector.writing.routed import sink_of
from spark_connector.writing.stage import Staged


class BatchWrite:
    """df.write: created when Spark plans the write, then pickled for its tasks and for the committer."""

    def __init__(self, options: WriteOptions, fields: Sequence[Field], overwrite: bool) -> None:
        self._sink = sink_of(options, fields, overwrite)
        self._what = _publication(options)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Staged:
        """A task's rows. Raises WriteError, ConnectionFailed."""
        return self._sink.write(batches)

    def commit(self, staged: Sequence[Staged]) -> None:
        """All tasks have reported, in the order of their partitions. Raises WriteError, ConnectionFailed."""
        self._sink.publish(staged, self._what)

    def abort(self, staged: Sequence[Staged]) -> None:
        """The job failed; these tasks had reported."""
        self._sink.abandon(staged)


def _publication(options: WriteOptions) -> Publication:
    if options.transaction is None:
        return publish_log.of_job(uuid.uuid4().hex)
    return publish_log.of_application(*options.transaction)


# A streaming write: each micro-batch's rows become messages once, however often Spark repeats it.


class StreamWrite:
    """df.writeStream: created when a micro-batch is planned, and again when it is committed."""

    def __init__(self, options: WriteOptions, fields: Sequence[Field], overwrite: bool) -> None:
        self._sink = sink_of(options, fields, overwrite)

    def write(self, batches: Iterable[pa.RecordBatch], query: str) -> Staged:
        """A task's rows. `query`: the query's id, which stays the same after restarts. Raises as a batch write."""
        return replace(self._sink.write(batches), query=query)

    def commit(self, staged: Sequence[Staged], batch_id: int) -> None:
        """All tasks have reported, in the order of their partitions. Raises WriteError, ConnectionFailed."""
        for query in {one.query for one in staged if one.query is not None}:
            self._sink.publish(staged, publish_log.of_query(query, batch_id))

    def abort(self, staged: Sequence[Staged], batch_id: int) -> None:
        """The micro-batch failed; these tasks had reported."""
        self._sink.abandon(staged)
