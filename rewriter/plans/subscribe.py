"""SELECT ... FROM STREAM on a known queue: columns and options checked, then the engine's request."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from engine.model.errors import InvalidOption, UnknownColumn
from engine.model.key_range import KeyRange, Keys, read_key_range
from engine.model.option_values import NAME_CHARACTERS, OptionValue, check_receivers_wait, is_name
from engine.model.options import OPTIONS
from engine.model.queue import QueueSpec, ReceiverIdentity, SubscribeRequest, TopicSpec, of_key_range, quoted
from rewriter.errors import UnsupportedSql
from rewriter.grammar.statements import Bound, SelectStream, StreamClauses, StreamColumn
from rewriter.plan import Subscribe
from rewriter.plans.condition import stream_filter

_NUMBERS = ("ack_wait", "prefetch")
_STREAM_OPTIONS = (*_NUMBERS, "consumer", "lease", "key_range", "keys")


def subscribe(statement: SelectStream, spec: QueueSpec, modes: Collection[str]) -> Subscribe:
    """The plan: the request to the engine, where values bound by `?` stay at their defaults, and the filter.

    Raises:
        UnknownColumn: a name in the column list or the condition.
        InvalidOption: an option that a stream does not have, or an absurd value.
        RewriteError: what the grammar found, or something that a condition cannot be made of.
    """
    if statement.fault:
        raise statement.fault
    clauses = statement.clauses
    if clauses.since is not None or clauses.until is not None:
        raise UnsupportedSql(f"SINCE and UNTIL read a topic, which '{spec.name.table}' is not")
    request = _request(statement, spec)
    if not clauses.condition:
        return Subscribe(request, clauses.parameters)
    if request.keys is not Keys.SHARED:
        raise InvalidOption(f"keys: a stream with {request.keys.value} keys has no WHERE; leave one of the two out")
    chosen = stream_filter(clauses.condition, clauses.condition_text, spec, modes)
    return Subscribe(request, clauses.parameters, chosen)


def _request(statement: SelectStream, spec: QueueSpec) -> SubscribeRequest:
    clauses = statement.clauses
    group = spec.options.consumer_group
    texts = _options(clauses, {} if group is None else {"group": group.lower(), "mode": "group"})
    options = {name: _number(name, value) for name, value in texts.items() if name in _NUMBERS}
    check_receivers_wait("ack_wait", options.get("ack_wait", 0), spec.options.ack_wait_ns)
    return SubscribeRequest(
        queue=spec.name,
        columns=stream_columns(statement.columns, spec),
        limit=None if isinstance(clauses.limit, Bound) else clauses.limit,
        wait_mode=clauses.wait_mode,
        wait_seconds=0.0 if isinstance(clauses.wait_seconds, Bound) else clauses.wait_seconds,
        prefetch=options.get("prefetch"),
        ack_wait_ns=options.get("ack_wait"),
        receiver=ReceiverIdentity(consumer=consumer_name(texts.get("consumer"))),
        by_connection=by_connection(str(texts["lease"])) if "lease" in texts else None,
        condition=of_key_range(_key_range(str(texts["key_range"]), spec) if "key_range" in texts else None),
        keys=_keys(texts, spec),
    )


def _key_range(value: str, spec: QueueSpec) -> KeyRange | None:
    """The part of the ring that a stream takes; None for all of it. Raises InvalidOption."""
    key_range = read_key_range("key_range", value)
    _check_ring("key_range", spec)
    return None if key_range.is_whole else key_range


def _keys(texts: Mapping[str, OptionValue], spec: QueueSpec) -> Keys:
    """How a stream shares the keys of the queue with others. Raises InvalidOption."""
    value = str(texts.get("keys", Keys.SHARED.value)).strip().lower()
    if value not in [keys.value for keys in Keys]:
        raise InvalidOption(f"keys: '{value}' is neither 'shared' nor 'sticky' nor 'exclusive'")
    keys = Keys(value)
    if keys is not Keys.SHARED:
        _check_ring("keys", spec)
        if "key_range" in texts:
            raise InvalidOption(f"keys: the ranges of {value} keys are assigned; leave key_range out")
    return keys


def _check_ring(name: str, spec: QueueSpec) -> None:
    if spec.has_ring:
        return
    text = f"ALTER QUEUE {quoted(spec.name.table)} ADD SHARDING KEY (column) adds it"
    if spec.options.topic is not None:
        text = "its topic has none"
    raise InvalidOption(f"{name}: queue '{spec.name.table}' has no ring; {text}")


def stream_columns(columns: tuple[StreamColumn, ...], spec: QueueSpec | TopicSpec) -> tuple[str, ...] | None:
    """The names in the list of columns of a stream; None for `*` alone. Raises UnknownColumn."""
    names: list[str] = []
    for column in columns:
        _check_qualifier(column, spec)
        if column.name is None:
            names.extend(spec.message_columns)
            continue
        if spec.column(column.name) is None:
            raise _unknown_column(column)
        names.append(column.name)
    only_star = len(columns) == 1 and columns[0].name is None
    return None if only_star else tuple(names)


def _check_qualifier(column: StreamColumn, spec: QueueSpec | TopicSpec) -> None:
    names = {spec.name.table.lower()}
    if isinstance(spec, QueueSpec) and spec.options.topic is not None:
        names.add(spec.options.topic.lower())
    qualifier = tuple(part.lower() for part in column.qualifier)
    if qualifier and not (qualifier[-1] in names and qualifier[:-1] in ((), (spec.name.database.lower(),))):
        raise _unknown_column(column)


def _unknown_column(column: StreamColumn) -> UnknownColumn:
    return UnknownColumn(f"Unknown column '{column.text.replace('`', '')}' in 'field list'")


def consumer_name(value: OptionValue | None) -> str:
    """What a client calls itself; empty where it does not. Raises InvalidOption."""
    if value is None:
        return ""
    if not is_name(str(value)):
        raise InvalidOption(f"consumer: '{value}' is not a name of 1 to {NAME_CHARACTERS} characters")
    return str(value)


def by_connection(value: str) -> bool:
    """Whether a lease ends with the connection, and not only by time. Raises InvalidOption."""
    lease = value.strip().lower()
    if lease not in ("time", "connection"):
        raise InvalidOption(f"lease: '{value}' is neither 'time' nor 'connection'")
    return lease == "connection"


def _number(name: str, value: OptionValue) -> int:
    read = OPTIONS[name].read(name, value)
    assert isinstance(read, int)
    return read


def _options(clauses: StreamClauses, known: Mapping[str, str]) -> dict[str, OptionValue]:
    """The options of a stream as written. Raises InvalidOption for one that a stream does not have."""
    values: dict[str, OptionValue] = {}
    for name, value in clauses.options:
        if name in known:
            if str(value).strip().lower() != known[name]:
                raise InvalidOption(f"{name}: this is the queue of consumer group '{known['group']}'; name the topic")
            continue
        if name not in _STREAM_OPTIONS:
            raise InvalidOption(f"a stream has no option '{name}'; allowed: {', '.join(_STREAM_OPTIONS)}")
        values[name] = value
    return values
