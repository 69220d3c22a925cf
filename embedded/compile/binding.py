"""Values for a plan's placeholders: the statement's own, converted, and those that the session knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

from embedded.compile.compilation import negated
from embedded.compile.errors import SqlError
from embedded.compile.plan import Bind
from embedded.compile.values.temporal import MICROSECONDS, date_text, datetime_text

BOUND_MAX = 128 << 20  # bytes of the large values of a statement, each as often as it is named: two largest packets
_LARGE = 64 << 10  # characters of a value that is counted at all

DynamicKey = tuple[str, tuple[Any, ...]]
Dynamics = Mapping[DynamicKey, Any]


def bind(binds: Sequence[Bind], values: Sequence[Any], dynamics: Dynamics) -> list[Any]:
    """The values in the order of the placeholders.

    Raises:
        SqlError: 1301 the statement names large values so often that there would be too many copies of them.
    """
    result: list[Any] = []
    large = 0
    for one in binds:
        if one.slot < 0:
            result.append(dynamics[(one.dynamic, one.arguments)])
            continue
        value = values[one.slot]
        if isinstance(value, str | bytes) and len(value) > _LARGE:
            large += one.uses * len(value)  # each mention of a variable is a slot of its own
            if large > BOUND_MAX:
                raise SqlError(1301, f"Its values have more than {BOUND_MAX} bytes together: split the statement")
        if one.negative and value is not None:
            value = negated(value)
        result.append(one.convert(value) if one.convert is not None else value)
    return result


def dynamic_values(binds: Sequence[Bind], lookup: Callable[[str, tuple[Any, ...]], Any]) -> dict[DynamicKey, Any]:
    """What the session supplies, looked up once, so that it is the same throughout the statement."""
    return {(one.dynamic, one.arguments): lookup(one.dynamic, one.arguments) for one in binds if one.slot < 0}


def moment_value(name: str, arguments: tuple[Any, ...], now: datetime, zone: tzinfo) -> Any:
    """The current time in one of its forms; `now` is in UTC. Decimals are cut, as MySQL does."""
    local = now if name.startswith("utc") else now.astimezone(zone)
    decimals = arguments[0] if arguments else 0
    local = local.replace(tzinfo=None, microsecond=_cut(local.microsecond, decimals))
    match name:
        case "now" | "utc":
            return datetime_text(local, decimals)
        case "today" | "utc_today":
            return date_text(local)
        case "time" | "utc_time":
            seconds = (local.hour * 60 + local.minute) * 60 + local.second
            return seconds * MICROSECONDS + local.microsecond
        case _:
            return int(now.timestamp())


def _cut(microsecond: int, decimals: int) -> int:
    step = int(10 ** (6 - decimals))
    return microsecond // step * step


MOMENTS = frozenset(("now", "utc", "today", "utc_today", "time", "utc_time", "unix"))


def utc_now() -> datetime:
    return datetime.now(UTC)
