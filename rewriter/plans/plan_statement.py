"""From a statement's node to its plan: names are looked up in the catalog, then a plan is built for its kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from engine.model.errors import InvalidOption
from engine.model.groups import group_key, unfit_dead_letters
from engine.model.option_values import OptionValue
from engine.model.options import QueueOptions, check_dead_letter, parse_options
from engine.model.pins import Pins
from engine.model.queue import SEQUENCE_COLUMN, QueueCatalog, QueueName, QueueSpec, TopicSpec
from engine.model.sharded import once_in_each_shard
from engine.model.topics import GroupName, known_groups, unread_groups
from rewriter.errors import GroupExists, UnsupportedSql
from rewriter.grammar.due import has_due
from rewriter.grammar.statements import (
    Ack,
    AfterGroup,
    AlterGroup,
    AlterQueue,
    AlterTopic,
    CreateGroup,
    CreateQueue,
    CreateTopic,
    DeleteQueue,
    DropGroup,
    DropQueue,
    DropTopic,
    ExplainMessages,
    InsertQueue,
    QueueFunction,
    RedriveQueue,
    Retry,
    SeekGroup,
    SelectStream,
    Settle,
    Statement,
    TraceMessage,
    TruncateQueue,
    Unbound,
    UpdateQueue,
)
from rewriter.plan import (
    AlterSchedule,
    CreateSchedule,
    DropSchedule,
    Effects,
    EndInGroup,
    Execute,
    ExecuteCounting,
    Kill,
    NoOperation,
    Passthrough,
    Plan,
    PlanContext,
    ReadSystem,
    Rebind,
    Redrive,
    RunSchedule,
    SeekConsumerGroup,
    ShardedTable,
    Show,
    ShowSystem,
    UseDatabase,
)
from rewriter.plans.ack import ack_as_update, ends_messages, expand_numbers, update_plan
from rewriter.plans.alter_queue import alter_plan, foreign_dead_letter, with_dead_letter_check
from rewriter.plans.event_groups import ack_in_group, delete_in_group, insert_after_group, update_in_group
from rewriter.plans.explain_delivery import explain_plan, offset_in, trace_in_queue, trace_plan
from rewriter.plans.explicit_ids import check_explicit_ids
from rewriter.plans.insert import insert_plan
from rewriter.plans.lookup import Lookup, unknown_queue
from rewriter.plans.nack_release_renew import retry_as_update, settle_as_update
from rewriter.plans.queue_table import create_table
from rewriter.plans.redrive import redrive_plan, source_of
from rewriter.plans.schedules import check_accepts_inserts, check_place
from rewriter.plans.sequenced_topics import explicit_number_error, update_of_topic
from rewriter.plans.subscribe import subscribe
from rewriter.plans.topics import (
    alter_topic,
    check_group_options,
    check_not_fed,
    check_queue_options,
    create_topic,
    explicit_id_error,
    filter_check,
    group_of,
    insert_into_topic,
    plan_group,
    start_at,
    stream_of_topic,
)
from rewriter.scan.named_ids import ending
from rewriter.text.queue_names import QueueNames
from rewriter.text.tokens import Name, Token, tokenize
from rewriter.views import Scope


class PlanBuilder:
    """Plans statements against one catalog."""

    def __init__(self, catalog: QueueCatalog, names: QueueNames, defaults: QueueOptions) -> None:
        self._catalog = catalog
        self._lookup = Lookup(catalog, names)
        self._defaults = defaults

    def plan(self, statement: Statement, context: PlanContext) -> Plan:
        """The plan; UPDATE of what is no queue, and `FROM stream alias`, are passed through without effects."""
        match statement:
            case SelectStream():
                return self._stream(statement, context)
            case Ack():
                return self._ack(statement, context)
            case Settle():
                spec = self._lookup.settled(statement.name, context)
                return at_shards(settle_as_update(statement, spec, context.now_sql), spec)
            case Retry():
                spec = self._lookup.settled(statement.name, context)
                return at_shards(retry_as_update(statement, spec, context.now_sql), spec)
            case RedriveQueue():
                return self._redrive(statement, context)
            case QueueFunction(settles, column):
                return _counting(self._lookup.settled(settles.name, context).name, self.plan(settles, context), column)
            case Unbound(sql, parameters, column):
                return Rebind(sql, parameters, column)
            case UpdateQueue() | DeleteQueue():
                return self._change(statement, context)
            case CreateSchedule():
                return self._create_schedule(statement, context)
            case AlterSchedule(name) | DropSchedule(name) | RunSchedule(name):
                return replace(statement, name=self._lookup.schedule(name, context))
            case InsertQueue(group=AfterGroup()):
                return self._insert_after_group(statement, context)
            case InsertQueue():
                return self._insert(statement, context)
            case CreateQueue():
                return self._create(statement, context)
            case AlterQueue(name, options):
                copy = self._lookup.copied(name, context, QueueSpec)
                return self._alter(copy or self._lookup.defined(name, context), options)
            case DropQueue():
                return self._drop(statement, context)
            case TruncateQueue(name):
                return _truncate(self._lookup.defined(name, context))
            case CreateTopic(name):
                topic = self._lookup.new_name(name, context)
                return create_topic(statement, topic, context)
            case AlterTopic(name, topic_options):
                log = self._lookup.copied(name, context, TopicSpec) or self._lookup.topic(name, context)
                groups = map(str, (*self._catalog.groups_of(log.name), *unread_groups(self._catalog, log.name)))
                return alter_topic(log, topic_options, groups, context.sequencing)
            case DropTopic():
                return self._drop_topic(statement, context)
            case CreateGroup():
                return self._create_group(statement, context)
            case AlterGroup(name, group, options):
                return self._alter(self._lookup.group(name, group, context), options)
            case SeekGroup(name, group, beginning):
                spec = self._lookup.group(name, group, context)
                self._lookup.find(spec.name)  # it is refused where it is unfit
                return SeekConsumerGroup(spec.name, *start_at(beginning), _named(spec))
            case DropGroup():
                return self._drop_group(statement, context)
            case Show():
                return self._show(statement, context)
            case ReadSystem() | ShowSystem() | Kill() | UseDatabase():
                return statement
            case ExplainMessages(name):
                return explain_plan(statement, self._lookup.receiver(name, context), context.now_sql)
            case TraceMessage(name, id_):
                return self._trace(name, id_, context)
        assert_never(statement)

    def check_unread_insert(self, sql: str, queues: Iterable[QueueName]) -> None:
        """For an INSERT in a form that the grammar does not parse, and that the scanner has stopped.

        Raises:
            UnsupportedSql: it has DELAY or AT; its target is a topic, whose ids or numbers it sets, or the queue of a
                consumer group.
        """
        for name in queues:
            if has_due(sql):
                raise UnsupportedSql(
                    "DELAY and AT follow INSERT INTO q (columns) VALUES (...), or INSERT INTO q SET column = value; "
                    "not INSERT ... SELECT, nor an INSERT without a list of columns"
                )
            if name in self._catalog.topics:
                raise explicit_number_error(name) if SEQUENCE_COLUMN in sql.lower() else explicit_id_error(name)
            if (spec := self._catalog.get(name)) is not None:
                check_not_fed(spec)
                check_explicit_ids(_encoded(sql), spec, strict=False)

    def _redrive(self, statement: RedriveQueue, context: PlanContext) -> Plan:
        """REDRIVE of a dead-letter queue; of a topic, that of a consumer group."""
        name = statement.name
        dead: QueueSpec | None
        if name.group is None and self._lookup.topic_or_none(name, context) is None:
            dead = self._lookup.queue(name, context)
        else:
            group = self._lookup.group(name, name.group, context)
            dead = self._lookup.find(group.dead_letter)
            if dead is None or dead.options.topic is not None:  # it is made with the first dead letter
                return NoOperation(1146, f"Consumer group '{group.options.consumer_group}' has no dead letters")
        return at_shards(redrive_plan(statement, dead, source_of(dead, self._catalog), context.now_sql), dead)

    # --- plans that need the catalog

    def _create_schedule(self, statement: CreateSchedule, context: PlanContext) -> Plan:
        written = Name(statement.queue.database or None, statement.queue.table)
        target = self._lookup.topic_or_none(written, context) or self._lookup.queue(written, context)
        check_accepts_inserts(target)
        database = statement.name.database
        name = self._lookup.schedule(replace(statement.name, database=database or target.name.database), context)
        check_place(name, target.name, database or None)
        return replace(statement, name=name, queue=target.name)

    def _show(self, show: Show, context: PlanContext) -> Show:
        name = Name(show.database, show.name or "")
        match show.view.scope:
            case Scope.QUEUE:
                queue = self._lookup.defined(name, context).name
                return replace(show, database=queue.database, name=queue.table)
            case Scope.SCHEDULE:
                return replace(show, database=self._lookup.new_name(name, context).database)
            case Scope.TOPIC if show.name is not None:
                topic = self._lookup.topic(name, context).name
                return replace(show, database=topic.database, name=topic.table)
            case Scope.TOPIC if show.database is not None:
                self._lookup.check_is_no_topic(show.database, context)
            case Scope.SERVER:
                return show
        return replace(show, database=show.database or context.database)

    def _insert(self, statement: InsertQueue, context: PlanContext) -> Plan:
        """INSERT; where there is no queue of that name it goes to the database."""
        topic = self._lookup.topic_or_none(statement.name, context)
        if topic is not None:
            return insert_into_topic(statement, topic, context.now_sql)
        spec = self._lookup.queue_or_none(statement.name, context)
        if spec is None:
            return Passthrough()
        check_not_fed(spec)
        check_explicit_ids(_encoded(statement.sql), spec, strict=False)
        return insert_plan(statement, spec, context.now_sql)

    def _create_group(self, statement: CreateGroup, context: PlanContext) -> Plan:
        topic = self._lookup.topic(statement.topic, context)
        known = map(str.lower, known_groups(self._catalog, topic.name, statement.group))
        if statement.group.lower() in known:
            text = f"Consumer group '{statement.group}' already exists"
            if statement.if_not_exists:
                return NoOperation(1050, text, GroupName(topic.name, statement.group))
            raise GroupExists(text)
        return plan_group(statement, topic, self._defaults, self._catalog)

    def _alter(self, spec: QueueSpec, options: Mapping[str, OptionValue | None]) -> Plan:
        if spec.options.topic is None:
            self._lookup.check_archive(options)
            check_queue_options(options)
            return alter_plan(spec, options, self._defaults, self._lookup.find)
        check_group_options(options)
        topic = self._catalog.topics.get(QueueName(spec.name.database, spec.options.topic))
        plan = alter_plan(spec, options, self._defaults, self._lookup.find)
        check = "" if topic is None else filter_check(topic, options.get("filter"))
        return replace(plan, check=check, manages=_named(spec))

    def _drop_group(self, statement: DropGroup, context: PlanContext) -> Plan:
        known = self._lookup.topic_or_none(statement.topic, context)
        groups = {} if known is None else known_groups(self._catalog, known.name, statement.group)
        if statement.if_exists and statement.group.lower() not in map(str.lower, groups):
            manages = None if known is None else GroupName(known.name, statement.group)
            return NoOperation(1051, f"Unknown consumer group '{statement.group}'", manages)
        spec = group_of(self._lookup.topic(statement.topic, context).name, statement.group, groups)
        dead = self._catalog.get(spec.dead_letter)
        tables = spec.name.sql
        if dead is not None and dead.options.dead_letter_of == spec.name.table:
            tables += f", {dead.name.sql}"  # a group of the same name that is made later is another one
        return Execute(f"DROP TABLE {tables}", Effects(catalog=True), manages=_named(spec))

    def _drop_topic(self, statement: DropTopic, context: PlanContext) -> Plan:
        if statement.if_exists and self._lookup.topic_or_none(statement.name, context) is None:
            return NoOperation(1051, f"Unknown topic '{self._lookup.qualified(statement.name, context)}'")
        topic = self._lookup.topic(statement.name, context).name
        if groups := known_groups(self._catalog, topic):
            raise UnsupportedSql(
                f"topic '{topic.table}' has consumer groups, whose unfinished messages would be lost; DROP GROUP them "
                f"first: {', '.join(sorted(groups))}"
            )
        return Execute(f"DROP TABLE {topic.sql}", Effects(catalog=True, drops=frozenset((topic,))))

    def _trace(self, name: Name, id_: Token, context: PlanContext) -> Plan:
        """TRACE MESSAGE on a topic, or on a queue."""
        topic = self._lookup.topic_or_none(name, context)
        if topic is None:
            return trace_in_queue(id_, self._lookup.queue(name, context), context.now_sql)
        offset, groups = offset_in(id_, topic.name), self._catalog.groups_of(topic.name)
        return trace_plan(offset, topic, groups, context.now_sql)

    def _ack(self, statement: Ack, context: PlanContext) -> Plan:
        spec = self._lookup.settled(statement.name, context)
        statement = expand_numbers(statement, spec)
        plan = at_shards(ack_as_update(statement, spec, context.now_sql), spec)
        group = group_key(spec, self._catalog)
        return plan if group is None else ack_in_group(plan, statement, spec, group)

    def _change(self, statement: UpdateQueue | DeleteQueue, context: PlanContext) -> Plan:
        """UPDATE and DELETE; where there is no queue of that name they go to the database."""
        topic = self._lookup.topic_or_none(statement.name, context)
        if topic is not None and isinstance(statement, UpdateQueue):
            return update_of_topic(statement, topic.name)
        spec = self._lookup.queue_or_none(statement.name, context)
        if spec is None:
            return Passthrough()
        group = group_key(spec, self._catalog)
        if isinstance(statement, DeleteQueue):
            return delete_in_group(statement, spec, group)
        if spec.options.topic is not None and ends_messages(statement):
            raise UnsupportedSql(
                f"UPDATE does not end messages of a consumer group: ACK {spec.options.topic} ... GROUP"
                f" {spec.options.consumer_group}"
            )
        plan = at_shards(update_plan(statement, spec, context.now_sql), spec)
        return plan if group is None else update_in_group(plan, statement, group)

    def _insert_after_group(self, statement: InsertQueue, context: PlanContext) -> Plan:
        assert statement.group is not None
        spec, of = self._lookup.queue(statement.name, context), self._lookup.queue(statement.group.name, context)
        check_not_fed(spec)
        group = group_key(of, self._catalog)
        if group is None:
            raise UnsupportedSql(
                f"the messages of queue '{of.name.table}' form no groups: "
                f"ALTER QUEUE {of.name.table} SET (group_key = 'column')"
            )
        return insert_after_group(statement, spec, group, context.now_sql)

    def _create(self, statement: CreateQueue, context: PlanContext) -> Plan:
        queue = self._lookup.new_queue(statement.name, context)
        self._lookup.check_archive(statement.options)
        check_queue_options(statement.options)
        options = parse_options(statement.options, self._defaults)
        check_dead_letter(options, queue.table)
        if reason := unfit_dead_letters(queue, options, self._lookup.find):
            raise InvalidOption(reason)
        vschema = self._lookup.sharded_table(queue, options)
        table, now_sql, if_absent = Name(queue.database, queue.table), context.now_sql, statement.if_not_exists
        numbered = vschema is None
        sql = create_table(table, statement.items, options, now_sql, if_not_exists=if_absent, numbered=numbered)
        plan = Execute(sql, Effects(catalog=frozenset((queue,))), vschema=vschema)
        dead = foreign_dead_letter(queue, options, self._lookup.find)
        if dead is not None:
            return with_dead_letter_check(plan, queue, dead)
        # A new queue under the default name of another queue's dead-letter queue becomes that dead-letter queue.
        by_default = (q.name for q in self._catalog if q.options.dead_letter is None and q.dead_letter == queue)
        source = None if self._lookup.find(queue) is not None else next(by_default, None)
        names = None if source is None else (source, queue)
        return replace(plan, effects=replace(plan.effects, names=names))

    def _drop(self, statement: DropQueue, context: PlanContext) -> Plan:
        queue = self._lookup.qualified(statement.name, context)
        spec = self._lookup.unfit(statement.name, context) or self._lookup.find(queue)
        if spec is not None:
            # Another client may drop it at this moment, not through the proxy.
            if_exists = "IF EXISTS " if statement.if_exists else ""
            drops = frozenset((spec.name,))
            vschema = ShardedTable(spec.name, "", None, drops=True) if spec.shards else None
            effects = Effects(catalog=drops, drops=drops)
            return Execute(f"DROP TABLE {if_exists}{spec.name.sql}", effects, vschema=vschema)
        if statement.if_exists:
            return NoOperation(1051, f"Unknown queue '{queue}'")
        raise unknown_queue(queue)

    def _stream(self, statement: SelectStream, context: PlanContext) -> Plan:
        queue = self._lookup.qualified(statement.name, context)
        spec = self._lookup.find(queue)
        if spec is None and (topic := self._lookup.topic_or_none(statement.name, context)) is not None:
            plan = stream_of_topic(statement, topic, self._catalog, context)
            if not isinstance(plan, QueueSpec):
                return plan
            spec = self._lookup.find(plan.name)
        if spec is not None:
            return subscribe(statement, spec, context.sql_modes)
        if not statement.certain and (statement.fault or statement.clauses.condition):
            return Passthrough()  # a table `stream` and its alias
        raise unknown_queue(queue, perhaps_alias=not statement.certain)


def _named(group: QueueSpec) -> GroupName:
    """The consumer group whose queue this is."""
    return GroupName(QueueName(group.name.database, group.options.topic or ""), group.options.consumer_group or "")


def _counting(queue: QueueName, plan: Plan, column: str) -> Plan:
    assert isinstance(plan, Execute | EndInGroup), "a verb is one statement"
    return ExecuteCounting(queue, plan, column)


def at_shards(plan: Plan, spec: QueueSpec) -> Plan:
    """The plan of a statement on messages of this queue, at the shards that have them. Raises UnsupportedSql."""
    if not spec.shards or not isinstance(plan, Execute | Redrive):
        return plan
    sql = (plan.mark if isinstance(plan, Redrive) else plan.sql).upper()
    if ("LIMIT" in sql or "SELECT" in sql) and not {"LIMIT", "SELECT"}.isdisjoint(
        token.word for token in tokenize(sql)
    ):
        raise UnsupportedSql(once_in_each_shard(spec))
    return replace(plan, at_shards=spec.name)


def _truncate(queue: QueueSpec) -> Plan:
    """TRUNCATE QUEUE. TRUNCATE TABLE would restart the ids: a delayed ack would end a new message."""
    effects = replace(ending(queue.name, None), catalog=True)  # who may settle messages may not empty a queue by it
    return at_shards(Execute(f"DELETE FROM {queue.name.sql}", effects, pins=Pins.VERB), queue)


def _encoded(sql: str) -> bytes:
    return sql.encode("utf-8", "surrogatepass")
