"""The options of a topic: its retention, and how many messages it traces; in its COMMENT, after TOPIC_MARK."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from urllib.parse import unquote

from engine.model.errors import InvalidOption, InvalidQueueTable
from engine.model.option_values import (
    NS_PER_SECOND,
    OptionValue,
    escaped,
    parse_duration,
    read_name,
    seconds_text,
    whole_number,
)

TOPIC_MARK = "queuegate_topic"
"""A table whose COMMENT begins with this is a topic."""

_SIZE = re.compile(r"\s*\+?((?>\d+)(?:\.(?>\d*))?)\s*(b|k|kb|m|mb|g|gb|t|tb)?\s*", re.ASCII | re.IGNORECASE)
_UNIT_BYTES = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_BYTES_MAX = 1 << 50
_ROWS_MAX = 10**15
_TRACE_NAMES = {0: "off", 100: "on"}
_PERCENT = re.compile(r"([0-9]{1,3})\s*%", re.ASCII)

_PARTITION_NS_MIN = 60 * NS_PER_SECOND

PARTITIONS_MAX = 1000
"""As many as a topic shall have, about. Servers have up to 8,192, and each costs an open file."""

COMPACT_AFTER_NS = 60 * NS_PER_SECOND
"""The default of `compact_after`: a reader that is not behind by a minute gets every message."""

COMPACT_INDEX = "queuegate_compact"
"""The index that the proxy makes on the column of `compact`."""


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """What a topic keeps; None: without that limit. Durations in nanoseconds. `trace`: of how many messages in a
    hundred it is recorded what happens to them; None: of all. `trace_keep_ns`: for how long the database keeps those
    records; None: it does not. `compact`: a column; of the messages with one value of it only the newest stays.
    `partition_ns`: for how long a partition of the topic takes messages, about.
    `sequence`: offsets are numbers that messages are given once they are committed."""

    retain_ns: int | None = None
    retain_rows: int | None = None
    retain_bytes: int | None = None
    trace: int | None = None
    trace_keep_ns: int | None = None
    compact: str | None = None
    compact_after_ns: int | None = None
    partition_ns: int | None = None
    sequence: bool = False

    @property
    def limited(self) -> bool:
        """Whether messages are deleted for their age, their number or their size."""
        return (self.retain_ns, self.retain_rows, self.retain_bytes) != (None, None, None)

    @property
    def deletes(self) -> bool:
        """Whether messages are deleted at all."""
        return self.limited or self.compact is not None

    @property
    def compact_lag_ns(self) -> int:
        """`compact_after`, or what it is without."""
        return COMPACT_AFTER_NS if self.compact_after_ns is None else self.compact_after_ns

    @property
    def items(self) -> dict[str, str]:
        """The options that it has, as WITH takes them."""
        texts = {
            "retain": _duration_text(self.retain_ns),
            "retain_rows": None if self.retain_rows is None else str(self.retain_rows),
            "retain_bytes": None if self.retain_bytes is None else str(self.retain_bytes),
            "trace": None if self.trace is None else _TRACE_NAMES.get(self.trace, f"{self.trace}%"),
            "trace_keep": _duration_text(self.trace_keep_ns),
            "compact": self.compact,
            "compact_after": _duration_text(self.compact_after_ns),
            "partition": _duration_text(self.partition_ns),
            "sequence": "on" if self.sequence else None,
        }
        return {name: text for name, text in texts.items() if text is not None}


def _duration_text(nanoseconds: int | None) -> str | None:
    return None if nanoseconds is None else f"{seconds_text(nanoseconds)}s"


def _trace_keep(name: str, value: OptionValue) -> int | None:
    return None if str(value).strip().lower() == "off" else _retain(name, value)


def _retain(name: str, value: OptionValue) -> int:
    nanoseconds = parse_duration(name, value)
    if nanoseconds < NS_PER_SECOND:
        raise InvalidOption(f"{name}: '{value}' is too short; at least 1s")
    return nanoseconds


def _partition(name: str, value: OptionValue) -> int:
    nanoseconds = parse_duration(name, value)
    if nanoseconds < _PARTITION_NS_MIN:
        raise InvalidOption(f"{name}: '{value}' is too short; at least 1m")
    return nanoseconds


def parse_size(name: str, value: OptionValue) -> int:
    """Bytes of a size: a number, or text such as '500m', '10g' (units of 1,024). Raises InvalidOption."""
    match = _SIZE.fullmatch(str(value))
    size = int(Decimal(match[1]) * _UNIT_BYTES[(match[2] or "b")[0].lower()]) if match else 0
    if not 1 <= size <= _BYTES_MAX:
        raise InvalidOption(f"{name}: '{value}' is not a size; give bytes, or '500m', '10g', up to 1024t")
    return size


def _trace(name: str, value: OptionValue) -> int:
    text = str(value).strip().lower()
    for percent, word in _TRACE_NAMES.items():
        if text == word:
            return percent
    if (match := _PERCENT.fullmatch(text)) is None or not 1 <= int(match[1]) <= 100:
        raise InvalidOption(f"{name}: '{value}' is none of 'on', 'off' and a share of the messages, '1%' to '100%'")
    return int(match[1])


def _sequence(name: str, value: OptionValue) -> bool:
    text = str(value).strip().lower()
    if text not in ("on", "off"):
        raise InvalidOption(f"{name}: '{value}' is neither 'on' nor 'off'")
    return text == "on"


_READERS: Mapping[str, Callable[[str, OptionValue], int | str | None]] = {
    "retain": _retain,
    "retain_rows": whole_number(1, _ROWS_MAX),
    "retain_bytes": parse_size,
    "compact": read_name,
    "compact_after": parse_duration,
    "partition": _partition,
    "trace": _trace,
    "trace_keep": _trace_keep,
    "sequence": _sequence,
}
_FIELDS = {
    "retain": "retain_ns",
    "retain_rows": "retain_rows",
    "retain_bytes": "retain_bytes",
    "compact": "compact",
    "compact_after": "compact_after_ns",
    "partition": "partition_ns",
    "trace": "trace",
    "trace_keep": "trace_keep_ns",
    "sequence": "sequence",
}
assert set(_FIELDS.values()) == {f.name for f in fields(TopicOptions)}

TOPIC_OPTIONS = tuple(_FIELDS)
"""Their names."""


def parse_topic_options(explicit: Mapping[str, OptionValue | None], base: TopicOptions | None = None) -> TopicOptions:
    """Options from a WITH list, or over `base` from ALTER TOPIC; a value of None stands for none.

    Raises:
        InvalidOption: unknown name or absurd value; the message lists what is allowed.
    """
    values: dict[str, int | str | None] = {}
    for raw, value in explicit.items():
        name = raw.lower()
        if name not in _FIELDS:
            near = difflib.get_close_matches(name, _FIELDS, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise InvalidOption(f"unknown topic option '{raw}'; {hint}allowed: {', '.join(sorted(_FIELDS))}")
        values[_FIELDS[name]] = None if value is None else _READERS[name](name, value)
    if values.get("sequence", False) is None:
        values["sequence"] = False
    options = replace(base or TopicOptions(), **values)  # type: ignore[arg-type]
    if options.compact is None and values.get("compact_after_ns") is not None:
        raise InvalidOption("compact_after is of use only with compact = 'column'")
    _check_partition(options)
    return options if options.compact is not None else replace(options, compact_after_ns=None)


def _check_partition(options: TopicOptions) -> None:
    """Raises InvalidOption where partitions would be of no use, or too many."""
    if options.partition_ns is None:
        return
    if not options.limited:
        raise InvalidOption(
            "partition is of use only with retain, retain_rows or retain_bytes: nothing is dropped else"
        )
    if options.compact is not None:
        raise InvalidOption("partition: a topic with compact has none; a partition would go with the newest messages")
    if (options.retain_ns or 0) > options.partition_ns * PARTITIONS_MAX:
        raise InvalidOption(f"partition: retain holds more than {PARTITIONS_MAX} of so short ones; give a longer time")


def topic_comment(options: TopicOptions, foreign: Iterable[str] = ()) -> str:
    """The table COMMENT that stores these options; `foreign`: its other text."""
    items = {name: escaped(text) if name == "compact" else text for name, text in options.items.items()}
    return ",".join((TOPIC_MARK, *(f"{name}={text}" for name, text in items.items()), *foreign))


def changed_topic_comment(comment: str, options: TopicOptions) -> str:
    """A topic's comment with these options in place of its own; its other text stays, at the end."""
    pieces = [piece.strip() for piece in comment.removeprefix(TOPIC_MARK).split(",")]
    return topic_comment(options, (p for p in pieces if p and p.partition("=")[0] not in _FIELDS))


def read_topic_options(comment: str, table: str) -> TopicOptions:
    """The options in a topic's COMMENT. Raises InvalidQueueTable where a value cannot be read."""
    pairs = dict(piece.strip().split("=", 1) for piece in comment.split(",") if piece.count("=") == 1)
    texts = {name: unquote(text) if name == "compact" else text for name, text in pairs.items()}
    try:
        return parse_topic_options({name: text for name, text in texts.items() if name in _FIELDS})
    except InvalidOption as error:
        raise InvalidQueueTable(f"{error.message} (topic {table})") from error
