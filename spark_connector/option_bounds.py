"""Where a read begins and ends, and how long a micro-batch waits: offsets, times, bounds for each of several.

Read of the options by name, as spark_connector.options does with the others. Raises OptionError for what is wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from spark_connector.errors import OptionError
from spark_connector.option_names import BEGINNING, ENDING
from spark_connector.option_values import Given, bounded

MESSAGES_MAX = 10_000_000
_EARLIEST_MS = 10**11  # in 1973: who gives a smaller time means seconds
_IDS_END = 2**63
_DURATIONS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
Bound = Literal["earliest", "latest"] | int


@dataclass(frozen=True)
class Several:
    """Several queues or topics that are read as one."""

    names: tuple[str, ...]  # in order; empty where there is a pattern
    pattern: str | None = None  # a regular expression: those whose whole name it fits, also later ones
    topics: bool = False  # the pattern is for topics; else it is for queues
    column: str = "topic"  # tells of each row which of them it is from
    starting: Mapping[str, Bound] = field(default_factory=dict)  # where to begin with each; empty: not given
    ending: Mapping[str, Bound] = field(default_factory=dict)


@dataclass(frozen=True)
class Span:
    """Which of a topic's messages a batch reads: from the first of these up to the last of those, which is left out."""

    starting: Literal["earliest"] | int = "earliest"
    starting_time: int | None = None  # ns; in its place
    ending: Literal["latest"] | int = "latest"
    ending_time: int | None = None  # ns; in its place


def of_each(given: Given, name: str) -> Mapping[str, Bound]:
    """A bound for each topic, as JSON: {"orders": 900, "bills": "earliest"}; Kafka's -2 and -1 are its ends."""
    text = given.text(name, "").strip()
    if not text or text in ("earliest", "latest"):
        return {}
    form = (
        f"option {name}, where several are read, is earliest, latest, or JSON with a bound for each, as in"
        ' {"orders": 900, "bills": "latest"}'
    )
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise OptionError(f"{form}: not {text[:80]!r}")
    bounds: dict[str, Bound] = {}
    for topic, bound in found.items():
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


def _of_one(given: Given, name: str, text: str) -> Bound | str:
    """The bound of the one topic that is read, as JSON: {"orders": 900}; the text where it is none."""
    try:
        bounds, topic = of_each(given, name), given.text("queue", "").strip()
    except OptionError:
        return text
    if list(bounds) != [topic]:
        raise OptionError(f"option {name} gives bounds for {', '.join(bounds) or 'nothing'}, and {topic} is read")
    return bounds[topic]


def starting(given: Given, several: Several | None) -> Bound:
    if several is not None and several.starting:
        return "latest"
    found = _end_or_id(given, "startingOffsets", "latest", ("earliest", "latest"))
    return found if isinstance(found, int) else "earliest" if found == "earliest" else "latest"


def _end_or_id(given: Given, name: str, default: str, ends: Sequence[str]) -> str | int:
    text = given.text(name, default).strip().lower()
    if text.startswith("{"):
        text = str(_of_one(given, name, text))
    if text in ends:
        return text
    if text.isdecimal() and int(text) < _IDS_END:
        return int(text)
    raise OptionError(f"option {name} is {' or '.join(ends)}, or an offset, not {text[:80]!r}")


def time(given: Given, name: str, other: str, what: str) -> int | None:
    """A time in ns, where it is given in the place of the `other` option."""
    if not given.has(name):
        return None
    if given.has(other):
        raise OptionError(f"options {other} and {name} both say {what}: give one of them")
    bounds = (_EARLIEST_MS, 9_000_000_000_000)
    return 1_000_000 * bounded(name, given.text(name, ""), int, bounds, "a unix time in milliseconds, a whole number")


def span(given: Given, several: Several | None) -> Span | None:
    if not any(given.has(name) for name in (*BEGINNING, *ENDING)):
        return None
    first: str | int = "earliest"
    end: str | int = "latest"
    if several is None or not several.starting:
        first = _end_or_id(given, "startingOffsets", "earliest", ("earliest",))
    if several is None or not several.ending:
        end = _end_or_id(given, "endingOffsets", "latest", ("latest",))
    since = time(given, "startingTimestamp", "startingOffsets", "where to begin")
    until = time(given, "endingTimestamp", "endingOffsets", "where to end")
    if isinstance(first, int) and isinstance(end, int) and first > end:
        raise OptionError(f"option endingOffsets is {end}, before startingOffsets, which is {first}")
    if since is not None and until is not None and since > until:
        raise OptionError("option endingTimestamp is before startingTimestamp")
    return Span(
        first if isinstance(first, int) else "earliest", since, end if isinstance(end, int) else "latest", until
    )


def least(given: Given, most: int) -> int:
    least = given.whole("minOffsetsPerTrigger", 0, 0, MESSAGES_MAX)
    if least > most:
        other = given.called("maxMessagesPerTrigger")
        raise OptionError(f"option minOffsetsPerTrigger is {least}, more than {other}, which is {most}")
    return least


def delay(given: Given) -> float:
    if given.has("maxTriggerDelay") and not given.has("minOffsetsPerTrigger"):
        raise OptionError("option maxTriggerDelay needs minOffsetsPerTrigger: how many messages it waits for")
    text = given.text("maxTriggerDelay", "15m").strip().lower()
    found = re.fullmatch(r"(\d{1,9})(ms|s|m|h|d)", text)
    if found is None:
        raise OptionError(f"option maxTriggerDelay is a duration, as in 500ms, 30s, 15m or 1h, not {text[:80]!r}")
    return int(found[1]) * _DURATIONS[found[2]]
