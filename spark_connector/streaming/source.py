"""The interface of a streaming source, and the choice between its two kinds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from spark_connector.client.columns import Field
from spark_connector.options import StreamReadOptions
from spark_connector.streaming.offsets import MicroBatch

if TYPE_CHECKING:
    import pyarrow as pa


class StreamSource(Protocol):
    """A streaming source: offsets on the driver, parts read by tasks in other processes, which get a pickled copy."""

    @property
    def max_messages(self) -> int:
        """Maximum messages in a micro-batch, unless Spark requests all."""

    def initial_offset(self) -> dict[str, Any]:
        """The start of a query without a checkpoint. Called again after a restart: the result may differ."""

    def latest_offset(self, start: dict[str, Any], most: int | None) -> dict[str, Any]:
        """The end of the next micro-batch; `start` if there is nothing new. All up to `start` is committed."""

    def planned(self, end: dict[str, Any]) -> int:
        """The number of messages in the micro-batch that ends there; `latest_offset` has just returned `end`."""

    def report(self) -> dict[str, Any] | None:
        """The latest offset for query.lastProgress."""

    def prepare_available_now(self) -> None:
        """From now on only messages that exist now count."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        """What each task reads, as values that are pickled."""

    def read(self, part: Any, batch: MicroBatch | None = None) -> Iterator[pa.RecordBatch]:
        """The messages of one part, the same each time: Spark repeats tasks, and micro-batches after a restart.

        `batch`: None if Spark does not provide it.
        """

    def commit(self, end: dict[str, Any]) -> None:
        """The micro-batch that ended there is done. Spark calls it late, and never for the last one of an idle
        queue."""

    def stop(self) -> None:
        """The query ends; Spark does not always call it."""


def source(options: StreamReadOptions, fields: tuple[Field, ...]) -> StreamSource:
    """The source for the options."""
    if options.mode == "tail":
        from spark_connector.streaming.tail_source import TailSource

        return TailSource(options, fields)
    from spark_connector.streaming.queue_source import QueueSource

    return QueueSource(options, fields)
