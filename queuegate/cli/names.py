"""A queue's name on the command line: `queue` or `database.queue`, a part in back-quotes if need be."""

from __future__ import annotations

import json
from dataclasses import dataclass

from engine.model.queue import quoted
from queuegate.cli.failures import ConsoleError
from queuegate.cli.tables import printable


@dataclass(frozen=True, slots=True)
class QueueRef:
    """A queue, with its database where that is explicit."""

    table: str
    database: str | None = None

    @property
    def sql(self) -> str:
        """As a statement names it."""
        return quoted(self.table) if self.database is None else f"{quoted(self.database)}.{quoted(self.table)}"

    def __str__(self) -> str:
        """As it is shown: nothing in it moves the cursor."""
        return printable(self.table if self.database is None else f"{self.database}.{self.table}")


def outcome_object(command: str, name: QueueRef, **details: int) -> str:
    """What a command has done, as a line of JSON for programs."""
    named = {"database": name.database, "queue": name.table}
    return json.dumps({"command": command, **named, **details}, ensure_ascii=False) + "\n"


def read_name(text: str) -> QueueRef:
    """Raises ConsoleError, a mistake in the command line, for what is no name."""
    first, rest = _part(text, text)
    if not rest:
        return QueueRef(first)
    second, left = _part(rest[1:], text, last=True)
    if left:
        raise _mistake(text)
    return QueueRef(second, first)


def _part(text: str, whole: str, *, last: bool = False) -> tuple[str, str]:
    """One part of a name, and what follows it, which begins with the point."""
    if not text.startswith("`"):
        part, point, rest = (text, "", "") if last else text.partition(".")
        left = point + rest
    else:
        part, left = _quoted_part(text, whole)
    if not part or "\0" in part or (left and not left.startswith(".")):
        raise _mistake(whole)
    return part, left


def _quoted_part(text: str, whole: str) -> tuple[str, str]:
    at = 1
    part = ""
    while at < len(text):
        if text[at] != "`":
            part += text[at]
        elif text[at + 1 : at + 2] == "`":
            part += "`"
            at += 1
        else:
            return part, text[at + 1 :]
        at += 1
    raise _mistake(whole)


def _mistake(text: str) -> ConsoleError:
    return ConsoleError(f"{printable(text)!r} is no name of a queue: give `queue`, or `database.queue`", status=2)
