"""Queue options: their names, bounds, and the table COMMENT that stores them.

The COMMENT is `vitess_message,key=value,...` with Vitess's own keys and units (seconds) where Vitess has the
option, so the table is the only source of truth about a queue. Reading is the exact inverse of writing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from urllib.parse import unquote

from engine.model.errors import InvalidOption, InvalidQueueTable
from engine.model.key_range import SLOT_COLUMN
from engine.model.option_values import (
    AS_ACK_WAIT,
    NS_PER_SECOND,
    OptionValue,
    choice,
    column_names,
    digit_text,
    escaped,
    escaped_text,
    joined,
    number_text,
    order_key_text,
    own_name,
    parse_duration,
    parse_wait,
    read_filter,
    read_flag,
    read_min_backoff,
    read_name,
    read_names,
    read_order_key,
    read_rate,
    read_steps,
    seconds_text,
    steps_text,
    whole_number,
)

DUE_COLUMNS = ("time_acked", "priority", "time_next")
"""What the index on due messages begins with."""

GROUP_INDEX = "queuegate_group"
"""Finds whether a group has unacked messages."""

UNTIL_CONSUMED = "until_consumed"
"""The value of a group's `retain` with which its topic keeps what the group has not done."""

KEEP_ATTEMPTS = 10
"""The default number of a message's failed attempts that are stored."""

KEEP_ATTEMPTS_MAX = 100
"""100 failures of at most 7 KB: a NACK writes all of them, and the column holds 16 MB."""


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """The options of one queue, validated. Durations in nanoseconds."""

    ack_wait_ns: int = 30 * NS_PER_SECOND
    min_backoff_ns: int | None = None
    max_backoff_ns: int = 3600 * NS_PER_SECOND
    backoff: tuple[int, ...] = ()
    purge_after_ns: int = 86400 * NS_PER_SECOND
    batch_size: int = 100
    prefetch: int = 1000
    cache_size: int = 10000
    poll_interval_ns: int = 30 * NS_PER_SECOND
    message_cols: tuple[str, ...] = ()
    max_attempts: int = 0
    dead_letter: str | None = None
    max_rate: Decimal | None = None
    max_concurrency: int | None = None
    order_key: str | None = None
    on_failure: str = "block"
    paused: bool = False
    archive: bool = False
    group_key: str | None = None
    alarm_after_ns: int = 0
    dead_letter_of: str | None = None
    topic: str | None = None
    consumer_group: str | None = None
    retain: str = "topic"
    filter: str | None = None
    keep_attempts: int = KEEP_ATTEMPTS
    sharding_key: str | None = None
    sticky_wait_ns: int = NS_PER_SECOND

    @property
    def batch_max(self) -> int:
        """The most messages in one batch: a larger one than the window could never be filled."""
        return min(self.batch_size, self.prefetch)

    @property
    def attempts_max(self) -> int:
        """Deliveries after which a message goes to the dead-letter queue; 0: never."""
        return 1 if self.fails_at_once else self.max_attempts

    @property
    def tries_alone(self) -> bool:
        """Whether a delivery that ends without a word counts as an attempt only where its receiver held nothing else:
        else the message is handed out alone (engine.delivery.isolated_delivery)."""
        return self.max_attempts > 0 and not self.fails_at_once

    @property
    def limited(self) -> bool:
        """Whether claims of the queue are made under the lock of its row in queuegate_limits, or of its parts."""
        return self.max_rate is not None or self.max_concurrency is not None or self.order_key is not None

    @property
    def fails_at_once(self) -> bool:
        """Whether the first failure of a message sends it to the dead-letter queue."""
        return self.order_key is not None and self.on_failure == "dead_letter"

    @property
    def waits_for_settlement(self) -> bool:
        """Whether the end of one message can let another go."""
        return self.max_concurrency is not None or self.order_key is not None

    @property
    def due_index(self) -> tuple[str, ...]:
        """The columns of the index on due messages. With a sharding key it has their slots as well, so that a scan of
        a key range reads the index alone."""
        return DUE_COLUMNS if self.sharding_key is None else (*DUE_COLUMNS, "id", SLOT_COLUMN)

    @property
    def needed_indexes(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Indexes that limits, order and groups need besides the one on due messages: name and columns, lower case.

        What is in flight is counted by time_next; a key's first message is found by id, what of it is out by time_next.
        """
        key = None if self.order_key is None else self.order_key.lower()
        whole = key == "*"
        needed: list[tuple[str, tuple[str, ...]]] = []
        if self.max_concurrency is not None or whole:
            needed.append(("queuegate_held", ("time_acked", "time_next")))
        if whole:
            needed.append(("queuegate_order", ("time_acked", "id")))
        elif key is not None:
            needed.append(("queuegate_order", ("time_acked", key, "id")))
            needed.append(("queuegate_order_held", ("time_acked", key, "time_next")))
        if self.group_key is not None:
            needed.append((GROUP_INDEX, ("time_acked", self.group_key.lower())))
        return tuple(needed)

    @property
    def effective_min_backoff_ns(self) -> int:
        """`min_backoff`, which is `ack_wait` when not given (Vitess)."""
        return self.ack_wait_ns if self.min_backoff_ns is None else self.min_backoff_ns


@dataclass(frozen=True, slots=True)
class _Option:
    """How one option is read, written and named in the comment."""

    field: str
    key: str
    read: Callable[[str, OptionValue], object]
    write: Callable[[object], str]


# cache_size: one key is about 200 bytes, so ten million would be 2 GB; batch_size: a batch is one transaction.
OPTIONS: Mapping[str, _Option] = {
    "ack_wait": _Option("ack_wait_ns", "vt_ack_wait", parse_wait, seconds_text),
    "min_backoff": _Option("min_backoff_ns", "vt_min_backoff", read_min_backoff, seconds_text),
    "max_backoff": _Option("max_backoff_ns", "vt_max_backoff", parse_wait, seconds_text),
    "backoff": _Option("backoff", "backoff", read_steps, steps_text),
    "purge_after": _Option("purge_after_ns", "vt_purge_after", parse_duration, seconds_text),
    "batch_size": _Option("batch_size", "vt_batch_size", whole_number(1, 10_000), str),
    "prefetch": _Option("prefetch", "prefetch", whole_number(1, 1_000_000), str),
    "cache_size": _Option("cache_size", "vt_cache_size", whole_number(1, 10_000_000), str),
    "poll_interval": _Option("poll_interval_ns", "vt_poller_interval", parse_wait, seconds_text),
    "message_cols": _Option("message_cols", "vt_message_cols", read_names, joined),
    "max_attempts": _Option("max_attempts", "max_attempts", whole_number(0, 1_000_000), str),
    "dead_letter": _Option("dead_letter", "dead_letter", read_name, escaped),
    "max_rate": _Option("max_rate", "max_rate", read_rate, number_text),
    "max_concurrency": _Option("max_concurrency", "max_concurrency", whole_number(1, 10_000_000), str),
    "order_key": _Option("order_key", "order_key", read_order_key, order_key_text),
    "on_failure": _Option("on_failure", "on_failure", choice("block", "skip", "dead_letter"), str),
    "paused": _Option("paused", "paused", read_flag, digit_text),
    "archive": _Option("archive", "archive", read_flag, digit_text),
    "group_key": _Option("group_key", "group_key", read_name, escaped),
    "alarm_after": _Option("alarm_after_ns", "alarm_after", parse_duration, seconds_text),
    "dead_letter_of": _Option("dead_letter_of", "dead_letter_of", read_name, escaped),
    "topic": _Option("topic", "topic", read_name, escaped),
    "consumer_group": _Option("consumer_group", "consumer_group", read_name, escaped),
    "retain": _Option("retain", "retain", choice("topic", UNTIL_CONSUMED), str),
    "filter": _Option("filter", "filter", read_filter, escaped_text),
    "keep_attempts": _Option("keep_attempts", "keep_attempts", whole_number(0, KEEP_ATTEMPTS_MAX), str),
    "sharding_key": _Option("sharding_key", "vt_sharding_key", read_name, escaped),
    "sticky_wait": _Option("sticky_wait_ns", "sticky_wait", parse_wait, seconds_text),
}

_ONLY_IF_SET = (
    "backoff", "max_attempts", "dead_letter", "max_rate", "max_concurrency", "order_key", "on_failure", "paused",
    "archive", "alarm_after", "dead_letter_of", "topic", "consumer_group", "retain", "filter", "keep_attempts",
    "sharding_key", "sticky_wait",
)  # fmt: skip
"""Options that are in a comment only where they are not the default."""

INDEX_NAMES = ("queuegate_due", "queuegate_held", "queuegate_order", "queuegate_order_held", GROUP_INDEX)
"""The names of the indexes that CREATE QUEUE and ALTER QUEUE make."""

OF_GROUPS = ("topic", "consumer_group")
"""Options that only CREATE GROUP sets, on the queue that it creates."""

GROUPS_ONLY = ("retain", "filter")
"""Options that WITH gives a consumer group, and no queue."""

OF_ONE_QUEUE = (
    "backoff",
    "message_cols",
    "max_rate",
    "max_concurrency",
    "order_key",
    "on_failure",
    "paused",
    "archive",
    "group_key",
    "alarm_after",
    "dead_letter",
    "dead_letter_of",
    "sharding_key",
    "sticky_wait",
    *OF_GROUPS,
    *GROUPS_ONLY,
)
"""Options that make no sense as defaults of all queues."""

REQUIRED_VITESS_KEYS = ("vt_ack_wait", "vt_purge_after", "vt_batch_size", "vt_cache_size", "vt_poller_interval")


def parse_options(
    explicit: Mapping[str, OptionValue],
    base: QueueOptions | None = None,
    *,
    altered: QueueOptions | None = None,
    stretch: bool = True,
) -> QueueOptions:
    """Options from a WITH list, over `base`: the configured defaults, or those of a queue that is `altered`.

    `stretch`: the base's bounds of the backoff are defaults, which explicit values override.

    Raises:
        InvalidOption: unknown name or absurd value; the message lists what is allowed.
    """
    values: dict[str, object] = {}
    for raw_name, value in explicit.items():
        option = _option(raw_name)
        values[option.field] = option.read(raw_name.lower(), value)
    options = replace(base or QueueOptions(), **values)  # type: ignore[arg-type]
    if altered is not None and _waits(options) == _waits(altered):
        return options  # an adopted table may hold waits that contradict each other, as Vitess's may
    # An explicit value overrides a default; only two explicit values can contradict.
    if stretch and "max_backoff_ns" not in values:
        options = replace(options, max_backoff_ns=max(options.max_backoff_ns, options.effective_min_backoff_ns))
    elif stretch and "min_backoff_ns" not in values and options.min_backoff_ns is not None:
        options = replace(options, min_backoff_ns=min(options.min_backoff_ns, options.max_backoff_ns))
    return validated(options)


def _waits(options: QueueOptions) -> tuple[int, int]:
    return options.max_backoff_ns, options.effective_min_backoff_ns


def _option(name: str) -> _Option:
    option = OPTIONS.get(name.lower())
    if option is None:
        offered = OPTIONS.keys() - {*OF_GROUPS, *GROUPS_ONLY}
        near = difflib.get_close_matches(name.lower(), offered, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise InvalidOption(f"unknown queue option '{name}'; {hint}allowed: {', '.join(sorted(offered))}")
    return option


def check_dead_letter(options: QueueOptions, table: str) -> None:
    """Raises InvalidOption where the queue of that table would be its own dead-letter queue."""
    if options.dead_letter is not None and options.dead_letter.lower() == table.lower():
        raise InvalidOption(f"dead_letter: '{table}' cannot be its own dead-letter queue")


def validated(options: QueueOptions) -> QueueOptions:
    """The same options, or InvalidOption where two of them contradict each other."""
    if options.max_backoff_ns < options.effective_min_backoff_ns:
        raise InvalidOption(
            "max_backoff is shorter than min_backoff (which is ack_wait when not given):"
            f" {seconds_text(options.max_backoff_ns)}s and {seconds_text(options.effective_min_backoff_ns)}s"
        )
    return options


def to_comment(options: QueueOptions) -> str:
    """The table COMMENT that stores these options. `from_comment` reads it back unchanged."""
    parts = ["vitess_message"]
    default = QueueOptions()
    for name, option in OPTIONS.items():
        value = getattr(options, option.field)
        written = name not in _ONLY_IF_SET or value != getattr(default, option.field)
        if value is not None and value != () and written:
            parts.append(f"{option.key}={option.write(value)}")
    return ",".join(parts)


def changed_comment(comment: str, options: QueueOptions) -> str:
    """A queue table's comment with these options in place of its own; its other text stays, at the end."""
    keys = {option.key for option in OPTIONS.values()}
    pieces = [piece.strip() for piece in comment.split(",")]
    foreign = [p for p in pieces if p and p != "vitess_message" and not (p.count("=") == 1 and p.split("=")[0] in keys)]
    return ",".join((to_comment(options), *foreign))


def reset(options: QueueOptions, names: Iterable[str], defaults: QueueOptions) -> QueueOptions:
    """The options with those of these names as in `defaults`. Raises InvalidOption for an unknown name."""
    fields_ = [_option(name).field for name in names]
    return replace(options, **{field: getattr(defaults, field) for field in fields_})


def from_comment(comment: str, table: str) -> QueueOptions:
    """Options from a table's COMMENT; pieces without '=' and unknown keys are ignored, as in Vitess.

    Raises:
        InvalidQueueTable: one of Vitess's five required keys is missing, or a value cannot be read.
    """
    pairs = dict(part.split("=", 1) for part in comment.split(",") if part.count("=") == 1)
    for key in REQUIRED_VITESS_KEYS:
        if key not in pairs:
            raise InvalidQueueTable(f"attribute {key} not specified for message table: {table}")
    by_key = {option.key: option for option in OPTIONS.values()}
    values: dict[str, object] = {}
    for key, text in pairs.items():
        if key in by_key:
            option = by_key[key]
            try:
                values[option.field] = _from_comment(option, text)
            except InvalidOption as error:
                raise InvalidQueueTable(f"{error.message} (table {table})") from error
    # Vitess clamps with the smaller bound winning; a table written there must stay readable here.
    return QueueOptions(**values)  # type: ignore[arg-type]


def _from_comment(option: _Option, text: str) -> object:
    """What `write` wrote, or Vitess."""
    if option.write is joined:
        return column_names(option.key, tuple(unquote(part.strip()) for part in text.split("|")))
    if option.write is escaped:
        return own_name(option.key, unquote(text))
    return option.read(option.key, unquote(text) if option.write in (order_key_text, escaped_text) else text)


def from_comment_text(name: str, text: str) -> str:
    """The value of an option as WITH takes it, from the form in a comment."""
    return unquote(text) if OPTIONS[name].write in (escaped, joined, order_key_text) else text


def option_items(options: QueueOptions) -> dict[str, OptionValue]:
    """The options that make this queue again under whatever `queue_defaults`, as SHOW CREATE QUEUE writes them.

    Those that have configurable defaults always; the others where the queue has them.
    """
    default = QueueOptions()
    items: dict[str, OptionValue] = {}
    for name, option in OPTIONS.items():
        value = getattr(options, option.field)
        if name in OF_ONE_QUEUE and value == getattr(default, option.field):
            continue
        if option.field.endswith("_ns"):
            items[name] = AS_ACK_WAIT if value is None else f"{option.write(value)}s"
        elif isinstance(value, int):
            items[name] = int(value)
        elif option.write is joined:
            items[name] = "|".join(value)
        else:
            items[name] = value if isinstance(value, str) else option.write(value)
    return items


NEW_QUEUE = QueueOptions(min_backoff_ns=NS_PER_SECOND)
"""The options of a queue that CREATE QUEUE makes where neither it nor the configuration says otherwise.

A table without `vt_min_backoff` in its comment follows Vitess: its least backoff is `ack_wait`.
"""

assert {option.field for option in OPTIONS.values()} == {f.name for f in fields(QueueOptions)}
