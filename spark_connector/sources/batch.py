"""A batch read of several queues or topics: the parts of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_connector.batch.parts import Part
from spark_connector.batch.read import BatchRead
from spark_connector.client.columns import Field
from spark_connector.client.connection import Client
from spark_connector.client.queue import describe
from spark_connector.client.reconnecting import run_with_retries
from spark_connector.errors import ConnectorError, OptionError
from spark_connector.option_bounds import Several, Span
from spark_connector.options import BatchReadOptions
from spark_connector.sources.columns import SourceColumn, check
from spark_connector.sources.schema import check_columns, find

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class NamedPart:
    """A part of one of them."""

    name: str
    part: Part


@dataclass(frozen=True)
class NewNamesPart:
    """All sources that a pattern finds and that did not exist when the read was planned."""

    planned_names: tuple[str, ...]


class SeveralRead:
    """The same as BatchRead, for several sources."""

    def __init__(self, options: BatchReadOptions, several: Several, fields: Sequence[Field]) -> None:
        self._options, self._several, self.fields = options, several, tuple(fields)
        self._column = SourceColumn(fields, several.column)

    def partitions(self) -> list[NamedPart | NewNamesPart]:
        """The parts of all sources, about `numPartitions` in total."""
        names = self._current_names()
        check_bounds(self._several, names)
        share = max(1, self._options.num_partitions // max(1, len(names)))
        parts: list[NamedPart | NewNamesPart] = [
            NamedPart(name, part) for name in names for part in self._one(name, share).partitions()
        ]
        return parts if self._several.pattern is None else [*parts, NewNamesPart(names)]

    def read(self, part: NamedPart | NewNamesPart) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        if isinstance(part, NamedPart):
            yield from self._read(part)
            return
        for name in self._current_names():
            if name not in part.planned_names:
                for one in self._one(name, 1).partitions():
                    yield from self._read(NamedPart(name, one))

    def _read(self, part: NamedPart) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._column.added(part.name, self._one(part.name, 1).read(part.part))
        except ConnectorError:
            if self._several.pattern is None or part.name in self._current_names():
                raise
            # It was dropped after the read was planned; a pattern includes only existing ones.

    def _current_names(self) -> tuple[str, ...]:
        def read(client: Client) -> tuple[str, ...]:
            names = find(client, self._several, None)
            for name in names:
                check(describe(client, name), self._column.name)
            return names

        return run_with_retries(self._options.address, read)

    def _one(self, name: str, parts: int) -> BatchRead:
        options = replace(self._options, queue=name, several=None, num_partitions=parts, span=self._span(name))
        return BatchRead(options, self._column.others)

    def _span(self, name: str) -> Span | None:
        span, several = self._options.span, self._several
        if span is None:
            return None
        starting, ending = several.starting.get(name, span.starting), several.ending.get(name, span.ending)
        if starting == "latest" or ending == "earliest":
            raise OptionError(
                f"options startingOffsets and endingOffsets leave nothing of {name}: it begins at its end"
            )
        if isinstance(starting, int) and isinstance(ending, int) and starting > ending:
            raise OptionError(f"option endingOffsets is {ending} for {name}, before startingOffsets, {starting}")
        return replace(span, starting=starting, ending=ending)


def check_bounds(several: Several, names: Sequence[str]) -> None:
    """Checks that bounds per name exist for all sources, and for no other name. Raises OptionError."""
    for option, bounds in (("startingOffsets", several.starting), ("endingOffsets", several.ending)):
        if not bounds:
            continue
        if missing := next((name for name in names if name not in bounds), None):
            raise OptionError(f"option {option} gives no bound for {missing}, which is read: give one for each")
        if other := next((name for name in bounds if name not in names), None):
            raise OptionError(f"option {option} gives a bound for {other!r}, which is not read")


def batch_reader(options: BatchReadOptions, fields: tuple[Field, ...]) -> BatchRead | SeveralRead:
    """The batch read for the options, of one source or several."""
    several = options.several
    check_columns(options.columns, fields, several)
    return BatchRead(options, fields) if several is None else SeveralRead(options, several, fields)
