"""Who is connected: the process list, and the way to reach a connection by the id its client sees.

mysql-mimic's Control is the base; ids are the backend's own where clients log in to the backend (so KILL and
CONNECTION_ID() agree), ours otherwise. Beside a server ours begin at FIRST_OWN_ID: they must not be taken for its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from mysql_mimic.constants import KillKind
from mysql_mimic.control import Control

FIRST_OWN_ID = 1 << 30
"""Far above what a server has counted to, and far below the sign bit that some clients see in an id."""

IDS_OF_A_WORKER = 1 << 24
"""Each worker counts in its own range: 64 of them fit below the sign bit."""


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One line of SHOW PROCESSLIST. `seconds` since the state was entered; `info` the running statement, if any.

    `detached`: the database no longer knows this session (its line is gone); its stream goes on without it.
    """

    connection_id: int
    user: str
    host: str
    database: str | None
    command: str
    seconds: int
    state: str
    info: str | None
    streaming: bool
    detached: bool = False
    proxied: bool = False
    """The database does not know this client at all, only the line that it may have there."""
    line_id: int | None = None
    """That line's id, where the client has one."""


class RegisteredConnection(Protocol):
    """What the registry needs of a connection."""

    connection_id: int

    @property
    def user(self) -> str:
        """Its account."""
        ...

    def process_info(self) -> ProcessInfo: ...

    def kill(self, kind: KillKind = KillKind.CONNECTION) -> None: ...

    def finish(self) -> None: ...


class ConnectionRegistry(Control):  # type: ignore[misc]  # mysql-mimic is untyped here
    """All logged-in connections of this process, by id."""

    def __init__(self, first_id: int = 1) -> None:
        self._connections: dict[int, RegisteredConnection] = {}
        self._lines: dict[int, int] = {}  # ids of lines to the database, where clients have other ids than these
        self._ids = itertools.count(first_id)

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[RegisteredConnection]:
        return iter(list(self._connections.values()))

    def new_id(self) -> int:
        """An id nobody has, for backends that give none. MySQL's ids are 32 bits on the wire, so they wrap."""
        while (number := next(self._ids) & 0xFFFFFFFF) in self._connections or number == 0:
            pass
        return number

    async def add(self, connection: RegisteredConnection) -> int:
        self._connections[connection.connection_id] = connection
        return connection.connection_id

    async def remove(self, connection_id: int) -> None:
        self._connections.pop(connection_id, None)

    def forget(self, connection: RegisteredConnection) -> None:
        """As `remove`, if it is still this one: a restarted server counts anew, and another may bear its id by now."""
        if self._connections.get(connection.connection_id) is connection:
            del self._connections[connection.connection_id]

    def add_line(self, line_id: int, connection_id: int) -> Callable[[], None]:
        """The connection can be found by the id of its line, too, until what is returned is called."""
        self._lines[line_id] = connection_id

        def forget() -> None:
            if self._lines.get(line_id) == connection_id:
                del self._lines[line_id]

        return forget

    def get(self, connection_id: int) -> RegisteredConnection | None:
        """The connection of that id, its own or its line's, if it is one of ours."""
        return self._connections.get(connection_id) or self._connections.get(self._lines.get(connection_id, 0))

    async def kill(self, connection_id: int, kind: KillKind = KillKind.CONNECTION) -> None:
        """End a connection, or what it is doing. Unknown ids are ignored: the connection may just have ended."""
        connection = self.get(connection_id)
        if connection is not None:
            connection.kill(kind)

    def alone(self, user: str) -> bool:
        """Whether no client of another account is connected."""
        return all(connection.user == user for connection in self._connections.values())

    def processes(self) -> list[ProcessInfo]:
        """Every connection, by id."""
        return [self._connections[number].process_info() for number in sorted(self._connections)]
