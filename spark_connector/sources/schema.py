"""The columns that Spark is told of before anything is read."""

from __future__ import annotations

from collections.abc import Mapping

from spark_connector.client.columns import ddl, fields
from spark_connector.client.connection import Client
from spark_connector.client.queue import describe, group_queue
from spark_connector.options import places
from spark_connector.sources.columns import common
from spark_connector.sources.names import find, insist


def schema(options: Mapping[str, str]) -> str:
    """The DDL of what the options name. Raises OptionError, QueueError, SchemaError, ConnectionFailed."""
    at = places(options)
    with Client(at.address) as client:

        def of(name: str) -> str:
            return name if at.group is None else group_queue(client, name, at.group)

        if at.several is None:
            return ddl(fields(describe(client, of(at.queue)).columns, times=at.times))
        names = find(client, at.several, at.group)
        insist(at.several, names, client)
        queues = [describe(client, of(name)) for name in names]
        return ddl(common(queues, at.several.column, times=at.times))
