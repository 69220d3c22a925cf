"""Topics with the option `sequence`: the column of their numbers, who may have it, and who may write it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from engine.model.option_values import OptionValue
from engine.model.queue import SEQUENCE_COLUMN, QueueName, TopicSpec, quoted
from engine.model.sequence import Sequencing
from engine.model.topic_options import TopicOptions
from rewriter.errors import InsertOfDump, UnsupportedSql
from rewriter.grammar.statements import UpdateQueue
from rewriter.plan import Effects, Passthrough

COLUMN = f"{SEQUENCE_COLUMN} BIGINT NULL INVISIBLE"
KEY = f"UNIQUE KEY {SEQUENCE_COLUMN} ({SEQUENCE_COLUMN})"
"""How the column and its key are defined, in MySQL and MariaDB."""

SETS = re.compile(rf"\b{SEQUENCE_COLUMN}[`\"]?\s*:?=", re.IGNORECASE | re.ASCII)
"""Where a text may set the column."""

DISORDER_MAX = 100_000
"""By how many offsets a message may follow younger ones, in a replay that begins at a time."""


def with_sequence(
    options: TopicOptions, requested: Mapping[str, OptionValue | None], sequencing: Sequencing
) -> TopicOptions:
    """The options of a new topic: on a cluster it has numbers, unless WITH specifies something else."""
    explicit = "sequence" in map(str.lower, requested)
    return replace(options, sequence=True) if sequencing is Sequencing.NEEDED and not explicit else options


def check_sequence(options: TopicOptions, sequencing: Sequencing) -> None:
    """Raises UnsupportedSql where a topic with these options cannot be."""
    if options.sequence and sequencing.refusal is not None:
        raise UnsupportedSql(sequencing.refusal)
    if options.sequence and options.partition_ns is not None:
        reason = "the key on the numbers of its messages is unique, so it cannot be partitioned by its ids"
        if sequencing is Sequencing.NEEDED:
            raise UnsupportedSql(f"partition: a topic has no partitions on a Galera cluster: {reason}")
        raise UnsupportedSql(f"partition: {reason}; leave one of sequence and partition out")


def sequence_changes(topic: TopicSpec, options: TopicOptions, groups: Iterable[str]) -> list[str]:
    """What ALTER TABLE has to change so that a topic has what these options take. `groups`: the names of its groups.

    Raises:
        UnsupportedSql: it has groups, whose offsets would mean something else.
    """
    has_column = topic.column(SEQUENCE_COLUMN) is not None
    keys = [index.name for index in topic.indexes if index.unique and index.columns == (SEQUENCE_COLUMN,)]
    names = ", ".join(sorted(groups))
    if names and options.sequence != topic.options.sequence:
        raise UnsupportedSql(
            "sequence: with it the offsets of a topic are numbers, and without it ids, so its consumer groups have to"
            f" be made anew; DROP GROUP them first: {names}"
        )
    if options.sequence:
        return [*([] if has_column else [f"ADD COLUMN {COLUMN}"]), *([] if keys else [f"ADD {KEY}"])]
    if not topic.options.sequence:
        return []
    return [*(f"DROP KEY {quoted(name)}" for name in keys), *([f"DROP COLUMN {SEQUENCE_COLUMN}"] if has_column else [])]


def update_of_topic(statement: UpdateQueue, topic: QueueName) -> Passthrough:
    """UPDATE of a topic, which goes to the database unchanged; the numbers cannot be set.

    Raises:
        UnsupportedSql: it sets a number.
    """
    if any(assignment.column.lower() == SEQUENCE_COLUMN for assignment in statement.assignments):
        raise explicit_number_error(topic)
    return Passthrough(Effects(touched=frozenset((topic,)), uncertain=frozenset((topic,))))


def explicit_number_error(of: QueueName) -> InsertOfDump:
    """Why an INSERT or UPDATE of a topic is refused."""
    return InsertOfDump(f"the proxy gives a topic's messages their numbers; leave {SEQUENCE_COLUMN} out: '{of.table}'")
