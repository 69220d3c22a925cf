"""A queue's name on the command line: `queue` or `database.queue`, a part in back-quotes if need be."""

from __future__ import annotations

import json
from dataclasses import dataclass

from engine.model.queue import quoted
from mysql_client.driver import is_utf_8, name_parts
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
    if not is_utf_8(text):
        raise ConsoleError(f"{printable(text)!r} is no name of a queue: it is not UTF-8", status=2)
    try:
        *database, table = name_parts(text)
    except ValueError:
        raise ConsoleError(
            f"{printable(text)!r} is no name of a queue: give `queue`, or `database.queue`; a part with a point or a"
            " back-quote stands in back-quotes",
            status=2,
        ) from None
    return QueueRef(table, *database)
