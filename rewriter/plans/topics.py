"""Topics and their consumer groups: their definitions, and SELECT ... FROM STREAM on a topic.

A group's stream is that of its queue. A broadcast is the engine's. A stream that ends (SINCE, UNTIL) is an ordinary
SELECT of the topic's table, in the client's own session.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from engine.model.errors import InvalidOption
from engine.model.key_range import SLOT_COLUMN
from engine.model.option_values import OptionValue
from engine.model.options import GROUPS_ONLY, OF_GROUPS, QueueOptions, parse_options
from engine.model.queue import (
    SEQUENCE_COLUMN,
    SOUGHT_COLUMN,
    SYSTEM_COLUMNS,
    TOPIC_COLUMNS,
    UNFED_COLUMNS,
    QueueCatalog,
    QueueName,
    QueueSpec,
    ReceiverIdentity,
    Start,
    StartAt,
    SubscribeRequest,
    TopicSpec,
    WaitMode,
    quoted,
    unfit_compact_column,
)
from engine.model.sequence import Sequencing
from engine.model.topic_options import (
    COMPACT_INDEX,
    TopicOptions,
    changed_topic_comment,
    parse_topic_options,
    topic_comment,
)
from engine.model.topic_partitions import by_range, first_partitions
from engine.model.topics import group_table, is_group_name, known_groups, unfit_group_table
from rewriter.errors import InsertOfDump, StreamIsNoTable, UnsupportedSql
from rewriter.grammar.beginning import read_beginning
from rewriter.grammar.create_queue import parse_create_table
from rewriter.grammar.statements import (
    Beginning,
    Bound,
    ColumnItem,
    CreateGroup,
    CreateTopic,
    InsertQueue,
    Item,
    KeyItem,
    SelectStream,
)
from rewriter.plan import (
    CreateConsumerGroup,
    Effects,
    Execute,
    Partitioned,
    Passthrough,
    Plan,
    PlanContext,
    Subscribe,
)
from rewriter.plans import sequenced_topics
from rewriter.plans.condition import stream_filter
from rewriter.plans.dead_letter_table import TABLE_CHARSET
from rewriter.plans.insert import due_columns, with_columns
from rewriter.plans.queue_table import (
    ENGINE,
    back_quoted,
    comment_literal,
    create_table,
    quoted_name,
    times_rule,
    type_code,
    without_comments,
)
from rewriter.plans.sequenced_topics import check_sequence, explicit_number_error, sequence_changes, with_sequence
from rewriter.plans.subscribe import consumer_name, stream_columns
from rewriter.text.literals import plain_literal
from rewriter.text.tokens import Name, TokenCursor

_TIME_KEY = "queuegate_time"
_NOT_OF_GROUPS = (
    "topic", "consumer_group", "dead_letter", "dead_letter_of", "group_key", "archive", "message_cols",
    "sharding_key",
)  # fmt: skip
_SOUGHT = ColumnItem(SOUGHT_COLUMN, f"{SOUGHT_COLUMN} TINYINT NOT NULL DEFAULT 0", "TINYINT NOT NULL DEFAULT 0", ())
_RESERVED = frozenset((*SYSTEM_COLUMNS, SOUGHT_COLUMN, SEQUENCE_COLUMN, SLOT_COLUMN))


def create_topic(statement: CreateTopic, name: QueueName, context: PlanContext) -> Execute:
    """The CREATE TABLE that makes a topic.

    Raises:
        UnsupportedSql: a column, a key or an option that a topic cannot have.
        InvalidOption: an unknown option, or an absurd value.
    """
    options = with_sequence(parse_topic_options(statement.options), statement.options, context.sequencing)
    now_sql = context.now_sql
    for item in statement.items:
        _check_item(item)
    columns = {item.name.lower(): type_code(item) for item in statement.items if isinstance(item, ColumnItem)}
    if reason := unfit_compact_column(options.compact, columns):
        raise InvalidOption(reason)
    check_sequence(options, context.sequencing)
    lines = [
        "id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
        f"time_scheduled BIGINT NOT NULL DEFAULT {now_sql}",
        f"time_created BIGINT NOT NULL DEFAULT {now_sql}",
        *(item.text for item in statement.items),
        *((sequenced_topics.COLUMN, sequenced_topics.KEY) if options.sequence else ()),
        f"KEY {_TIME_KEY} (time_created)",
        *(f"KEY {COMPACT_INDEX} ({key})" for key in _compact_keys(options)),
        times_rule(name.table, ("time_scheduled",)),
    ]
    exists = "IF NOT EXISTS " if statement.if_not_exists else ""
    comment = comment_literal(topic_comment(options), name.table)
    table = quoted_name(Name(name.database, name.table))
    sql = f"CREATE TABLE {exists}{table} ({', '.join(lines)}) {ENGINE} COMMENT={comment}"
    if options.partition_ns is None:
        return Execute(sql, Effects(catalog=True))
    check_partitionable(statement.items)
    return Execute(f"{sql} {PARTITION_CLAUSE}", Effects(catalog=True), partitions=Partitioned(name, create=True))


def alter_topic(
    topic: TopicSpec, requested: Mapping[str, OptionValue | None], groups: Iterable[str], sequencing: Sequencing
) -> Execute:
    """The ALTER TABLE that sets these options of a topic. `groups`: the names of its groups. Raises InvalidOption,
    UnsupportedSql."""
    options = parse_topic_options(requested, topic.options)
    changed = replace(topic, options=options)
    if reason := unfit_compact_column(options.compact, {c.name.lower(): c.type for c in topic.columns}):
        raise InvalidOption(reason)
    check_sequence(options, sequencing)
    comment = comment_literal(changed_topic_comment(topic.comment, options), topic.name.table)
    numbers = sequence_changes(topic, options, groups)
    changes = [*numbers, *_index_changes(changed), f"COMMENT={comment}"]
    partitioned = any(name.lower() == "partition" and value is not None for name, value in requested.items())
    partitions = Partitioned(topic.name, create=False) if partitioned else None
    return Execute(f"ALTER TABLE {topic.name.sql} {', '.join(changes)}", Effects(catalog=True), partitions=partitions)


def _compact_keys(options: TopicOptions) -> list[str]:
    """The columns of the index that compaction needs."""
    offset = SEQUENCE_COLUMN if options.sequence else "id"
    return [] if options.compact is None else [f"{quoted(options.compact)}, {offset}"]


def _index_changes(topic: TopicSpec) -> list[str]:
    """Drop the index of compaction where it is no longer used; add it where there is no other."""
    own = [index for index in topic.indexes if index.name == COMPACT_INDEX]
    stale = [index for index in own if index != topic.compact_index]
    remaining = replace(topic, indexes=tuple(index for index in topic.indexes if index not in stale))
    adds = _compact_keys(topic.options) if remaining.compact_index is None else []
    return [*(f"DROP KEY {COMPACT_INDEX}" for _ in stale), *(f"ADD KEY {COMPACT_INDEX} ({key})" for key in adds)]


def _check_item(item: Item) -> None:
    if isinstance(item, KeyItem):
        if "PRIMARY" in item.words:
            raise UnsupportedSql("the primary key of a topic is its id, the offset; leave PRIMARY KEY out")
        return
    name = item.name.lower()
    if name == "priority":
        raise UnsupportedSql("a topic is a log and has no priorities; call the column something else, or use a queue")
    if name in _RESERVED:
        raise UnsupportedSql(f"Column '{item.name}' is one of the topic's or its groups' own; leave it out")
    if {"AUTO_INCREMENT", "PRIMARY"}.intersection(item.words):
        raise UnsupportedSql("the id of a topic numbers its messages; no other column can be AUTO_INCREMENT or its key")


def plan_group(
    statement: CreateGroup, topic: TopicSpec, defaults: QueueOptions, queues: Iterable[QueueSpec]
) -> CreateConsumerGroup:
    """CREATE GROUP on a known topic, beside these queues.

    Raises:
        InvalidOption: a name or an option that a group cannot have.
    """
    if not is_group_name(statement.group):
        raise InvalidOption(f"'{statement.group}' is not the name of a group: 1 to 20 of a-z, A-Z, 0-9 and _")
    check_group_options(statement.options)
    own = {"topic": topic.name.table, "consumer_group": statement.group}
    options = parse_options({**statement.options, **own}, defaults)
    start, moment = start_at(statement.beginning)
    check = filter_check(topic, options.filter)
    queue = group_table(topic.name, statement.group)
    if (reason := unfit_group_table(queue, queues)) is not None:
        raise InvalidOption(reason)
    return CreateConsumerGroup(topic.name, queue, options, start, moment, check)


def group_filter(topic: TopicSpec, text: str) -> str:
    """The filter of a group as the database reads it, with the settings of a session that has set nothing.

    Raises:
        RewriteError, UnknownColumn: it is no condition on the topic's columns alone.
    """
    tokens = TokenCursor(text, ()).tokens
    try:
        parts = stream_filter(tokens, text, topic, ()).parts
    except StreamIsNoTable as error:
        raise InvalidOption(f"filter: '{text}' names no column of the topic") from error
    if len(parts) > 1:
        raise UnsupportedSql("filter: ? is not supported; write the value")
    return parts[0]


def filter_check(topic: TopicSpec, text: OptionValue | None) -> str:
    """A SELECT of no row by which the database reads the filter of a group; nothing without one. Raises what
    `group_filter` does."""
    return "" if text is None else f"SELECT 1 FROM {topic.name.sql} WHERE ({group_filter(topic, str(text))}) LIMIT 0"


def check_group_options(names: Iterable[str]) -> None:
    """Raises InvalidOption where a group cannot have one of these options."""
    for name in names:
        if name.lower() in _NOT_OF_GROUPS:
            raise InvalidOption(f"a consumer group has no option '{name}'")


def check_queue_options(names: Iterable[str]) -> None:
    """Raises InvalidOption where CREATE or ALTER QUEUE sets what only CREATE GROUP may."""
    for name in names:
        if name.lower() in OF_GROUPS:
            raise InvalidOption(f"a queue has no option '{name}'; CREATE GROUP makes consumer groups")
        if name.lower() in GROUPS_ONLY:
            raise InvalidOption(f"a queue has no option '{name}'; it is one of consumer groups of topics")


def start_at(beginning: Beginning) -> tuple[StartAt, str]:
    """A beginning as the engine takes it, and the moment that is still to be read in the session's time zone."""
    return StartAt(beginning.start, beginning.offset), beginning.moment


def group_queue(definition: str, name: QueueName, options: QueueOptions, now_sql: str, *, escapes: bool = True) -> str:
    """The CREATE TABLE of a group's queue, from SHOW CREATE TABLE of its topic.

    Raises:
        InvalidOption: an option names a column that the topic does not have.
    """
    text = without_comments(back_quoted(definition, backslash_escapes=escapes))
    _, items = parse_create_table(text)
    own = (*TOPIC_COLUMNS, *UNFED_COLUMNS)
    columns = [i for i in items if isinstance(i, ColumnItem) and i.name.lower() not in own]
    charset = TABLE_CHARSET.search(text)
    sql = create_table(Name(name.database, name.table), (*columns, _SOUGHT), options, now_sql, if_not_exists=False)
    return sql if charset is None else f"{sql} {charset[1]}"


def insert_into_topic(statement: InsertQueue, spec: TopicSpec, now_sql: str) -> Execute | Passthrough:
    """INSERT with named columns, `id` among them, or with a time at which its messages are due.

    Raises:
        UnsupportedSql: it sets an id, or a number. Readers with a higher position would never see the message.
    """
    topic = spec.name
    named = [column.lower() for column in statement.columns]
    if SEQUENCE_COLUMN in named or sequenced_topics.SETS.search(statement.sql, statement.places[-1]):
        raise explicit_number_error(topic)
    rows = 1 if statement.assigns else len(statement.places) - 1
    if "id" in named:
        place = named.index("id")
        first = [token.word for token in statement.values[place]] if place < len(statement.values) else []
        empty = [number for number, _ in statement.nulls if number == place]
        if len(empty) != rows and not (rows == 1 and first == ["DEFAULT"]):
            raise explicit_id_error(topic)
    if statement.due is None:
        return Passthrough(Effects(touched=frozenset((topic,))))
    due = due_columns(statement, {column.name.lower() for column in spec.columns}, now_sql)
    each = not (statement.changes or statement.ignores or statement.returns)
    numbered = each and spec.options.trace_keep_ns is not None
    effects = Effects(touched=frozenset((topic,)), tally=(topic, "enqueued") if each else None, numbered=numbered)
    return Execute(with_columns(statement, due), effects)


def explicit_id_error(topic: QueueName) -> InsertOfDump:
    """Why an INSERT into a topic is refused."""
    return InsertOfDump(f"the database gives a topic's messages their ids; leave id out: '{topic.table}'")


def check_not_fed(spec: QueueSpec) -> None:
    """Raises InsertOfDump where no client may insert into a queue: a consumer group's, whose ids are the topic's."""
    if spec.options.topic is not None:
        raise InsertOfDump(f"'{spec.name.table}' is fed from its topic: INSERT INTO {spec.options.topic}")


# --- streams


def stream_of_topic(
    statement: SelectStream, topic: TopicSpec, catalog: QueueCatalog, context: PlanContext
) -> Plan | QueueSpec:
    """The plan of a stream on a topic; of a group's, the queue that it reads.

    Raises:
        InvalidOption: an unknown group, or an option that such a stream does not have.
        UnknownColumn, UnsupportedSql.
    """
    if statement.fault:
        raise statement.fault
    clauses = statement.clauses
    options = dict(clauses.options)
    if clauses.since is not None or clauses.until is not None:
        return _replay(statement, topic, context.now_sql)
    mode = str(options.pop("mode", "broadcast" if "start" in options else "group")).strip().lower()
    if mode == "group":
        name = options.get("group")
        group = None if name is None else str(name)
        return group_of(topic.name, group, known_groups(catalog, topic.name, group))
    if mode != "broadcast":
        raise InvalidOption(f"mode: '{mode}' is neither 'group' nor 'broadcast'")
    return _broadcast(statement, topic, options, context.sql_modes)


def group_of(topic: QueueName, name: str | None, groups: dict[str, QueueSpec]) -> QueueSpec:
    """A group of a topic by its name, which may be left out where there is only one.

    Raises:
        InvalidOption: there is no such group, or no name and several groups.
    """
    listed = ", ".join(sorted(groups))
    if name is None and len(groups) == 1:
        return next(iter(groups.values()))
    if name is None and groups:
        how = "a stream by WITH (group = 'g'), ACK and the other verbs by GROUP g"
        raise InvalidOption(f"topic '{topic.table}' has several groups, say which is meant, {how}: {listed}")
    if not groups:
        raise InvalidOption(f"topic '{topic.table}' has no consumer group: CREATE GROUP name ON {topic.table}")
    matches = [spec for group, spec in groups.items() if group.lower() == (name or "").lower()]
    if not matches:
        raise InvalidOption(f"topic '{topic.table}' has no consumer group '{name}'; there are {listed}")
    return matches[0]


def _broadcast(
    statement: SelectStream, topic: TopicSpec, options: dict[str, OptionValue], modes: Collection[str]
) -> Subscribe:
    clauses = statement.clauses
    beginning = read_beginning("start", options.pop("start", "latest"))
    consumer = consumer_name(options.pop("consumer", None))
    if options:
        raise InvalidOption(f"a broadcast has no option '{min(options)}'; allowed: mode, start, consumer")
    chosen = None
    if clauses.condition:
        chosen = stream_filter(clauses.condition, clauses.condition_text, topic, modes)
    start, moment = start_at(beginning)
    request = SubscribeRequest(
        queue=topic.name,
        columns=stream_columns(statement.columns, topic) or topic.message_columns,  # whose rights are checked
        limit=None if isinstance(clauses.limit, Bound) else clauses.limit,
        wait_mode=clauses.wait_mode,
        wait_seconds=0.0 if isinstance(clauses.wait_seconds, Bound) else clauses.wait_seconds,
        receiver=ReceiverIdentity(consumer=consumer),
        start=start,
    )
    return Subscribe(request, clauses.parameters, chosen, moment)


def _replay(statement: SelectStream, topic: TopicSpec, now_sql: str) -> Execute:
    clauses, table = statement.clauses, topic.name.sql
    if clauses.options or clauses.parameters:
        raise UnsupportedSql("a stream with SINCE or UNTIL takes no WITH and no ?; it reads the topic and ends")
    if clauses.wait_mode is not WaitMode.ENDLESS:
        raise UnsupportedSql("a stream with SINCE or UNTIL ends by itself: leave WAIT and NOWAIT out")
    if isinstance(clauses.limit, Bound):
        raise UnsupportedSql("LIMIT ? is not supported with SINCE or UNTIL; write the number")
    offset = SEQUENCE_COLUMN if topic.sequenced else "id"
    conditions = [f"time_scheduled <= {now_sql}"]
    if topic.sequenced:  # what has no number yet is beyond all that have one
        conditions.append(f"{offset} > 0")
    if clauses.since is not None:
        conditions += _since(clauses.since, table, offset)
    if clauses.until is not None:
        conditions += _until(clauses.until, offset)
    if clauses.condition:
        conditions.append(f"({clauses.condition_text})")
    names = stream_columns(statement.columns, topic) or topic.message_columns
    columns = ", ".join(map(quoted, names))
    limit = "" if clauses.limit is None else f" LIMIT {clauses.limit}"
    sql = f"SELECT {columns} FROM {table} WHERE {' AND '.join(conditions)} ORDER BY {offset}{limit}"
    return Execute(sql, numbers=topic.name if topic.sequenced else None)


def _time(moment: str) -> str:
    return f"CAST(UNIX_TIMESTAMP({plain_literal(moment)}) * 1000000000 AS SIGNED)"


def _since(beginning: Beginning, table: str, offset: str) -> list[str]:
    match beginning.start:
        case Start.EARLIEST:
            return []
        case Start.LATEST:
            raise UnsupportedSql("SINCE LATEST would bring nothing; WITH (mode = 'broadcast') reads what is to come")
        case Start.OFFSET:
            return [f"{offset} >= {beginning.offset}"]
        case Start.TIMESTAMP:
            time = _time(beginning.moment)
            # Offsets increase with the times, except for some messages; so the table is read from there on, and not
            # from its start.
            first = f"SELECT {offset} FROM {table} WHERE time_created >= {time} ORDER BY time_created LIMIT 1000"
            since = f"CAST((SELECT MIN({offset}) FROM ({first}) AS qg_since) AS SIGNED)"  # less may be below 0
            bound = f"{offset} >= {since} - {sequenced_topics.DISORDER_MAX}"
            return [f"time_created >= {time}", bound]


def _until(beginning: Beginning, offset: str) -> list[str]:
    match beginning.start:
        case Start.EARLIEST:
            raise UnsupportedSql("UNTIL EARLIEST would bring nothing")
        case Start.LATEST:
            return []
        case Start.OFFSET:
            return [f"{offset} <= {beginning.offset}"]
        case Start.TIMESTAMP:
            return [f"time_created <= {_time(beginning.moment)}"]


PARTITION_CLAUSE = by_range(first_partitions())
"""At the end of the CREATE TABLE of a topic with the option `partition`."""


def check_partitionable(items: Iterable[Item]) -> None:
    """Raises UnsupportedSql where a table with these columns and keys cannot be partitioned. A unique key without the
    id is refused by the database itself."""
    if any({"FOREIGN", "REFERENCES"}.intersection(item.words) for item in items):
        raise UnsupportedSql("partition: a table with partitions has no foreign keys; leave these out, or the option")
