"""The columns, which Spark needs before anything is read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from spark_connector.batch.read import check_condition
from spark_connector.client.columns import Column, Field, ddl, fields
from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue, describe, group_queue, marked
from spark_connector.client.reconnecting import LOADING_SECONDS, run_with_retries
from spark_connector.errors import QueueError, SchemaError
from spark_connector.option_bounds import Several
from spark_connector.options import source_address
from spark_connector.sources.columns import common


def schema(options: Mapping[str, str]) -> str:
    """The schema of the sources in the options, as DDL. Raises OptionError, QueueError, SchemaError,
    ConnectionFailed."""
    at = source_address(options)

    def read(client: Client) -> tuple[Field, ...]:
        def described(name: str) -> Queue:
            queue = describe(client, name if at.group is None else group_queue(client, name, at.group))
            if at.where is not None:
                check_condition(client, queue, at.where)
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


# Which queues or topics are read: those that are listed, or those of the database whose names match a pattern.

NAMES_MAX = 100
"""Each is planned separately, with its own connection."""


def find(client: Client, several: Several, group: str | None) -> tuple[str, ...]:
    """Their names: as listed, or the matches of a pattern, sorted.

    A pattern for topics matches only those with the consumer `group`, if one is set. A pattern for queues matches
    neither queues of consumer groups nor dead-letter queues.

    Raises QueueError if there are too many.
    """
    if several.pattern is None:
        return several.names
    fits, tables = re.compile(several.pattern).fullmatch, marked(client)
    if group is not None:
        names = {each.topic for each in tables if each.consumer_group == group and each.topic is not None}
    elif several.topics:
        names = {each.name for each in tables if each.is_topic}
    else:
        names = {each.name for each in tables if not each.is_topic and not each.is_auxiliary}
    fitting = sorted(name for name in names if fits(name))
    if len(fitting) > NAMES_MAX:
        raise QueueError(
            f"option subscribePattern, {several.pattern[:80]!r}, fits {len(fitting)} names, and a query reads at most"
            f" {NAMES_MAX}: divide them among several queries"
        )
    return tuple(fitting)


def require_names(several: Several, names: tuple[str, ...], client: Client) -> None:
    """Checks that there is at least one, because the schema is unknown otherwise. Raises QueueError."""
    if not names:
        raise QueueError(
            f"no {'topic' if several.topics else 'queue'} of database {client.address.database!r} has a name that fits"
            f" option subscribePattern, {several.pattern or ''!r}: make the first one before the query begins, or say"
            " by .schema(...) what its columns are"
        )
