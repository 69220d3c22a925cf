"""ProxyDirectory: the proxies of one database, listed in a table of that database.

Each process writes a row and renews it; a process that has not done so for `ALIVE_SECONDS` counts as dead, by the
database's clock. The table is created when it is not there. Every method is one thread hop and raises BackendError.

Each row also has the engine's database sessions of that process. Another proxy at the same server kills the sessions of
a process that is not seen: it may be frozen, with locks that stop all other deliveries. The server does the same, and
sooner (engine.backend.sessions); but a connection pool or another proxy in between may have other settings.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from engine.backend.base import StoreConnection, StorePool
from engine.model.errors import BackendError, BackendUnavailable, MissingTableAllowed
from engine.model.option_values import NS_PER_SECOND
from engine.store.statements import proxies

BEAT_SECONDS = 10.0
"""How often a row is renewed: one small commit, which even an idle database does not notice."""

ALIVE_SECONDS = 35.0  # three beats, and half of one for a database that is slow
UNSEEN_SECONDS = 15.0
"""A beat and a half: then the sessions of a process that has no link either are killed. A process that was only late
loses no more than a claim in progress."""

_FORGET_SECONDS = 3600.0  # rows of dead processes; long enough to be inspected after a crash
_NO_SUCH_COLUMN, _HAS_THAT_COLUMN = 1054, 1060
_SESSIONS_MAX = 4000  # characters, as the column has


@dataclass(frozen=True, slots=True)
class ProxyEntry:
    """One process that serves clients of this database.

    `number`: assigned by the database, later ones higher. `proxy`: the same for all workers of one proxy. `server`: the
    database server it is connected to.
    """

    proxy: str
    worker: int
    address: str
    secret: str
    number: int = 0
    server: str = ""


class ProxyDirectory:
    """See the module."""

    def __init__(self, pool: StorePool, sessions: Callable[[], Iterable[str]] = tuple) -> None:
        """`sessions`: what this process has at the server now."""
        self._pool, self._sessions = pool, sessions
        self._stored_sessions = ""
        self._stores_sessions = True

    async def join(self, entry: ProxyEntry) -> ProxyEntry:
        """Write a new row; returns it with its number and server."""
        return await self._pool.write(lambda connection: _join(connection, entry))

    async def beat(self, me: ProxyEntry) -> tuple[ProxyEntry, list[ProxyEntry]]:
        """Renew the row; returns it as it is now, with another number perhaps, and all others that are alive."""
        me, others, rejoined = await self._pool.write(lambda connection: _beat(connection, me))
        self._stored_sessions = "" if rejoined else self._stored_sessions
        await self._update_sessions(me)
        return me, others

    async def _update_sessions(self, me: ProxyEntry) -> None:
        """Write this process's sessions at the server, if they have changed. Not where the table, created by an earlier
        version, has no column for them and the account may not add one."""
        sessions = _as_text(self._sessions())
        if not self._stores_sessions or sessions == self._stored_sessions:
            return
        try:
            await self._pool.write(lambda connection: _write_sessions(connection, me, sessions))
        except BackendError as error:
            if isinstance(error, BackendUnavailable):
                raise
            self._stores_sessions = False
        else:
            self._stored_sessions = sessions

    async def fence(self, me: ProxyEntry, linked: Collection[int]) -> list[str]:
        """Kill the sessions, at the same server, of all processes that are not seen and not linked; returns the
        addresses of those that had sessions."""
        return await self._pool.read(lambda connection: _fence(connection, me, linked)) if self._stores_sessions else []

    async def others(self, me: ProxyEntry) -> list[ProxyEntry]:
        """All others that are alive."""
        return await self._pool.read(lambda connection: _others(connection, me))

    async def leave(self, me: ProxyEntry) -> None:
        """Delete the row."""
        await self._pool.write(lambda connection: connection.execute(proxies.LEAVE, (me.number, me.secret)))


def _join(connection: StoreConnection, entry: ProxyEntry) -> ProxyEntry:
    entry = replace(entry, server=_server(connection))
    values = (entry.proxy, entry.worker, entry.address, entry.secret, entry.server)
    _check_table(connection)
    connection.execute(proxies.JOIN, values)
    return replace(entry, number=int(connection.query(proxies.JOINED, (entry.secret,))[0][0]))


def _check_table(connection: StoreConnection) -> None:
    """It is there, or created now. Raises BackendError."""
    with MissingTableAllowed():
        connection.query(proxies.PROOF)
        return
    connection.execute(proxies.MAKE_TABLE)  # ends the transaction, in which nothing has been done
    connection.query(proxies.PROOF)


def _beat(connection: StoreConnection, me: ProxyEntry) -> tuple[ProxyEntry, list[ProxyEntry], bool]:
    """`beat`, and whether the row was written again."""
    me = replace(me, server=_server(connection))  # another one, perhaps, after a failover
    if rejoined := not _seen(connection, me):
        me = _join_again(connection, me)
    connection.execute(proxies.FORGET, (int(_FORGET_SECONDS * NS_PER_SECOND),))
    return me, _others(connection, me), rejoined


def _seen(connection: StoreConnection, me: ProxyEntry) -> bool:
    """Renew the row. Returns whether there is one."""
    with MissingTableAllowed():
        return bool(connection.execute(proxies.SEEN, (me.server, me.number, me.secret)))
    return False


def _join_again(connection: StoreConnection, me: ProxyEntry) -> ProxyEntry:
    """Its row was deleted, or the table was. The number is its own still, unless another process has got it since."""
    _check_table(connection)
    if connection.query(proxies.TAKEN, (me.number,))[0][0]:
        return _join(connection, me)
    values = (me.number, me.proxy, me.worker, me.address, me.secret, me.server)
    connection.execute(proxies.JOIN_AGAIN, values)
    return me


def _others(connection: StoreConnection, me: ProxyEntry) -> list[ProxyEntry]:
    rows = connection.query(proxies.ALIVE, (int(ALIVE_SECONDS * NS_PER_SECOND),))
    entries = [
        ProxyEntry(str(proxy), int(worker), str(address), str(secret), int(number), str(server))
        for number, proxy, worker, address, secret, server in rows
    ]
    return [entry for entry in entries if entry.number != me.number]


def _write_sessions(connection: StoreConnection, me: ProxyEntry, sessions: str) -> None:
    values = (sessions, me.number, me.secret)
    try:
        connection.execute(proxies.SESSIONS, values)
    except BackendError as error:
        if error.errno != _NO_SUCH_COLUMN:
            raise
        try:
            connection.execute(proxies.ADD_SESSIONS)  # ends the transaction, in which nothing has been done
        except BackendError as failed:
            if failed.errno != _HAS_THAT_COLUMN:  # another proxy was quicker
                raise
        connection.execute(proxies.SESSIONS, values)


def _fence(connection: StoreConnection, me: ProxyEntry, linked: Collection[int]) -> list[str]:
    rows = connection.query(proxies.UNSEEN, (me.server, me.proxy, int(UNSEEN_SECONDS * NS_PER_SECOND)))
    ended = []
    for number, address, sessions, seen in rows:
        if int(number) in linked:
            continue
        places = list(_places(str(sessions)))
        left = (
            connection.query(proxies.left(len(places)), [part for place in places for part in place]) if places else []
        )
        for (session,) in left:
            with contextlib.suppress(BackendError):  # it may end in the same moment
                connection.execute(f"KILL {int(session)}")
        if left:
            ended.append(str(address))
        connection.execute(proxies.FENCED, (int(number), int(seen)))
    return ended


def _as_text(sessions: Iterable[str]) -> str:
    """As many of them as there is room for."""
    text = ""
    for session in sessions:
        if len(text) + len(session) < _SESSIONS_MAX:
            text += f" {session}" if text else session
    return text


def _places(text: str) -> Iterator[tuple[int, str]]:
    """Number and address of each session; without what is none."""
    for session in text.split():
        number, _, host = session.partition("@")
        if number.isdecimal() and host:
            yield int(number), host


def _server(connection: StoreConnection) -> str:
    return str(connection.query(proxies.SERVER)[0][0])
