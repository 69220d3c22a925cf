"""Lookup: the queues, topics and consumer groups that the names of a statement mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from engine.model.option_values import OptionValue, is_name
from engine.model.options import QueueOptions
from engine.model.queue import QueueCatalog, QueueName, QueueSpec, TopicSpec, derived_name, quoted
from engine.model.schedules import ScheduleName
from engine.model.sharded import having_shards, no_topics_over_shards, unfit_new
from engine.model.topics import known_groups
from rewriter.errors import IncorrectName, NoDatabaseSelected, NotAQueueTable, UnknownQueue, UnsupportedSql
from rewriter.plan import PlanContext, ShardedTable
from rewriter.plans.topics import group_of
from rewriter.text.queue_names import QueueNames
from rewriter.text.tokens import Name

_Spec = TypeVar("_Spec", QueueSpec, TopicSpec)
_Table = TypeVar("_Table")


class Lookup:
    """See the module. For one catalog."""

    def __init__(self, catalog: QueueCatalog, names: QueueNames) -> None:
        self._catalog, self._names = catalog, names

    def qualified(self, name: Name, context: PlanContext) -> QueueName:
        """The name with its database. Raises NoDatabaseSelected."""
        database = name.database or context.database
        if database is None:
            raise NoDatabaseSelected("No database selected")
        return QueueName(database, name.table)

    def _among(self, tables: Mapping[QueueName, _Table], name: Name, context: PlanContext) -> _Table | None:
        """The table of that name; None where there is none, or no database to search it in."""
        database = name.database or context.database
        resolved = None if database is None else self._names.resolve(database, name.table)
        return None if resolved is None else tables.get(resolved)

    def find(self, name: QueueName) -> QueueSpec | None:
        """The queue, or None if there is none.

        Raises:
            NotAQueueTable: the table is marked as a queue and cannot be used as one.
        """
        resolved = self._names.resolve(name.database, name.table)
        if resolved is None:
            return None
        if reason := self._catalog.rejected.get(resolved):
            raise NotAQueueTable(f"'{resolved.table}' is not a queue: {reason}")
        return self._catalog.queues.get(resolved)

    def queue(self, name: Name, context: PlanContext) -> QueueSpec:
        """The queue. Raises UnknownQueue, NotAQueueTable."""
        queue = self.qualified(name, context)
        spec = self.find(queue)
        if spec is None:
            raise unknown_queue(queue)
        return spec

    def unfit(self, name: Name, context: PlanContext) -> QueueSpec | None:
        """The queue that is not delivered until ALTER QUEUE names another column (QueueCatalog.unfit)."""
        return self._among(self._catalog.unfit, name, context)

    def defined(self, name: Name, context: PlanContext) -> QueueSpec:
        """The queue, also one that is `unfit`. Raises as `queue`."""
        return self.unfit(name, context) or self.queue(name, context)

    def settled(self, name: Name, context: PlanContext) -> QueueSpec:
        """As `receiver`, also of one that is `unfit`."""
        return self.unfit(name, context) or self.receiver(name, context)

    def queue_or_none(self, name: Name, context: PlanContext) -> QueueSpec | None:
        """The queue of an ordinary statement; None if there is none: then it goes to the database."""
        return self._among(self._catalog.queues, name, context)

    def new_queue(self, name: Name, context: PlanContext) -> QueueName:
        """The name of a queue that is to be made. Raises IncorrectName."""
        queue = self.qualified(name, context)
        if not is_name(queue.table):
            raise IncorrectName(queue.table)
        return queue

    def new_name(self, name: Name, context: PlanContext) -> QueueName:
        """The name of a topic or schedule that is to be made. Raises IncorrectName, UnsupportedSql."""
        queue = self.new_queue(name, context)
        if self._catalog.keyspaces.shards_of(queue.database):
            raise UnsupportedSql(no_topics_over_shards(queue.database))
        return queue

    def sharded_table(self, queue: QueueName, options: QueueOptions) -> ShardedTable | None:
        """What vtgate has to know of a queue that is to be made; None where its database has no shards.

        Raises:
            UnsupportedSql: it cannot be over several shards, or there is no place for its sequence.
        """
        keyspaces = self._catalog.keyspaces
        if not (shards := keyspaces.shards_of(queue.database)):
            return None
        reason = unfit_new(options, has_place=keyspaces.own is not None)
        if keyspaces.own is None or options.sharding_key is None or reason is not None:
            raise UnsupportedSql(f"{having_shards(queue.database, shards)}, and {reason}")
        sequence = QueueName(keyspaces.own, derived_name(f"{queue.database}_{queue.table}", "_seq"))
        return ShardedTable(queue, options.sharding_key, sequence)

    def check_archive(self, options: Mapping[str, OptionValue | None]) -> None:
        """Raises UnsupportedSql where these options of a queue keep what the database purges by itself."""
        wanted = any(name.lower() == "archive" and str(value) not in ("0", "None") for name, value in options.items())
        if wanted and self._catalog.keyspaces:
            raise UnsupportedSql(
                "archive: the tablets of Vitess purge tables of messages themselves, also what is not archived yet;"
                " leave the option out, and give purge_after enough time"
            )

    def copied(self, name: Name, context: PlanContext, kind: type[_Spec]) -> _Spec | None:
        """The table that ALTER makes a queue or topic of its own, though its mark is another's."""
        copy = self._among(self._catalog.copies, name, context)
        return copy if isinstance(copy, kind) else None

    def topic_or_none(self, name: Name, context: PlanContext) -> TopicSpec | None:
        """The topic; None if there is none."""
        return self._among(self._catalog.topics, name, context)

    def topic(self, name: Name, context: PlanContext) -> TopicSpec:
        """The topic. Raises UnknownQueue, and UnsupportedSql where it is a queue."""
        topic = self.topic_or_none(name, context)
        if topic is None:
            queue = self.qualified(name, context)
            if self.find(queue) is not None:
                raise UnsupportedSql(f"'{queue.table}' is a queue, not a topic")
            raise UnknownQueue(f"Topic '{queue}' doesn't exist", queue)
        return topic

    def check_is_no_topic(self, database: str, context: PlanContext) -> None:
        """FROM names a database, as in every SHOW of MySQL. Where there is no database of that name, but a topic, the
        topic was meant; an empty result would mean that it has no groups."""
        topic = self.topic_or_none(Name(None, database), context)
        if topic is None or any(name.database == database for name in (*self._catalog.topics, *self._catalog.queues)):
            return
        raise UnsupportedSql(f"FROM names a database here, and '{database}' is a topic; say ON {quoted(database)}")

    def group(self, topic: Name, group: str | None, context: PlanContext) -> QueueSpec:
        """The queue of a consumer group, also one that is `unfit`; of the only one where none is named."""
        name = self.topic(topic, context).name
        return group_of(name, group, known_groups(self._catalog, name, group))

    def receiver(self, name: Name, context: PlanContext) -> QueueSpec:
        """The queue whose messages a statement is about; of a topic, that of a consumer group."""
        if name.group is not None or self.topic_or_none(name, context) is not None:
            return self.group(name, name.group, context)
        return self.queue(name, context)

    def schedule(self, name: ScheduleName, context: PlanContext) -> ScheduleName:
        """The schedule's name with its database."""
        written = self.new_name(Name(name.database or None, name.name), context)
        return ScheduleName(written.database, written.table)


def unknown_queue(queue: QueueName, *, perhaps_alias: bool = False) -> UnknownQueue:
    """The error for a queue that does not exist. `perhaps_alias`: the name may be an alias of a table `stream`."""
    return UnknownQueue(f"Queue '{queue}' doesn't exist", queue, perhaps_alias=perhaps_alias)
