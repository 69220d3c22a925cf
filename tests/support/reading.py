"""Reading a queue as Spark would, without Spark: planned, pickled, each part read by a copy."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from servers import Gate

from spark_connector import options as checked
from spark_connector.batch.read import BatchRead
from spark_connector.client.columns import Field, fields
from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue, describe
from spark_connector.sources.batch import SeveralRead
from spark_connector.values.arrow import arrow_schema


def options(gate: Gate, queue: str | None, **more: Any) -> dict[str, str]:
    """Options as Spark hands them over. Without a queue: `more` says what is read."""
    at = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database, **more}
    if queue is not None:
        at["queue"] = queue
    return {key: str(value) for key, value in at.items()}


def described(gate: Gate, queue: str) -> Queue:
    with Client(checked.queue_address(options(gate, queue)).address) as client:
        return describe(client, queue)


def own_fields(gate: Gate, queue: str) -> tuple[Field, ...]:
    return fields(described(gate, queue).columns)


def reader(gate: Gate, queue: str, of: Sequence[Field] | None = None, **more: Any) -> BatchRead:
    return BatchRead(checked.batch_read(options(gate, queue, **more)), own_fields(gate, queue) if of is None else of)


def read(core: BatchRead | SeveralRead) -> pa.Table:
    """All rows, and that the batches have the schema that Spark was told of."""
    copy: BatchRead | SeveralRead = pickle.loads(pickle.dumps(core))
    parts = pickle.loads(pickle.dumps(copy.partitions()))
    copy = pickle.loads(pickle.dumps(copy))
    batches = [batch for part in parts for batch in copy.read(part)]
    return pa.Table.from_batches(batches, arrow_schema(core.fields))


def values(gate: Gate, queue: str, column: str, **more: Any) -> list[Any]:
    """One column, in no order."""
    found: list[Any] = read(reader(gate, queue, **more)).column(column).to_pylist()
    return found
