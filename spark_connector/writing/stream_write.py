"""A streaming write: each micro-batch's rows become messages once, however often Spark repeats it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from spark_connector.client.columns import Field
from spark_connector.options import WriteOptions
from spark_connector.writing import publish_log
from spark_connector.writing.routed import sink_of
from spark_connector.writing.stage import Staged


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
