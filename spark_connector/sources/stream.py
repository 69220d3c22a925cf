"""A streaming query of several queues or topics: a source for each, planned one after the other.

An offset contains the offset of each source. A micro-batch contains messages of all sources: those with the fewest in
the last micro-batch come first, and each gets an equal share of the rest of `maxMessagesPerTrigger`. So one with a
large backlog does not delay the others, and uses what they do not need. If there are more sources than messages, they
take turns.

With a pattern the names are looked up again every REFRESH_SECONDS. A new source is read from its beginning.
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
from spark_connector.sources.batch import check_bounds
from spark_connector.sources.columns import SourceColumn, check
from spark_connector.sources.schema import check_columns, find
from spark_connector.streaming.offsets import MicroBatch
from spark_connector.streaming.pace import Pace
from spark_connector.streaming.source import StreamSource, source

if TYPE_CHECKING:
    import pyarrow as pa

REFRESH_SECONDS = 10.0
"""The interval of look-ups for a pattern, or 20 times as long as one takes, if that is more."""

_REFRESH_REST = 20
_VERSION = 1
_log = logging.getLogger("queuegate.spark")
Offsets = dict[str, dict[str, Any]]
"""The offset of each, by its name."""


@dataclass(frozen=True)
class NamedPart:
    """What a task reads of one source."""

    name: str
    part: Any


class SeveralSource:
    """A StreamSource; see the module. It is pickled as its options and fields only."""

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
        self._connection = ReconnectingClient(options.address)
        self._sources: dict[str, StreamSource] = {}
        self._pace = Pace()
        self._names: tuple[str, ...] | None = None
        self._refresh_at = -math.inf  # on the clock
        self._first: Offsets | None = None
        self._frozen = False  # availableNow: no new names
        self._turn = 0
        self._newest: dict[str, int] = {}  # how many messages of each were in the last micro-batch
        self._last_batch_at = -math.inf  # when the newest micro-batch was, on the clock

    def __reduce__(self) -> tuple[type[SeveralSource], tuple[StreamReadOptions, Several, tuple[Field, ...]]]:
        return SeveralSource, (self._options, self._several, self._fields)

    @property
    def max_messages(self) -> int:
        return self._options.max_messages

    def initial_offset(self) -> dict[str, Any]:
        if self._first is None:
            names = self._current_names()
            if self._several.pattern is None:
                check_bounds(self._several, names)
            starting, time_ = self._options.starting, self._options.starting_time
            self._first = {name: self._begin(name, starting, time_) for name in names}
        return _json(self._first)

    def latest_offset(self, start: dict[str, Any], most: int | None) -> dict[str, Any]:
        offsets_before = _offsets(start)
        offsets = self._present(offsets_before)
        if offsets != offsets_before:
            return _json(offsets)  # an empty micro-batch: Spark logs the start of each source before anything is read
        for _ in self._pace.polls(0.0 if self._frozen else self._options.poll_timeout):
            try:
                ends, count = self._ends(offsets, most)
            except ConnectorError:
                self._refresh_at = -math.inf
                if (left := self._present(offsets_before)) == offsets_before:
                    raise
                return _json(left)
            if ends != offsets and not self._may_wait(count, most):
                self._turn += 1
                self._last_batch_at = self._clock()
                self._pace.on_messages()
                return _json(ends)
        return start

    def planned(self, end: dict[str, Any]) -> int:
        return sum(self._source(name).planned(offset) for name, offset in _offsets(end).items())

    def report(self) -> dict[str, Any] | None:
        """The counts of each, under its name."""
        reports = {name: one.report() for name, one in sorted(self._sources.items())}
        return {"sources": {name: report for name, report in reports.items() if report is not None}}

    def prepare_available_now(self) -> None:
        self._current_names()
        self._frozen = True
        for one in self._sources.values():
            one.prepare_available_now()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        since, parts = _offsets(start), list[NamedPart]()
        for name, offset in _offsets(end).items():
            # A repeated first micro-batch may contain a source that the query no longer reads.
            before = since.get(name, {**offset, "seq": 0})
            if before == offset:
                continue
            if self._is_dropped(name):
                self._report_dropped(name)
            else:
                parts.extend(NamedPart(name, part) for part in self._source(name).partitions(before, offset))
        return parts

    def read(self, part: NamedPart, batch: MicroBatch | None = None) -> Iterator[pa.RecordBatch]:
        one = source(self._options_of(part.name), self._column.others)
        yield from self._column.added(part.name, one.read(part.part, batch))

    def commit(self, end: dict[str, Any]) -> None:
        for name, offset in _offsets(end).items():
            if name in self._sources:
                self._sources[name].commit(offset)

    def stop(self) -> None:
        for one in self._sources.values():
            one.stop()
        self._connection.close()

    # --- where a micro-batch ends

    def _ends(self, offsets: Offsets, most: int | None) -> tuple[Offsets, int]:
        """The end of the next micro-batch in each source, and its number of messages; all up to `offsets` is done."""
        ends, count, names = dict(offsets), 0, sorted(offsets)
        turn = self._turn % max(1, len(names))
        order = sorted((*names[turn:], *names[:turn]), key=lambda name: self._newest.get(name, 0))
        for index, name in enumerate(order):
            one, before = self._source(name), offsets[name]
            share = None if most is None else -(-(most - count) // (len(names) - index))
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
        return 0 < count < least and self._clock() - self._last_batch_at < self._options.max_delay

    # --- the sources

    def _present(self, offsets: Offsets) -> Offsets:
        """The offsets of the current sources: without removed ones, and with new ones. A new source is read from its
        beginning, as with Kafka."""
        names = self._current_names()
        for name in offsets.keys() - set(names):
            if self._is_dropped(name):
                self._report_dropped(name)
            else:
                self._source(name).commit(offsets[name])
            if (one := self._sources.pop(name, None)) is not None:
                one.stop()
        return {name: offsets[name] if name in offsets else self._begin(name, "earliest") for name in names}

    def _is_dropped(self, name: str) -> bool:
        """Whether it was dropped. (False for listed names: there the list was changed.)"""
        return self._several.pattern is not None and name not in self._current_names()

    def _report_dropped(self, name: str) -> None:
        """Raises DataLossError."""
        if self._options.mode == "tail" and self._options.fail_on_data_loss:
            raise DataLossError(
                f"topic {name}, which this query reads, is gone, perhaps with messages that were not read. To go on"
                " without it: failOnDataLoss=false"
            )
        _log.warning("%s is gone: the query goes on without it", name)

    def _current_names(self) -> tuple[str, ...]:
        due = self._several.pattern is not None and not self._frozen and self._clock() >= self._refresh_at
        if self._names is None or due:
            began = self._clock()
            self._names = self._connection.run(lambda client: find(client, self._several, self._options.group))
            ended = self._clock()
            self._refresh_at = ended + max(REFRESH_SECONDS, _REFRESH_REST * (ended - began))
        return self._names

    def _begin(self, name: str, starting: Bound, time: int | None = None) -> dict[str, Any]:
        """The start offset of one source. `time`: ns, instead of `starting`."""
        self._connection.run(lambda client: check(describe(client, name), self._column.name))
        bound = self._several.starting.get(name, starting)
        options = replace(self._options_of(name), starting=bound, starting_time=time)
        one = source(options, self._column.others)
        try:
            return one.initial_offset()
        finally:
            one.stop()

    def _source(self, name: str) -> StreamSource:
        if name not in self._sources:
            self._sources[name] = source(self._options_of(name), self._column.others)
            if self._frozen:
                self._sources[name].prepare_available_now()
        return self._sources[name]

    def _options_of(self, name: str) -> StreamReadOptions:
        """The options of one source."""
        options, count = self._options, max(1, len(self._names or ()))
        size = None if options.max_bytes is None else max(1, options.max_bytes // count)
        return replace(options, queue=name, several=None, poll_timeout=0.0, max_bytes=size, min_messages=0)


def _json(offsets: Offsets) -> dict[str, Any]:
    return {"v": _VERSION, "sources": offsets}


def _offsets(json: Mapping[str, Any]) -> Offsets:
    """Reads an offset. Raises QueueError if it is from a query of one queue or topic, or from another version."""
    other = "give this query a checkpointLocation of its own"
    if not isinstance(json.get("sources"), dict):
        raise QueueError(f"the checkpoint belongs to a query of {json.get('queue')!r} alone, not of several: {other}")
    if json.get("v") != _VERSION:
        raise QueueError(f"the checkpoint has offsets of version {json.get('v')}, this is version {_VERSION}: {other}")
    return dict(json["sources"])


def stream_source(options: StreamReadOptions, fields: tuple[Field, ...]) -> StreamSource:
    """The source for the options, of one queue or topic or of several."""
    several = options.several
    check_columns(options.columns, fields, several)
    return source(options, fields) if several is None else SeveralSource(options, several, fields)
