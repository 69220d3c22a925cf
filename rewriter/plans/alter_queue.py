"""ALTER QUEUE to ALTER TABLE: options are stored in the table's comment, and some of them also need an index. A table
of an earlier version gets the column that it lacks, and the copy of a queue becomes one of its own.

It is made from the catalog's reading of the table, so the executor has the catalog read afresh before it plans one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.model.errors import InvalidOption
from engine.model.groups import FindQueue, unfit_dead_letters, unfit_group_key
from engine.model.lease_token import TOKEN_COLUMN, TOKEN_TYPE
from engine.model.option_values import OptionValue
from engine.model.options import INDEX_NAMES, QueueOptions, changed_comment, check_dead_letter, parse_options, reset
from engine.model.queue import (
    QueueName,
    QueueSpec,
    TopicSpec,
    default_dead_letter,
    has_index,
    lacks_tokens,
    may_belong_to_another,
    quoted,
    unfit_order_key,
)
from engine.model.sharded import own_letters_only, unfit_change
from rewriter.errors import UnsupportedSql
from rewriter.plan import Effects, Execute
from rewriter.plans.queue_table import comment_literal, index_columns, quoted_name
from rewriter.plans.sharding import ring_changes
from rewriter.text.tokens import Name


def alter_plan(
    spec: QueueSpec, requested: Mapping[str, OptionValue | None], defaults: QueueOptions, find: FindQueue
) -> Execute:
    """The ALTER TABLE that sets these options of a queue; a value of None means the default.

    Raises:
        InvalidOption: unknown name, absurd value, or one that contradicts an option the queue has.
    """
    options = reset(spec.options, [name for name, value in requested.items() if value is None], defaults)
    values = {name: value for name, value in requested.items() if value is not None}
    stretch = "max_backoff" in requested and "max_backoff" not in values
    options = parse_options(values, options, altered=spec.options, stretch=stretch)
    _check_columns(spec, options)
    _check_shards(spec, options)
    check_dead_letter(options, spec.name.table)
    if {"dead_letter", "group_key"} & requested.keys() and (reason := unfit_dead_letters(spec.name, options, find)):
        raise InvalidOption(reason)
    changes = [
        *ring_changes(spec, options),
        *_index_changes(spec, options),
        f"COMMENT={comment_literal(changed_comment(spec.comment, options), spec.name.table)}",
    ]
    table = quoted_name(Name(spec.name.database, spec.name.table))
    dead = foreign_dead_letter(spec.name, options, find) if "dead_letter" in requested else None
    # By itself: a proxy adds it in the background, too, and to find it there is as good.
    adds = f"ALTER TABLE {table} ADD COLUMN {TOKEN_COLUMN} {TOKEN_TYPE}" if lacks_tokens(spec) else ""
    effects = Effects(catalog=frozenset((spec.name,)))
    plan = Execute(f"ALTER TABLE {table} {', '.join(changes)}", effects, adds=adds)
    return plan if dead is None else with_dead_letter_check(plan, spec.name, dead)


def own_mark_sql(spec: QueueSpec | TopicSpec) -> str:
    """The ALTER TABLE after which the mark in the comment names this table."""
    return f"ALTER TABLE {spec.name.sql} COMMENT={comment_literal(spec.comment, spec.name.table)}"


def with_dead_letter_check(plan: Execute, queue: QueueName, dead: QueueName) -> Execute:
    """A statement that names another client's queue as the dead-letter queue of this one: the engine adds messages to
    that one from then on, so the client must have the right to, also where the queue does not exist yet."""
    check = f"INSERT INTO {dead.sql} (id) SELECT 1 FROM DUAL WHERE 1 = 0"
    return replace(plan, check=check, effects=replace(plan.effects, names=(queue, dead)))


def foreign_dead_letter(queue: QueueName, options: QueueOptions, find: FindQueue) -> QueueName | None:
    """The dead-letter queue that a queue with these options has, where it may be another's: also one that is there and
    has the default name.

    Raises:
        InvalidOption: it holds the dead letters of another, or is the queue of a consumer group.
    """
    name = QueueName(queue.database, options.dead_letter or default_dead_letter(queue.table))
    dead = find(name)
    if not may_belong_to_another(queue, name, dead):
        return None
    if dead is not None and (dead.options.dead_letter_of is not None or dead.options.topic is not None):
        if options.dead_letter is None:
            return None  # the engine refuses it, and reports it
        raise InvalidOption(f"dead_letter: '{dead.name.table}' belongs to another queue; name one of your own")
    if dead is not None and dead.shards:
        raise UnsupportedSql(own_letters_only(dead))
    return name


def _check_shards(spec: QueueSpec, options: QueueOptions) -> None:
    if (reason := unfit_change(spec, options)) is not None:
        raise UnsupportedSql(reason)


def _check_columns(spec: QueueSpec, options: QueueOptions) -> None:
    for column in options.message_cols:
        if spec.column(column) is None:
            raise InvalidOption(f"message_cols: '{column}' is not a column of the queue")
    if reason := unfit_order_key(options.order_key, {c.name.lower(): c.type for c in spec.columns}):
        raise InvalidOption(reason)
    if reason := unfit_group_key(options.group_key, spec.column(options.group_key or "")):
        raise InvalidOption(reason)


def _index_changes(spec: QueueSpec, options: QueueOptions) -> list[str]:
    """Add what the options need and no index begins with; drop our indexes that are no longer used."""
    needed = dict(options.needed_indexes)
    ours = {index.name: index.columns for index in spec.indexes if index.name in INDEX_NAMES[1:]}
    stale = [name for name, columns in ours.items() if needed.get(name) != columns]
    remaining = [index for index in spec.indexes if index.name not in stale]
    drops = [f"DROP KEY {quoted(name)}" for name in stale]
    adds = [
        f"ADD KEY {quoted(name)} ({index_columns(columns)})"
        for name, columns in needed.items()
        if not has_index(remaining, columns)
    ]
    return drops + adds
