"""What the tests of streaming reads share: a stream of a queue, a sink of files, what is in both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from servers import Gate, Sql

END_SECONDS = 100


def reading(spark: Any, gate: Gate) -> Callable[..., Any]:
    """Makes streaming DataFrames of a gate's queues."""
    from spark_connector.datasource import QueuegateDataSource

    spark.dataSource.register(QueuegateDataSource)

    def make(queue: str, **options: object) -> Any:
        at = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database, "queue": queue}
        return spark.readStream.format("queuegate").options(**at, **options).load()

    return make


class Files:
    """A sink of Parquet files, with its checkpoint beside them."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self._spark, self._out, self._checkpoint = spark, folder / "out", folder / "checkpoint"

    def _writer(self, frame: Any) -> Any:
        writer = frame.writeStream.format("parquet").option("path", str(self._out))
        return writer.option("checkpointLocation", str(self._checkpoint))

    def take_all(self, frame: Any) -> Any:
        """A run to the end of what there is."""
        query = self._writer(frame).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(END_SECONDS), "the run did not end"
        finally:
            query.stop()
        return query

    @contextmanager
    def running(self, frame: Any) -> Iterator[Any]:
        """A query that goes on until the end of the block."""
        query = self._writer(frame).trigger(processingTime="100 milliseconds").start()
        try:
            yield query
        finally:
            query.stop()

    def payloads(self) -> list[str]:
        return sorted(row.payload for row in self._spark.read.parquet(str(self._out)).collect())


def reported(query: Any) -> dict[str, Any]:
    """What the source says of itself in the query's progress: JSON within JSON."""
    found: dict[str, Any] = json.loads(query.lastProgress["sources"][0]["latestOffset"])
    return found


def insert(sql: Sql, queue: str, *payloads: object) -> None:
    sql(f"INSERT INTO {queue} (payload) VALUES {', '.join(f'({str(payload)!r})' for payload in payloads)}")


def acked(sql: Sql, queue: str) -> int:
    return int(sql.value(f"SELECT COUNT(*) FROM {queue} WHERE time_acked IS NOT NULL"))


def numbers(*ranges: range) -> list[str]:
    return sorted(str(number) for one in ranges for number in one)
