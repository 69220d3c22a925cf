"""Event groups: messages that share the value of a column, and what is to be sent when all of them are done.

A follow-up is an ordinary message, enqueued immediately and parked: its time_next is PARKED_NS, so that it is not sent.
A row of GROUPS_TABLE, in the database of the group's queue, has the group that it waits for. The transaction that
settles the last message of the group makes the follow-up due and deletes that row. The row is the group's lock: it is
locked before the messages are settled until COMMIT, so of two transactions that settle the last two messages one sees
the other's work.

A group is done when no unacked message of it is in its queue, nor in the queue's dead-letter queue: what was rejected
or has failed too often is not done until it is acked or deleted there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from engine.model.errors import NO_SUCH_TABLE
from engine.model.identity import IdKind, id_kind, is_integer
from engine.model.options import QueueOptions
from engine.model.queue import ColumnMeta, IndexInfo, QueueCatalog, QueueName, QueueSpec, default_dead_letter

GROUPS_TABLE = "queuegate_groups"
"""Which messages are parked for which group."""

GROUP_VALUE_MAX = 255
"""Characters of a group's value, and of a follow-up's id."""

GroupPlace = tuple[str, str, str, str]
"""A parked message, after which the next page begins: its group, and the database, table and id of it."""

FindQueue = Callable[[QueueName], QueueSpec | None]
"""Looks a queue up in the catalog."""

NO_SUCH_COLUMN = 1054
"""The error of a query of the dead-letter queue that names a column which it lacks. Then each unacked message in it may
be one of the group."""

_INACCESSIBLE = frozenset((1142, 1143, 1176, 1347))  # table or column denied, no table at all
_TEXT_TYPES = frozenset((15, 253, 254))  # VARCHAR, VAR_STRING, STRING


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A queue whose messages form groups: by which column, and whether that holds numbers.

    `dead` is its dead-letter queue, which may not exist; `dead_known`: the catalog has it. `indexes` are those of the
    two tables, as far as they are known.
    """

    queue: QueueName
    column: str
    integer: bool
    dead: QueueName
    dead_known: bool = False
    indexes: tuple[IndexInfo, ...] = field(default=(), compare=False)
    dead_indexes: tuple[IndexInfo, ...] = field(default=(), compare=False)

    def misses(self, errno: int) -> bool:
        """Whether an error of a query of the dead-letter queue means that it has none of the group's messages.

        It may have been created a moment ago, so it is queried even if the catalog does not have it; and without
        privileges a query of a missing table is denied.
        """
        return errno == NO_SUCH_TABLE or (not self.dead_known and errno in _INACCESSIBLE)


@dataclass(frozen=True, slots=True)
class GroupPage:
    """The groups of some parked messages that seem to be done. `last`: see GroupPlace; None: there are no more."""

    done: list[str] = field(default_factory=list)
    last: GroupPlace | None = None


def group_key(queue: QueueSpec, catalog: QueueCatalog) -> GroupKey | None:
    """How the messages of a queue are grouped; None if they are not."""
    column = None if queue.options.group_key is None else queue.column(queue.options.group_key)
    if column is None:
        return None
    name = queue.dead_letter
    dead = catalog.get(name)
    known = dead is not None and dead.column(column.name) is not None
    indexes = () if dead is None else dead.indexes
    return GroupKey(queue.name, column.name, is_integer(column), name, known, queue.indexes, indexes)


def unfit_dead_letters(queue: QueueName, options: QueueOptions, find: FindQueue) -> str | None:
    """Why a queue with these options, whose messages form groups, cannot have its dead-letter queue; None: it can."""
    name = QueueName(queue.database, options.dead_letter or default_dead_letter(queue.table))
    dead = None if options.group_key is None else find(name)
    if dead is None or options.group_key is None or dead.column(options.group_key) is not None:
        return None
    return (
        f"group_key: the dead-letter queue '{name.table}' has no column '{options.group_key}', so no group with a dead"
        " letter would be known; ALTER TABLE ... ADD COLUMN it, or name another dead_letter"
    )


def unfit_group_key(name: str | None, column: ColumnMeta | None) -> str | None:
    """Why messages cannot be grouped by the column of that name; None: they can."""
    if name is None:
        return None
    if column is None:
        return f"group_key: '{name}' is not a column of the queue"
    text = column.type in _TEXT_TYPES and id_kind(column) is IdKind.TEXT
    if not text and not is_integer(column):
        return f"group_key: '{name}' must be an integer, a VARCHAR, a CHAR, an ENUM or a SET"
    return None
