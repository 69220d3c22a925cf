"""What a streaming source does for Spark, and which of the two kinds the options ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from spark_connector.client.columns import Field
from spark_connector.options import StreamReadOptions
from spark_connector.streaming.micro_batch import MicroBatch

if TYPE_CHECKING:
    import pyarrow as pa


class StreamSource(Protocol):
    """The life of a source: offsets on the driver, parts read by tasks in other processes, which get a pickled copy."""

    @property
    def max_messages(self) -> int:
        """At most so many messages in a micro-batch, unless Spark asks for all there are."""

    def initial_offset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins. Called again after a restart: what it gives may differ."""

    def latest_offset(self, start: dict[str, Any], most: int | None) -> dict[str, Any]:
        """Where the next micro-batch ends; `start` if there is nothing new. All up to `start` is committed by now."""

    def planned(self, end: dict[str, Any]) -> int:
        """How many messages the micro-batch has that ends there; `latest_offset` has just said so."""

    def report(self) -> dict[str, Any] | None:
        """What query.lastProgress shows as the latest offset."""

    def prepare_available_now(self) -> None:
        """From now on nothing counts that is not there yet."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        """What each task reads, as values that are pickled."""

    def read(self, part: Any, batch: MicroBatch | None = None) -> Iterator[pa.RecordBatch]:
        """The messages of one part, the same each time: Spark repeats tasks, and micro-batches after a restart.

        `batch`: None where Spark does not tell.
        """

    def commit(self, end: dict[str, Any]) -> None:
        """The micro-batch that ended there is done. Spark calls it late, and for a quiet queue's last batch never."""

    def stop(self) -> None:
        """The query ends, if Spark says so at all."""


def source(options: StreamReadOptions, fields: tuple[Field, ...]) -> StreamSource:
    """The source that the options ask for."""
    if options.mode == "tail":
        from spark_connector.streaming.tail_source import TailSource

        return TailSource(options, fields)
    from spark_connector.streaming.queue_source import QueueSource

    return QueueSource(options, fields)
