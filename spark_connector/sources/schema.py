"""The columns that Spark is told of before anything is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from spark_connector.batch.conditions import check
from spark_connector.client.columns import Column, Field, ddl, fields
from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue, describe, group_queue
from spark_connector.client.reconnecting import LOADING_SECONDS, patiently
from spark_connector.errors import SchemaError
from spark_connector.option_bounds import Several
from spark_connector.options import places
from spark_connector.sources.columns import common
from spark_connector.sources.names import find, insist


def schema(options: Mapping[str, str]) -> str:
    """The DDL of what the options name. Raises OptionError, QueueError, SchemaError, ConnectionFailed."""
    at = places(options)

    def look(client: Client) -> tuple[Field, ...]:
        def described(name: str) -> Queue:
            queue = describe(client, name if at.group is None else group_queue(client, name, at.group))
            if at.where is not None:
                check(client, queue, at.where)
            return queue if not at.columns else replace(queue, columns=_chosen(queue, at.columns))

        if at.several is None:
            return fields(described(at.queue).columns, times=at.times)
        names = find(client, at.several, at.group)
        insist(at.several, names, client)
        return common([described(name) for name in names], at.several.column, times=at.times)

    return ddl(patiently(at.address, look, patience=LOADING_SECONDS))


def _chosen(queue: Queue, names: Sequence[str]) -> tuple[Column, ...]:
    """The columns that option columns names, in its order: one that is named is seen. Raises SchemaError."""
    return tuple(replace(queue.column(name), invisible=False) for name in names)


def insist_on_columns(names: Sequence[str], given: Sequence[Field], several: Several | None) -> None:
    """That a schema of the user's own has the columns that option columns names. Raises SchemaError."""
    source = several.column.lower() if several is not None else None
    has = sorted(field.name.lower() for field in given if field.name.lower() != source)
    if names and has != sorted(name.lower() for name in names):
        raise SchemaError(
            f"option columns names {', '.join(names)}, and .schema(...) other columns: both say what is read, give one"
        )
