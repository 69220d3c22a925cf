"""A write whose rows contain their target in a column: several queues and topics, all at once or not at all.

Each task stages its rows by target, in the stage tables that are also used by writes to one target. The publication is
one transaction for all targets, recorded once in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_connector.client import pool
from spark_connector.client.columns import Field
from spark_connector.client.connection import Client
from spark_connector.client.queue import describe
from spark_connector.client.reconnecting import ReconnectingClient, run_with_retries
from spark_connector.errors import ConnectionFailed, OptionError, SchemaError, WriteError
from spark_connector.options import WriteOptions
from spark_connector.writing import publish_log, stage
from spark_connector.writing.inserts import non_empty
from spark_connector.writing.plan import WritePlan, plan
from spark_connector.writing.publish_log import Publication
from spark_connector.writing.sinks import (
    SETTINGS,
    Sink,
    best_effort,
    clean,
    connected,
    define,
    publish,
    sink,
    translated_errors,
)
from spark_connector.writing.stage import Attempt, Staged

LOG_NAME = "*"
"""The queue's name in the log: no table has this name."""

_LABEL = "a write by routeColumn"


def sink_of(options: WriteOptions, fields: Sequence[Field], overwrite: bool) -> Sink:
    """The sink for the options. Raises OptionError, SchemaError, QueueError, ConnectionFailed."""
    if options.route is None:
        return sink(options, fields, overwrite)
    return _RoutedSink(options, options.route, fields, overwrite)


class _RoutedSink:
    """A Sink; see the module."""

    def __init__(self, options: WriteOptions, route: str, fields: Sequence[Field], overwrite: bool) -> None:
        if overwrite:
            raise OptionError("queues and topics cannot be overwritten: write with mode('append')")
        indexes = [index for index, field in enumerate(fields) if field.name.lower() == route.lower()]
        if len(indexes) != 1 or fields[indexes[0]].type != "string":
            raise SchemaError(f"option routeColumn is {route}: the DataFrame needs one column of that name, of text")
        self._options, self._index = options, indexes[0]
        self._fields = tuple(field for index, field in enumerate(fields) if index != self._index)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Staged:
        if (some := non_empty(batches)) is None:
            return Staged(0, 0)
        attempts: dict[str, Attempt] = {}
        with (
            translated_errors(self._options.address, _LABEL),
            pool.pooled(self._options.address, SETTINGS) as connection,
        ):
            try:
                for batch in some:
                    for target, rows in self._by_target(batch):
                        if target not in attempts:
                            attempts[target] = self._attempt(connection, target)
                        attempts[target].put(connection, rows)
            except ConnectionFailed:
                raise  # without a connection the rows cannot be deleted either: they are deleted by age
            except BaseException:
                best_effort(lambda: _forget(connection, attempts.values()))
                raise
        parts = tuple((target, attempt.staged) for target, attempt in attempts.items())
        return Staged(0, sum(part.count for _, part in parts), parts=parts)

    def _attempt(self, connection: ReconnectingClient, target: str) -> Attempt:
        return Attempt(connection.run(lambda client: self._planned(client, target)), self._options.batch_size)

    def publish(self, staged: Sequence[Staged], what: Publication) -> None:
        targets = _targets(staged)
        if not targets and not what.named:
            return

        def make_plans(client: Client) -> dict[str, WritePlan]:
            publish_log.define(client)
            return {target: self._planned(client, target) for target, _ in targets}

        with translated_errors(self._options.address, _LABEL):  # no DDL in the transaction
            plans = run_with_retries(self._options.address, make_plans, SETTINGS)

        def copy(client: Client) -> int:
            return sum(stage.copy(client, plans[target], parts) for target, parts in targets)

        rows = sum(one.count for one in staged)
        publish(self._options.address, _LABEL, LOG_NAME, what, rows, copy)
        self.abandon(staged)

    def abandon(self, staged: Sequence[Staged]) -> None:
        best_effort(lambda: self._clean(staged))

    def _clean(self, staged: Sequence[Staged]) -> None:
        with connected(self._options.address, _LABEL) as client:
            for target, parts in _targets(staged):
                clean(client, self._planned(client, target), parts)

    def _planned(self, client: Client, target: str) -> WritePlan:
        """The plan for a target; creates its tables. Raises QueueError, SchemaError."""
        write_plan = plan(describe(client, target), self._fields, None)
        define(client, write_plan)
        return write_plan

    def _by_target(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows for each target, without the column that names it."""
        names = batch.column(self._index)
        rest = batch.select([index for index in range(batch.num_columns) if index != self._index])
        for name in pc.unique(names).to_pylist():
            if not name:
                raise WriteError(
                    f"column {batch.schema.names[self._index]} names no queue or topic in a row (NULL or '')"
                )
            yield name, rest.filter(pc.equal(names, name))


def _targets(staged: Sequence[Staged]) -> list[tuple[str, list[Staged]]]:
    """What was staged for each target, in the order of the tasks; targets are sorted by name to prevent deadlocks
    between writers."""
    by_target: dict[str, list[Staged]] = {}
    for one in staged:
        for target, part in one.parts:
            by_target.setdefault(target, []).append(part)
    return sorted(by_target.items())


def _forget(connection: ReconnectingClient, attempts: Iterable[Attempt]) -> None:
    for attempt in attempts:
        attempt.forget(connection)
