"""The partitions of a topic, as its CREATE TABLE has them."""

from __future__ import annotations

from collections.abc import Iterable

from engine.model.topic_partitions import by_range, first_partitions
from rewriter.errors import UnsupportedSql
from rewriter.grammar.statements import Item

PARTITION_CLAUSE = by_range(first_partitions())
"""At the end of the CREATE TABLE of a topic with the option `partition`."""


def check_partitionable(items: Iterable[Item]) -> None:
    """Raises UnsupportedSql where a table with these columns and keys cannot be partitioned. A unique key without the
    id is refused by the database itself."""
    if any({"FOREIGN", "REFERENCES"}.intersection(item.words) for item in items):
        raise UnsupportedSql("partition: a table with partitions has no foreign keys; leave these out, or the option")
