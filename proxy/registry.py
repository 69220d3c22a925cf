"""Who is connected: the process list, and the way to reach a connection by the id its client sees.

mysql-mimic's Control is the base; ids are the backend's own where clients log in to the backend (so KILL and
CONNECTION_ID() agree), ours otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from mysql_mimic.constants import KillKind
from mysql_mimic.control import Control


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


class RegisteredConnection(Protocol):
    """What the registry needs of a connection."""

    connection_id: int

    def process_info(self) -> ProcessInfo: ...

    def kill(self, kind: KillKind = KillKind.CONNECTION) -> None: ...

    def finish(self) -> None: ...


class ConnectionRegistry(Control):  # type: ignore[misc]  # mysql-mimic is untyped here
    """All logged-in connections of this process, by id."""

    def __init__(self) -> None:
        self._connections: dict[int, RegisteredConnection] = {}
        self._ids = itertools.count(1)

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

    def get(self, connection_id: int) -> RegisteredConnection | None:
        """The connection of that id, if it is one of ours."""
        return self._connections.get(connection_id)

    async def kill(self, connection_id: int, kind: KillKind = KillKind.CONNECTION) -> None:
        """End a connection, or what it is doing. Unknown ids are ignored: the connection may just have ended."""
        connection = self._connections.get(connection_id)
        if connection is not None:
            connection.kill(kind)

    def processes(self) -> list[ProcessInfo]:
        """Every connection, by id."""
        return [self._connections[number].process_info() for number in sorted(self._connections)]
