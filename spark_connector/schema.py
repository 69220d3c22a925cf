"""What a queue looks like in Spark, asked of the proxy."""

from __future__ import annotations

from collections.abc import Mapping

from spark_connector.client import Client
from spark_connector.columns import ddl, fields
from spark_connector.options import place
from spark_connector.queue import describe


def of_queue(options: Mapping[str, str]) -> str:
    """The DDL of the queue that the options name. Raises OptionError, QueueError, ConnectionFailed."""
    at = place(options)
    with Client(at.address) as client:
        return ddl(fields(describe(client, at.queue).columns))
