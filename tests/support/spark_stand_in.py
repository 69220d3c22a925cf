"""Spark's part in a streaming query, without Spark: which calls a source gets in which order, what is logged when."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field
from typing import Any

from servers import Gate

from spark_connector.client.columns import Field, fields
from spark_connector.client.connection import Client
from spark_connector.client.queue import describe, group_queue
from spark_connector.options import stream_read
from spark_connector.sources.stream import stream_source
from spark_connector.streaming.source import StreamSource


def options_of(gate: Gate, queue: str | None, **options: object) -> dict[str, str]:
    """What a user would give as options, under lower-case names as Spark passes them."""
    at = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database}
    named = {} if queue is None else {"queue": queue}
    return {name.lower(): str(value) for name, value in {**at, **named, **options}.items()}


def make_source(gate: Gate, queue: str | None, columns: str = "id, payload", **options: object) -> StreamSource:
    """A source that reads these columns; of several, where no queue is named, `id` as a number and others as text."""
    read = stream_read(options_of(gate, queue, **{"pollTimeoutMs": 0, **options}))
    names = [name.strip() for name in columns.split(",")]
    if queue is None:
        return stream_source(read, tuple(Field(name, "bigint" if name == "id" else "string") for name in names))
    with Client(read.address) as client:
        name = queue if read.group is None else group_queue(client, queue, read.group)
        known = {found.name: found for found in fields(describe(client, name).columns)}
    return stream_source(
        read, tuple(known.get(name.strip(), Field(name.strip(), "string")) for name in columns.split(","))
    )


@dataclass
class Checkpoint:
    """Spark's two logs: micro-batches that were planned, and those that are done."""

    offsets: list[dict[str, Any]] = field(default_factory=list)
    done: int = 0


class Query:
    """A run of a streaming query: one process's source, from a checkpoint that outlives it."""

    def __init__(self, source: StreamSource, checkpoint: Checkpoint, limit: int | None = 20_000) -> None:
        self.source, self.checkpoint, self.limit = source, checkpoint, limit
        self.out: list[tuple[Any, ...]] = []

    @property
    def start(self) -> dict[str, Any]:
        """Where the next micro-batch begins."""
        done = self.checkpoint.done
        return _through_json(self.checkpoint.offsets[done - 1] if done else self.source.initial_offset())

    def plan(self) -> bool:
        """Ask for a micro-batch and log it; one that is logged and not done is taken as it is. False: nothing new."""
        if len(self.checkpoint.offsets) > self.checkpoint.done:
            return True
        start = self.start
        end = _through_json(self.source.latest_offset(start, self.limit))
        if end != start:
            self.checkpoint.offsets.append(end)
        return end != start

    def parts(self) -> list[Any]:
        """The tasks of the micro-batch that is logged and not done."""
        return list(self.source.partitions(self.start, self.checkpoint.offsets[self.checkpoint.done]))

    def run(self) -> list[tuple[Any, ...]]:
        """The rows of that micro-batch, each task with a copy of the source, as in a worker."""
        return [row for part in self.parts() for row in read(self.source, part)]

    def finish(self) -> None:
        """Log that it is done."""
        self.checkpoint.done += 1

    def batch(self) -> list[tuple[Any, ...]]:
        """A micro-batch from its plan to its end; nothing if there is nothing."""
        if not self.plan():
            return []
        rows = self.run()
        self.finish()
        self.out.extend(rows)
        return rows

    def drain(self, most: int = 1000) -> list[tuple[Any, ...]]:
        """Micro-batches until there is nothing new: then all of them are acked."""
        for _ in range(most):
            if not self.batch():
                return self.out
        raise AssertionError(f"there is more after {most} micro-batches")

    def kill(self) -> None:
        """The end of the process, as far as others see it: its heartbeat stops, its connections close."""
        self.source.stop()


def read(source: StreamSource, part: Any) -> list[tuple[Any, ...]]:
    """What a task reads, in another process as far as it can tell."""
    copy = pickle.loads(pickle.dumps(source))
    rows: list[tuple[Any, ...]] = []
    for batch in copy.read(pickle.loads(pickle.dumps(part))):
        rows.extend(tuple(row.values()) for row in batch.to_pylist())
    return rows


def _through_json(offset: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found
