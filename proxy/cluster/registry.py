"""Who is connected: the process list, and how a connection is found by the id that its client sees.

mysql-mimic's Control is the base; ids are the backend's own where clients log in to the backend (so KILL and
CONNECTION_ID() agree), the proxy's otherwise (`own_ids`).
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from mysql_mimic.constants import KillKind
from mysql_mimic.control import Control

FIRST_OWN_ID = 1 << 30
"""Far above what a server has counted to, and far below the sign bit that some clients see in an id."""


def own_ids(worker: int = 0, workers: int = 1) -> Iterator[int]:
    """The ids that this process gives to its clients: from FIRST_OWN_ID on, so that they differ from the server's, and
    each worker in its own range.

    They begin at a random place: several proxies behind one address each give their own, and a KILL of a client of
    another proxy should find nobody.
    """
    size = FIRST_OWN_ID // workers
    start = secrets.randbelow(size)
    return (FIRST_OWN_ID + worker * size + (start + number) % size for number in itertools.count())


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One row of SHOW PROCESSLIST. `seconds` since the state was entered; `info` the running statement, if any.

    `detached`: the database no longer knows this session (its connection is gone); its stream goes on without it.
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
    """The database does not know this client, only its backend connection, if it has one."""
    backend_id: int | None = None
    """The id of the backend connection, where the client has one."""


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
    """All logged-in connections of this process, by id. `ids`: those it gives to clients if the backend gives none."""

    def __init__(self, ids: Iterator[int] | None = None) -> None:
        self._connections: dict[int, RegisteredConnection] = {}
        self._backend_ids: dict[int, int] = {}  # ids of backend connections, where clients have other ids
        self._ids = itertools.count(1) if ids is None else ids

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[RegisteredConnection]:
        return iter(list(self._connections.values()))

    def new_id(self) -> int:
        """An id no one has, for backends that give none. MySQL's ids are 32 bits on the wire, so they wrap."""
        while (number := next(self._ids) & 0xFFFFFFFF) in self._connections or number == 0:
            pass
        return number

    async def add(self, connection: RegisteredConnection) -> int:
        self._connections[connection.connection_id] = connection
        return connection.connection_id

    async def remove(self, connection_id: int) -> None:
        self._connections.pop(connection_id, None)

    def forget(self, connection: RegisteredConnection) -> None:
        """As `remove`, if it is still this one: a restarted server counts again, and another may bear its id by now."""
        if self._connections.get(connection.connection_id) is connection:
            del self._connections[connection.connection_id]

    def add_backend_id(self, backend_id: int, connection_id: int) -> Callable[[], None]:
        """The client's connection can be found by its backend connection's id, too, until the returned function is
        called."""
        self._backend_ids[backend_id] = connection_id

        def forget() -> None:
            if self._backend_ids.get(backend_id) == connection_id:
                del self._backend_ids[backend_id]

        return forget

    def get(self, connection_id: int) -> RegisteredConnection | None:
        """The client's connection with that id, its own or its backend connection's, if it is one of this process."""
        return self._connections.get(connection_id) or self._connections.get(self._backend_ids.get(connection_id, 0))

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
