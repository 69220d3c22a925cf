"""What a queue looks like in Spark, asked of the proxy."""

from __future__ import annotations

from collections.abc import Mapping

from spark_connector.client.columns import ddl, fields
from spark_connector.client.connection import Client
from spark_connector.client.queue import describe
from spark_connector.options import place


def of_queue(options: Mapping[str, str]) -> str:
    """The DDL of the queue that the options name. Raises OptionError, QueueError, ConnectionFailed."""
    at = place(options)
    with Client(at.address) as client:
        return ddl(fields(describe(client, at.queue).columns))
