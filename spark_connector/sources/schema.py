"""The columns, which Spark needs before anything is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from spark_connector.batch.conditions import check
from spark_connector.client.columns import Column, Field, ddl, fields
from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue, describe, group_queue
from spark_connector.client.reconnecting import LOADING_SECONDS, run_with_retries
from spark_connector.errors import SchemaError
from spark_connector.option_bounds import Several
from spark_connector.options import source_address
from spark_connector.sources.columns import common
from spark_connector.sources.names import find, require_names


def schema(options: Mapping[str, str]) -> str:
    """The schema of the sources in the options, as DDL. Raises OptionError, QueueError, SchemaError,
    ConnectionFailed."""
    at = source_address(options)

    def read(client: Client) -> tuple[Field, ...]:
        def described(name: str) -> Queue:
            queue = describe(client, name if at.group is None else group_queue(client, name, at.group))
            if at.where is not None:
                check(client, queue, at.where)
            return queue if not at.columns else replace(queue, columns=_chosen(queue, at.columns))

        if at.several is None:
            return fields(described(at.queue).columns, times=at.times)
        names = find(client, at.several, at.group)
        require_names(at.several, names, client)
        return common([described(name) for name in names], at.several.column, times=at.times)

    return ddl(run_with_retries(at.address, read, patience=LOADING_SECONDS))


def _chosen(queue: Queue, names: Sequence[str]) -> tuple[Column, ...]:
    """The columns that option columns names, in its order. Named columns become visible. Raises SchemaError."""
    return tuple(replace(queue.column(name), invisible=False) for name in names)


def check_columns(names: Sequence[str], schema_fields: Sequence[Field], several: Several | None) -> None:
    """Checks that a user's own schema has the columns that option columns names. Raises SchemaError."""
    source = several.column.lower() if several is not None else None
    has = sorted(field.name.lower() for field in schema_fields if field.name.lower() != source)
    if names and has != sorted(name.lower() for name in names):
        raise SchemaError(
            f"option columns names {', '.join(names)}, and .schema(...) other columns: both say what is read, give one"
        )
