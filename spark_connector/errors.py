"""Every error the connector raises. Each has one text, so that it crosses Spark's processes unchanged."""

from __future__ import annotations


class ConnectorError(Exception):
    """An error that the user can fix; its text contains what is wrong and what to do."""


class OptionError(ConnectorError):
    """An option is unknown, missing, malformed, or cannot be combined with another."""


class SchemaError(ConnectorError):
    """A column is missing, or its type cannot be converted to the requested type."""


class QueueError(ConnectorError):
    """The queue does not exist, or cannot be used as requested."""


class ConnectionFailed(ConnectorError):
    """The proxy cannot be reached, refuses the account, or the connection was lost and a reconnect failed."""


class DataLossError(ConnectorError):
    """Messages that were to be read were deleted."""


class CheckpointError(ConnectorError):
    """A streaming query's checkpoint is not the one that the queue's database has recorded: older, copied, or without
    some of its files; or its sink skips micro-batches. Nothing is acked."""


class LeaseLostError(ConnectorError):
    """Messages of this query were delivered to another receiver, because their lease ran out."""


class WriteError(ConnectorError):
    """Rows could not be enqueued; nothing of a staged write is visible."""
