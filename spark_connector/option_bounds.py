"""Options for the start and end of a read, and for how long a micro-batch waits: offsets, times, bounds per name.

Parsed from the options by name, as spark_connector.options does for the others. Raises OptionError for invalid values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from spark_connector.errors import OptionError
from spark_connector.option_names import BEGINNING, ENDING
from spark_connector.option_values import OptionValues, bounded

MESSAGES_MAX = 10_000_000
_EARLIEST_MS = 10**11  # in 1973: a smaller time is probably in seconds
_IDS_END = 2**63
_DURATIONS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
Bound = Literal["earliest", "latest"] | int


@dataclass(frozen=True)
class Several:
    """Several queues or topics that are read as one."""

    names: tuple[str, ...]  # in order; empty if there is a pattern
    pattern: str | None = None  # a regular expression for whole names, also of later queues
    topics: bool = False  # the pattern is for topics; else it is for queues
    column: str = "topic"  # contains the name of each row's source
    starting: Mapping[str, Bound] = field(default_factory=dict)  # the start for each name; empty: not set
    ending: Mapping[str, Bound] = field(default_factory=dict)


@dataclass(frozen=True)
class Span:
    """The part of a topic that a batch reads: from `starting` up to `ending`, exclusive."""

    starting: Literal["earliest"] | int = "earliest"
    starting_time: int | None = None  # ns; in its place
    ending: Literal["latest"] | int = "latest"
    ending_time: int | None = None  # ns; in its place


def bounds_by_name(values: OptionValues, name: str) -> Mapping[str, Bound]:
    """Parses a bound for each topic, as JSON: {"orders": 900, "bills": "earliest"}; Kafka's -2 and -1 are its ends."""
    text = values.text(name, "").strip()
    if not text or text in ("earliest", "latest"):
        return {}
    form = (
        f"option {name}, where several are read, is earliest, latest, or JSON with a bound for each, as in"
        ' {"orders": 900, "bills": "latest"}'
    )
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise OptionError(f"{form}: not {text[:80]!r}")
    bounds: dict[str, Bound] = {}
    for topic, bound in parsed.items():
        match bound:
            case "earliest" | -2:
                bounds[topic] = "earliest"
            case "latest" | -1:
                bounds[topic] = "latest"
            case int() if not isinstance(bound, bool) and 0 <= bound < _IDS_END:
                bounds[topic] = bound
            case _:
                raise OptionError(f"{form}: for {topic[:64]!r} it has {json.dumps(bound)[:80]}")
    return bounds


def _single_bound(values: OptionValues, name: str, text: str) -> Bound | str:
    """Parses the bound of the one topic that is read, as JSON: {"orders": 900}; the text itself if it is no JSON."""
    try:
        bounds, topic = bounds_by_name(values, name), values.text("queue", "").strip()
    except OptionError:
        return text
    if list(bounds) != [topic]:
        raise OptionError(f"option {name} gives bounds for {', '.join(bounds) or 'nothing'}, and {topic} is read")
    return bounds[topic]


def starting(values: OptionValues, several: Several | None) -> Bound:
    if several is not None and several.starting:
        return "latest"
    bound = _end_or_id(values, "startingOffsets", "latest", ("earliest", "latest"))
    return bound if isinstance(bound, int) else "earliest" if bound == "earliest" else "latest"


def _end_or_id(values: OptionValues, name: str, default: str, ends: Sequence[str]) -> str | int:
    text = values.text(name, default).strip().lower()
    if text.startswith("{"):
        text = str(_single_bound(values, name, text))
    if text in ends:
        return text
    if text.isdecimal() and int(text) < _IDS_END:
        return int(text)
    raise OptionError(f"option {name} is {' or '.join(ends)}, or an offset, not {text[:80]!r}")


def time(values: OptionValues, name: str, other: str, what: str) -> int | None:
    """A time in ns, if it is set instead of the `other` option."""
    if not values.has(name):
        return None
    if values.has(other):
        raise OptionError(f"options {other} and {name} both say {what}: give one of them")
    bounds = (_EARLIEST_MS, 9_000_000_000_000)
    return 1_000_000 * bounded(name, values.text(name, ""), int, bounds, "a unix time in milliseconds, a whole number")


def span(values: OptionValues, several: Several | None) -> Span | None:
    if not any(values.has(name) for name in (*BEGINNING, *ENDING)):
        return None
    first: str | int = "earliest"
    end: str | int = "latest"
    if several is None or not several.starting:
        first = _end_or_id(values, "startingOffsets", "earliest", ("earliest",))
    if several is None or not several.ending:
        end = _end_or_id(values, "endingOffsets", "latest", ("latest",))
    since = time(values, "startingTimestamp", "startingOffsets", "where to begin")
    until = time(values, "endingTimestamp", "endingOffsets", "where to end")
    if isinstance(first, int) and isinstance(end, int) and first > end:
        raise OptionError(f"option endingOffsets is {end}, before startingOffsets, which is {first}")
    if since is not None and until is not None and since > until:
        raise OptionError("option endingTimestamp is before startingTimestamp")
    return Span(
        first if isinstance(first, int) else "earliest", since, end if isinstance(end, int) else "latest", until
    )


def least(values: OptionValues, most: int) -> int:
    least = values.integer("minOffsetsPerTrigger", 0, 0, MESSAGES_MAX)
    if least > most:
        other = values.spelling("maxMessagesPerTrigger")
        raise OptionError(f"option minOffsetsPerTrigger is {least}, more than {other}, which is {most}")
    return least


def delay(values: OptionValues) -> float:
    if values.has("maxTriggerDelay") and not values.has("minOffsetsPerTrigger"):
        raise OptionError("option maxTriggerDelay needs minOffsetsPerTrigger: how many messages it waits for")
    text = values.text("maxTriggerDelay", "15m").strip().lower()
    match = re.fullmatch(r"(\d{1,9})(ms|s|m|h|d)", text)
    if match is None:
        raise OptionError(f"option maxTriggerDelay is a duration, as in 500ms, 30s, 15m or 1h, not {text[:80]!r}")
    return int(match[1]) * _DURATIONS[match[2]]
