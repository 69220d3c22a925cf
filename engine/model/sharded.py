"""What a queue over several shards of a Vitess has to be, and what it cannot have. Pure.

Each shard is a database server of its own. What one statement decides for the whole queue elsewhere (a limit, an order,
a group that is done) would be decided for each shard by itself, so it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.model.identity import is_integer, numbers_itself
from engine.model.key_range import VINDEX
from engine.model.options import QueueOptions
from engine.model.queue import QueueSpec


@dataclass(frozen=True, slots=True)
class Vindex:
    """By what a vtgate places the rows of a table: its columns, as text, and the kind of the function."""

    columns: str
    kind: str

    @classmethod
    def of(cls, rows: Sequence[Sequence[object]]) -> Vindex | None:
        """The primary one, from the rows of SHOW VSCHEMA VINDEXES; None where there is none."""
        return cls(str(rows[0][0]).lower(), str(rows[0][2]).lower()) if rows else None

    def __str__(self) -> str:
        return f"{self.kind}({self.columns})"


def having_shards(keyspace: str, shards: Sequence[str]) -> str:
    """The beginning of what is wrong with a queue for this reason."""
    return f"the keyspace '{keyspace}' has {len(shards)} shards"


def unfit_for_shards(queue: QueueSpec, vindex: Vindex | None) -> str | None:
    """Why the table of a sharded keyspace cannot be a queue; None where it can."""
    where, id_ = having_shards(queue.name.database, queue.shards), queue.column("id")
    if not queue.has_ring:
        return f"{where}, and a queue in it needs a SHARDING KEY"
    wanted = Vindex((queue.options.sharding_key or "").lower(), VINDEX)
    if vindex != wanted:  # a verb would be sent to the shard that the key names, and not to that of the message
        return f"{where}, and its rows are placed by {vindex or 'no vindex'}: a queue in it needs {wanted}"
    if id_ is None or not is_integer(id_):
        return f"{where}, and the id of a queue in it must be an integer"
    if numbers_itself(queue):
        return f"{where}, so ids by AUTO_INCREMENT would not be unique in it: they must come from a sequence"
    reason = unfit_options(queue.options)
    return None if reason is None else f"{where}, and {reason}"


def unfit_options(options: QueueOptions) -> str | None:
    """Which of these options a queue in a sharded keyspace cannot have; None where it can have all."""
    unfit = {
        "order_key": options.order_key is not None,
        "max_rate": options.max_rate is not None,
        "max_concurrency": options.max_concurrency is not None,
        "group_key": options.group_key is not None,
        "archive": options.archive,
        "dead_letter": options.dead_letter is not None,
    }
    names = [name for name, is_set in unfit.items() if is_set]
    return f"a queue in it cannot have {', '.join(names)}" if names else None


def unfit_new(options: QueueOptions, *, has_place: bool) -> str | None:
    """Why a queue with these options cannot be made over shards; None where it can. `has_place`: for its sequence."""
    if options.sharding_key is None:
        return "a queue in it needs a SHARDING KEY (column)"
    if (reason := unfit_options(options)) is not None or has_place:
        return reason
    return (
        "the ids of its queues come from a sequence in a keyspace that is not sharded: name one in the proxy's backend"
        " URL"
    )


def unfit_change(queue: QueueSpec, options: QueueOptions) -> str | None:
    """Why a queue cannot have these options by ALTER QUEUE, where it is over shards."""
    if not queue.shards:
        return None
    same = (options.sharding_key or "").lower() == (queue.options.sharding_key or "").lower()
    stays = "the sharding key of a queue in it stays: its messages are placed by it"
    reason = unfit_options(options) if same else stays
    return None if reason is None else f"{having_shards(queue.name.database, queue.shards)}, and {reason}"


def own_letters_only(dead: QueueSpec) -> str:
    """Why a queue that is there does not become the dead-letter queue of another: a dead letter keeps its id."""
    return (
        f"{having_shards(dead.name.database, dead.shards)}, and '{dead.name.table}' has ids of a sequence of its own,"
        " so a dead letter of another queue could have the id of a message: give the new queue another name"
    )


def once_in_each_shard(queue: QueueSpec) -> str:
    """Why a statement that ends or changes messages over shards has no LIMIT and no subquery."""
    return (
        f"'{queue.name.table}' is over {len(queue.shards)} shards, and each of them would carry out LIMIT or a subquery"
        " by itself: read the ids first, and name them, as in WHERE id IN (...)"
    )


def gives_ids_over_shards(queue: QueueSpec) -> bool:
    """Whether the ids of its messages come from a sequence; dead letters keep theirs."""
    return bool(queue.shards) and queue.options.dead_letter_of is None


def no_id_of_choice(queue: QueueSpec) -> str:
    """Why an INSERT does not give the id of a message over shards: no shard knows the ids of the others."""
    return (
        f"'{queue.name.table}' is over {len(queue.shards)} shards, and an id that is given could be that of a message"
        " in another shard: leave id out, and its sequence gives one; a number of your own needs a column of its own"
    )


def no_topics_over_shards(keyspace: str) -> str:
    """Why a keyspace has no topics, event groups or schedules: its offsets would be a shard's own."""
    return f"the keyspace '{keyspace}' is sharded, and topics, event groups and schedules need one that is not"
