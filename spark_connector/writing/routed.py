"""A write whose rows say in a column where they go: to several queues and topics, all at once or not at all.

Each task stages its rows by target, in the tables that the target's own writes use. The publication is one transaction
for all targets, noted once in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_connector.client import pool
from spark_connector.client.columns import Field
from spark_connector.client.connection import Client
from spark_connector.client.queue import describe
from spark_connector.client.reconnecting import ReconnectingClient, patiently
from spark_connector.errors import ConnectionFailed, OptionError, SchemaError, WriteError
from spark_connector.options import WriteOptions
from spark_connector.writing import publish_log, stage
from spark_connector.writing.inserts import begun
from spark_connector.writing.plan import WritePlan, plan
from spark_connector.writing.publish_log import Publication
from spark_connector.writing.sinks import SETTINGS, Sink, clean, connected, define, if_possible, in_words, publish, sink
from spark_connector.writing.stage import Attempt, Staged

LOG_NAME = "*"
"""What stands in the log in the place of a queue: no table is called so."""

_CALLED = "a write by routeColumn"


def sink_of(options: WriteOptions, fields: Sequence[Field], overwrite: bool) -> Sink:
    """What the options ask for. Raises OptionError, SchemaError, QueueError, ConnectionFailed."""
    if options.route is None:
        return sink(options, fields, overwrite)
    return _Routed(options, options.route, fields, overwrite)


class _Routed:
    """A Sink; see the module."""

    def __init__(self, options: WriteOptions, route: str, fields: Sequence[Field], overwrite: bool) -> None:
        if overwrite:
            raise OptionError("queues and topics cannot be overwritten: write with mode('append')")
        places = [place for place, field in enumerate(fields) if field.name.lower() == route.lower()]
        if len(places) != 1 or fields[places[0]].type != "string":
            raise SchemaError(f"option routeColumn is {route}: the DataFrame needs one column of that name, of text")
        self._options, self._place = options, places[0]
        self._fields = tuple(field for place, field in enumerate(fields) if place != self._place)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Staged:
        if (some := begun(batches)) is None:
            return Staged(0, 0)
        attempts: dict[str, Attempt] = {}
        with in_words(self._options.address, _CALLED), pool.kept(self._options.address, SETTINGS) as line:
            try:
                for batch in some:
                    for target, rows in self._by_target(batch):
                        if target not in attempts:
                            attempts[target] = self._attempt(line, target)
                        attempts[target].put(line, rows)
            except ConnectionFailed:
                raise  # whoever cannot put rows cannot delete any: they go by their age
            except BaseException:
                if_possible(lambda: _forget(line, attempts.values()))
                raise
        parts = tuple((target, attempt.staged) for target, attempt in attempts.items())
        return Staged(0, sum(part.count for _, part in parts), parts=parts)

    def _attempt(self, line: ReconnectingClient, target: str) -> Attempt:
        return Attempt(line.run(lambda client: self._planned(client, target)), self._options.batch_size)

    def publish(self, staged: Sequence[Staged], what: Publication) -> None:
        targets = _targets(staged)
        if not targets and not what.named:
            return

        def made(client: Client) -> dict[str, WritePlan]:
            publish_log.define(client)
            return {target: self._planned(client, target) for target, _ in targets}

        with in_words(self._options.address, _CALLED):  # no DDL in the transaction
            plans = patiently(self._options.address, made, SETTINGS)

        def copy(client: Client) -> int:
            return sum(stage.copy(client, plans[target], parts) for target, parts in targets)

        rows = sum(one.count for one in staged)
        publish(self._options.address, _CALLED, LOG_NAME, what, rows, copy)
        self.abandon(staged)

    def abandon(self, staged: Sequence[Staged]) -> None:
        if_possible(lambda: self._clean(staged))

    def _clean(self, staged: Sequence[Staged]) -> None:
        with connected(self._options.address, _CALLED) as client:
            for target, parts in _targets(staged):
                clean(client, self._planned(client, target), parts)

    def _planned(self, client: Client, target: str) -> WritePlan:
        """How rows get into a target, its tables made. Raises QueueError, SchemaError."""
        made = plan(describe(client, target), self._fields, None)
        define(client, made)
        return made

    def _by_target(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows for each target, without the column that names it."""
        names = batch.column(self._place)
        rest = batch.select([place for place in range(batch.num_columns) if place != self._place])
        for name in pc.unique(names).to_pylist():
            if not name:
                raise WriteError(
                    f"column {batch.schema.names[self._place]} names no queue or topic in a row (NULL or '')"
                )
            yield name, rest.filter(pc.equal(names, name))


def _targets(staged: Sequence[Staged]) -> list[tuple[str, list[Staged]]]:
    """What was staged for each target, in the order of the tasks; targets by name, so that no two writers wait for each
    other in a circle."""
    found: dict[str, list[Staged]] = {}
    for one in staged:
        for target, part in one.parts:
            found.setdefault(target, []).append(part)
    return sorted(found.items())


def _forget(line: ReconnectingClient, attempts: Iterable[Attempt]) -> None:
    for attempt in attempts:
        attempt.forget(line)
