"""OPTIONS of a backend, checked when the backend is created, and the names of queues that follow from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any

from django.core.exceptions import ImproperlyConfigured

_NAME = re.compile(r"[A-Za-z0-9_$-]+")
_OPTION = re.compile(r"[a-z_]+")
_TABLE_CHARACTERS = 59  # a table's name has at most 64, and the dead-letter queue's is five longer
_QUEUE_CHARACTERS = 30  # a result's id is this name, a colon and 32 digits; Django says that ids have less than 64
DEAD = "_dead"
"""The end of the name of a queue's dead-letter queue."""

_FOR_EVER = timedelta(days=36_500)  # a time long before it has no date
_QUEUE_OPTIONS: Mapping[str, str | int] = {"max_attempts": 20, "purge_after": "1h"}
"""Of new queues. A task that ends its worker process each time is a dead letter after so many deliveries. Acked
messages are not needed: results have a table of their own."""


@dataclass(frozen=True, slots=True)
class Options:
    """See docs/django.md. `keep_results`: how long results are stored. `queue_options`: of queues that are created."""

    prefix: str = "tasks_"
    database: str = "default"
    atomic: bool = True
    max_attempts: int = 1
    keep_results: timedelta = timedelta(days=1)
    queue_options: Mapping[str, str | int] = field(default_factory=lambda: _QUEUE_OPTIONS)
    traces: bool = False

    def table(self, queue_name: str) -> str:
        """The name of the queue in the database. Raises ValueError."""
        name = f"{self.prefix}{queue_name}"
        if not _NAME.fullmatch(queue_name):
            raise ValueError(f"queue name {queue_name!r}: only letters, digits, '_', '$' and '-' are allowed")
        if queue_name.endswith(DEAD):
            raise ValueError(f"queue name {queue_name!r}: names that end in {DEAD!r} are those of dead-letter queues")
        if len(queue_name) > _QUEUE_CHARACTERS:
            raise ValueError(f"queue name {queue_name!r}: it has more than {_QUEUE_CHARACTERS} letters")
        if len(name) > _TABLE_CHARACTERS:
            raise ValueError(f"queue name {queue_name!r}: with the prefix it has more than {_TABLE_CHARACTERS} letters")
        return name


def options_of(alias: str, entries: Mapping[str, Any], queue_names: Iterable[str]) -> Options:
    """Reads OPTIONS. Raises ImproperlyConfigured, with the option that is wrong."""
    names = [each.name for each in fields(Options)]
    unknown = sorted(set(entries) - set(names))
    if unknown:
        raise _wrong(alias, f"there is no option {', '.join(unknown)}; there are {', '.join(names)}")
    values = dict(entries)
    try:
        for name in names:
            if name in values:
                values[name] = _READERS[name](values[name])
        options = Options(**values)
        _check_attempts(options)
        for queue_name in queue_names:
            options.table(queue_name)
    except (TypeError, ValueError) as error:
        raise _wrong(alias, str(error)) from error
    return options


def _check_attempts(options: Options) -> None:
    """After the queue's last delivery the message is a dead letter, whatever the task's own number says. 0: no last."""
    deliveries = str(options.queue_options["max_attempts"])
    if deliveries.isdecimal() and 0 < int(deliveries) < options.max_attempts:
        raise ValueError(
            f"max_attempts is {options.max_attempts}, but a queue delivers {deliveries} times: give queue_options a"
            " larger max_attempts, and ALTER QUEUE those that are there"
        )


def _wrong(alias: str, reason: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(f"TASKS[{alias!r}] of queuegate_django: {reason}")


def _prefix(value: object) -> str:
    if not isinstance(value, str) or (value and not _NAME.fullmatch(value)):
        raise ValueError(f"prefix is {value!r}; it is a text of letters, digits, '_', '$' and '-'")
    return value


def _database(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"database is {value!r}; it is a name in DATABASES")
    return value


def _boolean(name: str) -> Callable[[object], bool]:
    def read(value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}; it is True or False")
        return value

    return read


def _max_attempts(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
        raise ValueError(f"max_attempts is {value!r}; it is a number from 1 to 1000000")
    return value


def _keep_results(value: object) -> timedelta:
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        value = timedelta(seconds=min(value, _FOR_EVER.total_seconds()))
    if not isinstance(value, timedelta) or value < timedelta(seconds=1):
        raise ValueError(f"keep_results is {value!r}; it is a timedelta, or seconds, of at least a second")
    return min(value, _FOR_EVER)


def _queue_options(value: object) -> Mapping[str, str | int]:
    if not isinstance(value, Mapping):
        raise ValueError(f"queue_options is {value!r}; it is a dict")
    for name, each in value.items():
        if not isinstance(name, str) or not _OPTION.fullmatch(name) or name in ("message_cols", "dead_letter"):
            raise ValueError(f"queue_options has {name!r}, which is no option, or is set by the backend")
        if isinstance(each, bool) or not isinstance(each, str | int):
            raise ValueError(f"queue_options[{name!r}] is {each!r}; it is a text or a whole number")
    return {**_QUEUE_OPTIONS, **value}


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "prefix": _prefix,
    "database": _database,
    "atomic": _boolean("atomic"),
    "max_attempts": _max_attempts,
    "keep_results": _keep_results,
    "queue_options": _queue_options,
    "traces": _boolean("traces"),
}
