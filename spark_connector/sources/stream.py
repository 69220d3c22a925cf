"""A streaming query of several queues or topics: a source for each, planned one after the other.

An offset has the offset of each. A micro-batch has what each one gives: those that gave least the last time come first,
and each may take an equal share of what is left of `maxMessagesPerTrigger`. So one with a large backlog holds none of
the others up, and takes what they do not need. Where there are more of them than messages they take turns.

With a pattern the names are looked up again every REFRESH_SECONDS. One that is new is read from its beginning.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spark_connector.client.columns import Field
from spark_connector.client.queue import describe
from spark_connector.client.reconnecting import ReconnectingClient
from spark_connector.errors import ConnectorError, DataLossError, QueueError
from spark_connector.option_bounds import Bound, Several
from spark_connector.options import StreamReadOptions
from spark_connector.sources.batch import insist_on_bounds
from spark_connector.sources.columns import SourceColumn, check
from spark_connector.sources.names import find
from spark_connector.sources.schema import insist_on_columns
from spark_connector.streaming.micro_batch import MicroBatch
from spark_connector.streaming.pace import Pace
from spark_connector.streaming.source import StreamSource, source

if TYPE_CHECKING:
    import pyarrow as pa

REFRESH_SECONDS = 10.0
"""How often a pattern is looked up, or 20 times as long as it takes, if that is more."""

_REFRESH_REST = 20
_VERSION = 1
_log = logging.getLogger("queuegate.spark")
Offsets = dict[str, dict[str, Any]]
"""The offset of each, by its name."""


@dataclass(frozen=True)
class PartOfOne:
    """What a task reads of one of them."""

    name: str
    part: Any


class SeveralSource:
    """A StreamSource; see the module. It goes to other processes as its options and fields alone."""

    def __init__(
        self,
        options: StreamReadOptions,
        several: Several,
        fields: tuple[Field, ...],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options, self._several, self._fields, self._clock = options, several, fields, clock
        self._column = SourceColumn(fields, several.column)
        self._line = ReconnectingClient(options.address)
        self._sources: dict[str, StreamSource] = {}
        self._pace = Pace()
        self._names: tuple[str, ...] | None = None
        self._refresh_at = -math.inf  # on the clock
        self._first: Offsets | None = None
        self._frozen = False  # availableNow: no new names
        self._turn = 0
        self._newest: dict[str, int] = {}  # how many messages each gave the last time
        self._given = -math.inf  # when the newest micro-batch was, on the clock

    def __reduce__(self) -> tuple[type[SeveralSource], tuple[StreamReadOptions, Several, tuple[Field, ...]]]:
        return SeveralSource, (self._options, self._several, self._fields)

    @property
    def max_messages(self) -> int:
        return self._options.max_messages

    def initial_offset(self) -> dict[str, Any]:
        if self._first is None:
            names = self._found()
            if self._several.pattern is None:
                insist_on_bounds(self._several, names)
            starting, time_ = self._options.starting, self._options.starting_time
            self._first = {name: self._begin(name, starting, time_) for name in names}
        return _json(self._first)

    def latest_offset(self, start: dict[str, Any], most: int | None) -> dict[str, Any]:
        known = _offsets(start)
        offsets = self._present(known)
        if offsets != known:
            return _json(offsets)  # an empty micro-batch: Spark logs where each begins before anything is read
        for _ in self._pace.looks(0.0 if self._frozen else self._options.poll_timeout):
            try:
                ends, count = self._ends(offsets, most)
            except ConnectorError:
                self._refresh_at = -math.inf
                if (left := self._present(known)) == known:
                    raise
                return _json(left)
            if ends != offsets and not self._may_wait(count, most):
                self._turn += 1
                self._given = self._clock()
                self._pace.found()
                return _json(ends)
        return start

    def planned(self, end: dict[str, Any]) -> int:
        return sum(self._source(name).planned(offset) for name, offset in _offsets(end).items())

    def report(self) -> dict[str, Any] | None:
        """The counts of each, under its name."""
        reports = {name: one.report() for name, one in sorted(self._sources.items())}
        return {"sources": {name: report for name, report in reports.items() if report is not None}}

    def prepare_available_now(self) -> None:
        self._found()
        self._frozen = True
        for one in self._sources.values():
            one.prepare_available_now()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        since, parts = _offsets(start), list[PartOfOne]()
        for name, offset in _offsets(end).items():
            # The first micro-batch, when it is repeated, may have what the query does not read any more.
            before = since.get(name, {**offset, "seq": 0})
            if before == offset:
                continue
            if self._is_gone(name):
                self._let_go(name)
            else:
                parts.extend(PartOfOne(name, part) for part in self._source(name).partitions(before, offset))
        return parts

    def read(self, part: PartOfOne, batch: MicroBatch | None = None) -> Iterator[pa.RecordBatch]:
        one = source(self._of(part.name), self._column.others)
        yield from self._column.added(part.name, one.read(part.part, batch))

    def commit(self, end: dict[str, Any]) -> None:
        for name, offset in _offsets(end).items():
            if name in self._sources:
                self._sources[name].commit(offset)

    def stop(self) -> None:
        for one in self._sources.values():
            one.stop()
        self._line.close()

    # --- where a micro-batch ends

    def _ends(self, offsets: Offsets, most: int | None) -> tuple[Offsets, int]:
        """Where the next micro-batch ends in each, and how many messages it has; all up to `offsets` is done."""
        ends, count, names = dict(offsets), 0, sorted(offsets)
        turn = self._turn % max(1, len(names))
        order = sorted((*names[turn:], *names[:turn]), key=lambda name: self._newest.get(name, 0))
        for place, name in enumerate(order):
            one, before = self._source(name), offsets[name]
            share = None if most is None else -(-(most - count) // (len(names) - place))
            if share == 0:
                one.commit(before)
                continue
            ends[name] = one.latest_offset(before, share)
            self._newest[name] = one.planned(ends[name]) if ends[name] != before else 0
            count += self._newest[name]
        return ends, count

    def _may_wait(self, count: int, most: int | None) -> bool:
        """Whether a micro-batch of so many messages may wait for more."""
        least = 0 if self._frozen or most is None else self._options.min_messages
        return 0 < count < least and self._clock() - self._given < self._options.max_delay

    # --- which there are

    def _present(self, offsets: Offsets) -> Offsets:
        """Their offsets: without those that are not read any more, and with those that are new. What is new to a query
        is read from its beginning, as with Kafka."""
        names = self._found()
        for name in offsets.keys() - set(names):
            if self._is_gone(name):
                self._let_go(name)
            else:
                self._source(name).commit(offsets[name])
            if (one := self._sources.pop(name, None)) is not None:
                one.stop()
        return {name: offsets[name] if name in offsets else self._begin(name, "earliest") for name in names}

    def _is_gone(self, name: str) -> bool:
        """Whether it was dropped; where names are listed, the list was changed."""
        return self._several.pattern is not None and name not in self._found()

    def _let_go(self, name: str) -> None:
        """Raises DataLossError."""
        if self._options.mode == "tail" and self._options.fail_on_data_loss:
            raise DataLossError(
                f"topic {name}, which this query reads, is gone, perhaps with messages that were not read. To go on"
                " without it: failOnDataLoss=false"
            )
        _log.warning("%s is gone: the query goes on without it", name)

    def _found(self) -> tuple[str, ...]:
        due = self._several.pattern is not None and not self._frozen and self._clock() >= self._refresh_at
        if self._names is None or due:
            began = self._clock()
            self._names = self._line.run(lambda client: find(client, self._several, self._options.group))
            ended = self._clock()
            self._refresh_at = ended + max(REFRESH_SECONDS, _REFRESH_REST * (ended - began))
        return self._names

    def _begin(self, name: str, starting: Bound, time: int | None = None) -> dict[str, Any]:
        """Where the query begins with one of them. `time`: ns, in place of `starting`."""
        self._line.run(lambda client: check(describe(client, name), self._column.name))
        bound = self._several.starting.get(name, starting)
        options = replace(self._of(name), starting=bound, starting_time=time)
        one = source(options, self._column.others)
        try:
            return one.initial_offset()
        finally:
            one.stop()

    def _source(self, name: str) -> StreamSource:
        if name not in self._sources:
            self._sources[name] = source(self._of(name), self._column.others)
            if self._frozen:
                self._sources[name].prepare_available_now()
        return self._sources[name]

    def _of(self, name: str) -> StreamReadOptions:
        """The options of one."""
        options, count = self._options, max(1, len(self._names or ()))
        size = None if options.max_bytes is None else max(1, options.max_bytes // count)
        return replace(options, queue=name, several=None, poll_timeout=0.0, max_bytes=size, min_messages=0)


def _json(offsets: Offsets) -> dict[str, Any]:
    return {"v": _VERSION, "sources": offsets}


def _offsets(json: Mapping[str, Any]) -> Offsets:
    """Reads an offset. Raises QueueError where it is of a query of one queue or topic, or of another version."""
    other = "give this query a checkpointLocation of its own"
    if not isinstance(json.get("sources"), dict):
        raise QueueError(f"the checkpoint belongs to a query of {json.get('queue')!r} alone, not of several: {other}")
    if json.get("v") != _VERSION:
        raise QueueError(f"the checkpoint has offsets of version {json.get('v')}, this is version {_VERSION}: {other}")
    return dict(json["sources"])


def stream_source(options: StreamReadOptions, fields: tuple[Field, ...]) -> StreamSource:
    """The source that the options ask for, of one or of several."""
    several = options.several
    insist_on_columns(options.columns, fields, several)
    return source(options, fields) if several is None else SeveralSource(options, several, fields)
