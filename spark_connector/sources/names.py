"""Which queues or topics are read: those that are listed, or those of the database whose names match a pattern."""

from __future__ import annotations

import re

from spark_connector.client.connection import Client
from spark_connector.client.queue import marked
from spark_connector.errors import QueueError
from spark_connector.option_bounds import Several

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
