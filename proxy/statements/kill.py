"""KILL, and whether the database or the proxy decides if it is allowed.

Where accounts are the database's it decides; the stream of that connection, which is here, follows its verdict. For
connections that only the proxy knows, and with the proxy's own accounts, the proxy decides.
"""

from __future__ import annotations

from mysql_mimic.constants import KillKind

from engine.model.errors import StreamKilled
from mysql_wire.errors import ProxyError
from mysql_wire.outcome import Outcome
from proxy.cluster.peers import Peers
from proxy.cluster.registry import ProcessInfo
from proxy.session.session import BackendTraits, ClientSession
from proxy.statements.database_commands import DatabaseCommands
from rewriter.plan import Kill


class KillStatement:
    """See the module."""

    def __init__(self, session: ClientSession, peers: Peers, traits: BackendTraits, database: DatabaseCommands) -> None:
        self._session = session
        self._peers = peers
        self._traits = traits
        self._database = database

    async def run_prepared(self, plan: Kill) -> Outcome:
        """A KILL that was prepared."""
        kind = b"QUERY" if plan.query_only else b"CONNECTION"
        return await self.run(plan, b"KILL %s %d" % (kind, plan.connection_id))

    async def run(self, plan: Kill, text: bytes, *, more: bool = False) -> Outcome:
        """Kill, and answer; `text` is what the database is sent."""
        kind = KillKind.QUERY if plan.query_only else KillKind.CONNECTION
        owner = await self._own(plan.connection_id)
        if owner is None and (self._traits.accounts or self._may_kill_foreign()):
            outcome = await self._database.forward(self._database.query(text), more=more)
            if outcome.ok:
                await self._peers.kill(plan.connection_id, kind)
            return outcome
        self._check(plan.connection_id, owner)
        await self._peers.kill(plan.connection_id, kind)
        if owner is not None and owner.connection_id == self._session.identity.connection_id:
            raise StreamKilled("Query execution was interrupted")
        await self._session.writer.ok()
        return Outcome()

    async def _own(self, connection_id: int) -> ProcessInfo | None:
        """The connection, where the database does not know it (any more). Where accounts are the database's, it decides
        on others' nevertheless: another connection may have the id by now."""
        if self._traits.accounts:
            detached = await self._peers.detached(connection_id)
            own = self._session.admin or (detached is not None and detached.user == self._session.identity.user)
            return detached if own else None
        return await self._peers.find(connection_id)

    def _may_kill_foreign(self) -> bool:
        """Connections that are not this proxy's: the database's own account ends them for an admin without limits."""
        return self._traits.one_account and self._session.admin and self._session.rights is None

    def _check(self, connection_id: int, owner: ProcessInfo | None) -> None:
        if owner is None:
            raise ProxyError(1094, f"Unknown thread id: {connection_id}")
        if owner.user != self._session.identity.user and not self._session.admin:
            raise ProxyError(1095, f"You are not owner of thread {connection_id}")
