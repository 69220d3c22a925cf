"""The server: what every client passes on its way in and out.

mysql-mimic's MysqlServer is the base (close, sockets); its stream-based accept is replaced by a protocol of
callbacks, which is what lets ordinary statements be relayed without a task switch.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence

from mysql_mimic.server import MysqlServer

from engine.engine import Engine
from engine.model.errors import BackendUnavailable
from mysql_wire.errors import ProxyError, ReadTimeout
from mysql_wire.login import LOGIN_PACKET_MAX_BYTES
from proxy.cluster.peers import Peers
from proxy.commands.connection import ClientConnection
from proxy.config import Config
from proxy.errors import LoginFailed, StreamClosed
from proxy.gateways.database_accounts import Gateway, Opened
from proxy.listen.admission import Admission, ClientSlot
from proxy.listen.listener import Acceptor
from proxy.listen.sweeper import Sweeper
from proxy.login.carried_login import refusal
from proxy.session.open_transactions import OpenTransactions
from proxy.statements.executor import Executor
from proxy.statements.planning import Planning
from proxy.transport import tcp
from proxy.transport.client_socket import ClientSocket

log = logging.getLogger(__name__)

LOGIN_SLACK_SECONDS = (
    1.0  # a gateway keeps the login's time itself and reports to the client; this is for one that hangs
)
_TIMED_OUT = ReadTimeout().errno
DRAIN_POLL_SECONDS = 0.1  # how often the shutdown checks whether the rest makes progress
STUCK_SECONDS = 1.0  # a client that took no byte for so long while all others have ended will not let us end in order


class ProxyServer(MysqlServer):  # type: ignore[misc]  # mysql-mimic is untyped here
    """Accepts clients, logs them in, and serves each in a task of its own."""

    def __init__(
        self,
        gateway: Gateway,
        engine: Engine,
        planning: Planning,
        peers: Peers,
        admission: Admission,
        config: Config,
    ) -> None:
        super().__init__(control=peers.registry)
        self._gateway = gateway
        self._engine = engine
        self._planning = planning
        self._peers = peers
        self._registry = peers.registry
        self._admission = admission
        self._config = config
        self._limits = config.limits
        self._transactions = OpenTransactions(-(-config.limits.transactions_per_account // config.workers))
        self._sweeper = Sweeper()
        self._tasks: dict[asyncio.Task[None], ClientSocket] = {}

    def accept_from(self, sockets: Sequence[socket.socket]) -> None:
        """Accept clients from now on. The sockets stay their owner's, to be closed after `close`."""
        for listening in sockets:
            tcp.tune_listening(listening)
        self._server = Acceptor(sockets, self._new_stream, self._admission.tally, self._admission.drops_silently)
        self._admission.tally.set_present(True)

    def close(self) -> None:
        """Accept no more."""
        self._admission.tally.set_present(False)
        super().close()

    def _new_stream(self) -> ClientSocket:
        return ClientSocket(self._accepted, max_packet_bytes=LOGIN_PACKET_MAX_BYTES)

    def _accepted(self, client: ClientSocket) -> None:
        try:
            slot = self._admission.admit_connection(host_of(client))
        except ProxyError as error:
            client.write_many([refusal(client, error)])
            client.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(client, slot))
        slot.waiting_since = lambda: client.waiting_since
        slot.drop = lambda error: _drop(client, task, error)
        self._tasks[task] = client
        task.add_done_callback(lambda done: self._finished(done, slot))

    def _finished(self, task: asyncio.Task[None], slot: ClientSlot) -> None:
        slot.leave()
        client = self._tasks.pop(task)
        client.close()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("connection failed", exc_info=error, extra={"peer": client.peername})

    async def _serve(self, client: ClientSocket, slot: ClientSlot) -> None:
        opened = await self._log_in(client, slot)
        if opened is None:
            return
        session = opened.session
        client.commands.max_packet_bytes = self._limits.max_packet_size
        executor = Executor(
            session,
            self._engine,
            self._planning,
            self._peers,
            self._gateway.traits,
            allow_drop_table=self._config.queues.allow_drop_table,
            transactions=self._transactions,
        )

        async def change_user(payload: bytes) -> None:
            slot.check()
            try:
                await opened.change_user(payload)
            except LoginFailed as error:
                slot.failed(error.errno)
                raise

        connection = ClientConnection(client, executor, change_user, opened.interrupt)
        opened.attach(connection)
        await self._registry.add(connection)
        self._sweeper.add(client, opened.idle_seconds or self._idle_seconds, opened.idle_message)
        try:
            await connection.serve()
        finally:
            self._sweeper.discard(client)
            self._registry.forget(connection)
            await session.upstream.close()
            await session.release_retained()  # of messages whose rows its transaction may have locked until now
            executor.database.transactions.end()

    def _idle_seconds(self) -> float:
        return self._limits.idle_timeout

    async def _log_in(self, client: ClientSocket, slot: ClientSlot) -> Opened | None:
        """A session, or None once the client has been sent the reason."""
        turn = slot.turn()
        try:
            if not turn.done():
                async with asyncio.timeout(self._limits.login_timeout):
                    await turn
        except TimeoutError:
            await self._refuse(client, ProxyError(1040, "Too many connections"))
            return None
        try:
            async with asyncio.timeout(self._limits.login_timeout + LOGIN_SLACK_SECONDS):
                return await self._gateway.login(client, slot.admit)
        except TimeoutError:
            log.info("login took too long", extra={"peer": client.peername})
            slot.login_aborted()
        except LoginFailed as error:
            slot.failed(error.errno)  # it has its error
            if error.errno == _TIMED_OUT:
                slot.login_aborted()
        except (StreamClosed, ConnectionError):
            slot.login_aborted()  # it went away before it had logged in: port scanners and health checks do
        except (ProxyError, BackendUnavailable) as error:
            await self._refuse(client, error)
        finally:
            slot.logged_in()
        return None

    async def _refuse(self, client: ClientSocket, error: ProxyError | BackendUnavailable) -> None:
        try:
            await client.write(refusal(client, error))
        except (StreamClosed, ConnectionError):
            pass  # no client left to notify

    async def drain(self, grace_seconds: float) -> None:
        """End all connections, those in mid-statement after it; cut what is left after the grace time.

        Clients that read nothing are cut as soon as no one else is left: their leases are given back already, and what
        they do not take now they will not take later.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_seconds
        moved_at, before = loop.time(), self._unsent()
        while self._tasks and (now := loop.time()) < deadline:
            for connection in self._registry:
                connection.finish()
            await asyncio.wait(list(self._tasks), timeout=min(DRAIN_POLL_SECONDS, deadline - now))
            left = self._unsent()
            if left != before or not all(client.stuck for client in self._tasks.values()):
                moved_at, before = loop.time(), left
            elif loop.time() - moved_at >= STUCK_SECONDS:
                break
        for task, client in list(self._tasks.items()):
            client.abort()
            task.cancel()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._sweeper.close()

    def _unsent(self) -> list[int]:
        """What every client has yet to take: it changes as long as any of them reads."""
        return [client.unsent for client in self._tasks.values()]


def _drop(client: ClientSocket, task: asyncio.Task[None], error: ProxyError) -> None:
    """Others want the place of a client that has not logged in."""
    if not client.encrypting:
        client.write_many([refusal(client, error)])
    client.close()
    task.cancel()


def host_of(client: ClientSocket) -> str:
    """The client's address as text; of a unix socket there is none."""
    return str(client.peername[0]) if client.peername else "localhost"
