"""ProxyDirectory: the proxies of one database, as a table of that database names them.

Each process writes a row and renews it; who has not done so for `ALIVE_SECONDS` is taken for dead, by the database's
clock. The table is made at first need. Every method is one thread hop and raises BackendError.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.backend.base import StoreConnection, StorePool
from engine.model.errors import BackendError
from engine.model.option_values import NS_PER_SECOND
from engine.store.statements import proxies

BEAT_SECONDS = 10.0
"""How often a row is renewed: one small commit, which even a database at rest does not notice."""

ALIVE_SECONDS = 35.0  # three beats, and half of one for a database that is slow
_FORGET_SECONDS = 3600.0  # rows of the dead; long enough to be looked at after a crash
_NO_SUCH_TABLE = 1146


@dataclass(frozen=True, slots=True)
class ProxyEntry:
    """One process that serves clients of this database.

    `number`: given by the database, later ones higher. `proxy`: the same for all workers of one proxy. `server`: the
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

    def __init__(self, pool: StorePool) -> None:
        self._pool = pool

    async def join(self, entry: ProxyEntry) -> ProxyEntry:
        """Write a new row; returns it with its number and server."""
        return await self._pool.write(lambda connection: _join(connection, entry))

    async def beat(self, me: ProxyEntry) -> tuple[ProxyEntry, list[ProxyEntry]]:
        """Renew the row; returns it as it is now, and all others that are alive."""
        return await self._pool.write(lambda connection: _beat(connection, me))

    async def others(self, me: ProxyEntry) -> list[ProxyEntry]:
        """All others that are alive."""
        return await self._pool.read(lambda connection: _others(connection, me))

    async def leave(self, me: ProxyEntry) -> None:
        """Delete the row."""
        await self._pool.write(lambda connection: connection.execute(proxies.LEAVE, (me.number, me.secret)))


def _join(connection: StoreConnection, entry: ProxyEntry) -> ProxyEntry:
    entry = replace(entry, server=_server(connection))
    values = (entry.proxy, entry.worker, entry.address, entry.secret, entry.server)
    try:
        connection.execute(proxies.JOIN, values)
    except BackendError as error:
        if error.errno != _NO_SUCH_TABLE:
            raise
        connection.execute(proxies.MAKE_TABLE)  # ends the transaction, in which nothing has been done
        connection.execute(proxies.JOIN, values)
    return replace(entry, number=int(connection.query(proxies.JOINED, (entry.secret,))[0][0]))


def _beat(connection: StoreConnection, me: ProxyEntry) -> tuple[ProxyEntry, list[ProxyEntry]]:
    me = replace(me, server=_server(connection))  # another one, perhaps, after a failover
    if not connection.execute(proxies.SEEN, (me.server, me.number, me.secret)):
        values = (me.number, me.proxy, me.worker, me.address, me.secret, me.server)
        connection.execute(proxies.JOIN_AGAIN, values)
    connection.execute(proxies.FORGET, (int(_FORGET_SECONDS * NS_PER_SECOND),))
    return me, _others(connection, me)


def _others(connection: StoreConnection, me: ProxyEntry) -> list[ProxyEntry]:
    rows = connection.query(proxies.ALIVE, (int(ALIVE_SECONDS * NS_PER_SECOND),))
    entries = [
        ProxyEntry(str(proxy), int(worker), str(address), str(secret), int(number), str(server))
        for number, proxy, worker, address, secret, server in rows
    ]
    return [entry for entry in entries if entry.number != me.number]


def _server(connection: StoreConnection) -> str:
    return str(connection.query(proxies.SERVER)[0][0])
