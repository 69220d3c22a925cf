"""The input of a page, and its parts: a visit, its parameters, and the kinds of routes.

A page is one function that reads, from a `Visit` to a frozen value, and two renderers of that value: a template for
people, and JSON for programs. An action is one function that changes something, for a form and for the API alike.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from console.rates import Rates
from console.sessions import Session, Undo
from engine.model.queue import QueueName

_SURROGATE = re.compile("[\ud800-\udfff]")
NAME_MAX = 64
TEXT_MAX = 1000


class BadInput(Exception):
    """A parameter or a field is missing, or its value is none that it may have."""


class NotFound(Exception):
    """What was asked for does not exist, or the account may not see it."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of a user who is logged in. `params`: its parameters, or the fields of its form. `now`: the time in
    seconds by a clock that only goes on."""

    session: Session
    params: Mapping[str, str]
    rates: Rates
    now: float
    address: str

    def text(self, name: str, default: str = "", most: int = TEXT_MAX) -> str:
        """A parameter as text. Raises BadInput."""
        value = self.params.get(name, default)
        if len(value) > most or "\0" in value:
            raise BadInput(f"{name}: has more than {most} characters, or a NUL character")
        if _SURROGATE.search(value):
            raise BadInput(f"{name}: has half a character of UTF-16, which no text has")
        return value

    def whole(self, name: str, default: int, most: int) -> int:
        """A parameter as a whole number from 1 on. Raises BadInput."""
        value = self.params.get(name, "")
        if not value:
            return default
        if not (value.isascii() and value.isdigit() and len(value) <= len(str(most)) and 1 <= int(value) <= most):
            raise BadInput(f"{name}: is not a whole number from 1 to {most}")
        return int(value)

    def choice(self, name: str, among: Sequence[str], default: str) -> str:
        """A parameter that has one of some values. Raises BadInput."""
        value = self.params.get(name) or default
        if value not in among:
            raise BadInput(f"{name}: is not one of {', '.join(among)}")
        return value

    @property
    def queue(self) -> QueueName:
        """The parameters `db` and `name`. Raises BadInput."""
        database, table = self.text("db", most=NAME_MAX), self.text("name", most=NAME_MAX)
        if not database or not table:
            raise BadInput("db and name: give the database and the name of a queue")
        return QueueName(database, table)


class Parameter(NamedTuple):
    """One parameter, as the API's description has it."""

    name: str
    meaning: str
    required: bool = False


QUEUE_PARAMETERS = (
    Parameter("db", "the database of the queue", required=True),
    Parameter("name", "the queue's name", required=True),
)

Read = Callable[[Visit], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Page:
    """Something to look at. `path` and `template`: for people; `api`: the path below /api/v1 for programs; either may
    be missing. `refresh`: asked for again and again by an open page, so it does not keep the session alive. `nav`: its
    entry in the navigation."""

    read: Read
    summary: str
    path: str = ""
    template: str = ""
    api: str = ""
    parameters: tuple[Parameter, ...] = ()
    refresh: bool = False
    nav: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """What an action came to. `goto`: the page to show next. `statement`: what was run, with names and without values
    of messages, for the log. `result`: for the API. `sql`: what was run, with its values, for the user who did it; by
    default the statement. `undo`: how it is undone, if it can be. `again`: after a drop, the statement that makes it
    again, without its messages."""

    notice: str
    goto: str
    statement: str
    result: Mapping[str, Any] = field(default_factory=dict)
    sql: str = ""
    undo: Undo | None = None
    again: str = ""


Change = Callable[[Visit], Awaitable[Done]]


@dataclass(frozen=True, slots=True)
class Action:
    """Something that changes something: a POST with the session's token, logged whatever it comes to. `form`: the path
    of the page that has its form: a form that is refused is shown again, with what was filled in."""

    change: Change
    summary: str
    path: str
    api: str
    parameters: tuple[Parameter, ...] = ()
    form: str = ""
