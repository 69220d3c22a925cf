"""What Spark does with the write cores, without Spark: plan, pickle, tasks, commit or abort."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from servers import Gate

from spark_connector.client.columns import Field
from spark_connector.option_names import Use
from spark_connector.options import WriteOptions, write
from spark_connector.writing.batch_write import BatchWrite, StreamWrite
from spark_connector.writing.stage import Staged

T = TypeVar("T")
QUERY = "11111111-2222-3333-4444-555555555555"
_TYPES = {
    pa.bool_(): "boolean", pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint",
    pa.float32(): "float", pa.float64(): "double", pa.string(): "string", pa.binary(): "binary", pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp", pa.timestamp("us"): "timestamp_ntz",
}  # fmt: skip


def options(gate: Gate, queue: str, use: Use = Use.BATCH_WRITE, **given: Any) -> WriteOptions:
    at = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database, "queue": queue}
    return write({key: str(value) for key, value in {**at, **given}.items()}, use)


def fields(table: pa.Table) -> list[Field]:
    return [Field(one.name, _spark_type(one.type), True) for one in table.schema]


def _spark_type(of: pa.DataType) -> str:
    return f"decimal({of.precision},{of.scale})" if pa.types.is_decimal(of) else _TYPES[of]


def messages(first: int, count: int) -> pa.Table:
    """Rows of the columns n and payload."""
    numbers = range(first, first + count)
    return pa.table({"n": pa.array(numbers, pa.int64()), "payload": pa.array([f"m{n}" for n in numbers], pa.string())})


def batch(gate: Gate, queue: str, table: pa.Table, **given: Any) -> BatchWrite:
    """A planned write of such rows, as tasks and committers get it."""
    return _sent(BatchWrite(options(gate, queue, **given), fields(table), overwrite=False))


def streaming(gate: Gate, queue: str, table: pa.Table, **given: Any) -> StreamWrite:
    return _sent(StreamWrite(options(gate, queue, Use.STREAM_WRITE, **given), fields(table), overwrite=False))


def append(gate: Gate, queue: str, *parts: pa.Table, **given: Any) -> None:
    """A whole batch write; one task for each part."""
    core = batch(gate, queue, parts[0], **given)
    core.commit([task(core, part) for part in parts])


def micro_batch(gate: Gate, queue: str, number: int, *parts: pa.Table, query: str = QUERY, **given: Any) -> None:
    """A whole micro-batch; it is committed in another process than its tasks ran in."""
    staged = stage_micro_batch(gate, queue, parts, query, **given)
    streaming(gate, queue, parts[0], **given).commit(staged, number)


def stage_micro_batch(
    gate: Gate, queue: str, parts: Iterable[pa.Table], query: str = QUERY, **given: Any
) -> list[Staged]:
    return [_sent(streaming(gate, queue, part, **given)).write(part.to_batches(), query) for part in parts]


def task(core: BatchWrite, part: pa.Table | Sequence[pa.RecordBatch]) -> Staged:
    """What an attempt at a task reports."""
    batches = part.to_batches() if isinstance(part, pa.Table) else part
    return _sent(_sent(core).write(iter(batches)))


def _sent(value: T) -> T:
    """To another process."""
    copy: T = pickle.loads(pickle.dumps(value))
    return copy
