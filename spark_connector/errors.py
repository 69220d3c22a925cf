"""Every error the connector raises. Each has one text, so that it crosses Spark's processes unchanged."""

from __future__ import annotations


class ConnectorError(Exception):
    """Something a user of the connector can act upon; its text says what was wrong and what to do."""


class OptionError(ConnectorError):
    """An option is unknown, missing, malformed, or does not go together with another."""


class SchemaError(ConnectorError):
    """A column is missing, or its type cannot be had as the type asked for."""


class QueueError(ConnectorError):
    """There is no such queue, or it cannot be used as asked."""


class ConnectionFailed(ConnectorError):
    """The proxy cannot be reached, refuses the account, or the connection was lost and not to be had again in time."""


class DataLossError(ConnectorError):
    """Messages that were to be read are not there any more."""


class CheckpointError(ConnectorError):
    """A streaming query's checkpoint is not the one that its queue knows: older, copied, or without some of its files;
    or its sink passes over what it is given. Nothing is acked."""


class LeaseLostError(ConnectorError):
    """Messages of this query were handed to somebody else, because their lease ran out."""


class WriteError(ConnectorError):
    """Rows could not be enqueued; nothing of a staged write is visible."""
