"""A batch read of several queues or topics: the parts of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_connector.batch.parts import Part
from spark_connector.batch.read import BatchRead
from spark_connector.client.columns import Field
from spark_connector.client.connection import Client
from spark_connector.client.queue import describe
from spark_connector.errors import OptionError
from spark_connector.options import BatchReadOptions, Several, Span
from spark_connector.sources.columns import SourceColumn, check
from spark_connector.sources.names import find

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter


@dataclass(frozen=True)
class PartOfOne:
    """A part of one of them."""

    name: str
    part: Part


class SeveralRead:
    """The same as BatchRead, of several."""

    def __init__(self, options: BatchReadOptions, several: Several, fields: Sequence[Field]) -> None:
        self._options, self._several, self.fields = options, several, tuple(fields)
        self._column = SourceColumn(fields, several.column)
        self._reads: dict[str, BatchRead] | None = None  # found on the driver, once

    def partitions(self) -> list[PartOfOne]:
        """The parts of all, about `numPartitions` in sum. Each has a cut-off of its own."""
        return [PartOfOne(name, part) for name, read in self._all().items() for part in read.partitions()]

    def read(self, part: PartOfOne) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        read = self._all()[part.name] if self._reads is not None else self._one(part.name, 1)
        yield from self._column.added(part.name, read.read(part.part))

    def push(self, filters: Sequence[Filter]) -> Iterator[Filter]:
        """Takes the filters that the database evaluates exactly as Spark would for each; gives back the others."""
        reads = self._all().values()
        left = {id(each) for read in reads for each in read.push(filters)}
        return (each for each in filters if id(each) in left or not reads)

    def _all(self) -> Mapping[str, BatchRead]:
        if self._reads is None:
            with Client(self._options.address) as client:
                names = find(client, self._several, None)
                for name in names:
                    check(describe(client, name), self._column.name)
            insist_on_bounds(self._several, names)
            share = max(1, self._options.num_partitions // max(1, len(names)))
            self._reads = {name: self._one(name, share) for name in names}
        return self._reads

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


def insist_on_bounds(several: Several, names: Sequence[str]) -> None:
    """That bounds which are given for each are given for all, and for no other. Raises OptionError."""
    for option, bounds in (("startingOffsets", several.starting), ("endingOffsets", several.ending)):
        if not bounds:
            continue
        if missing := next((name for name in names if name not in bounds), None):
            raise OptionError(f"option {option} gives no bound for {missing}, which is read: give one for each")
        if other := next((name for name in bounds if name not in names), None):
            raise OptionError(f"option {option} gives a bound for {other!r}, which is not read")


def batch_reader(options: BatchReadOptions, fields: tuple[Field, ...]) -> BatchRead | SeveralRead:
    """The batch read that the options ask for, of one or of several."""
    several = options.several
    return BatchRead(options, fields) if several is None else SeveralRead(options, several, fields)
