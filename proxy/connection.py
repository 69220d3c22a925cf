"""ClientConnection: one client's command loop.

Lives here: which command goes where. Ordinary commands go to the upstream unread; statements that concern queues go to
the executor; prepared statements that the proxy answers itself are known by their ids. The fast path (`may_relay`) lets
the relay pass a command on from inside its socket callback, without waking this task, when it is plainly ordinary.

mysql-mimic's Connection is the base; its command phase, its handling of results, prepared statements and kills are
replaced (docs/adr/0001-mysql-mimic.md says why and what remains).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from mysql_mimic.connection import Connection
from mysql_mimic.constants import KillKind
from mysql_mimic.stream import ConnectionClosed
from mysql_mimic.types import Commands

from engine.errors import StreamKilled
from proxy import params, wire
from proxy.errors import InternalFault, LoginFailed, ProxyError
from proxy.executor import ClientFault, Executor
from proxy.prepared import FIRST_LOCAL_ID, LocalStatements
from proxy.registry import ProcessInfo
from proxy.stream import PacketStream
from proxy.upstream import Outcome
from rewriter.plan import NO_EFFECTS, Effects, Execute, Passthrough, TransactionVerb, UseDatabase
from rewriter.scanner import Concern, transaction_verb

log = logging.getLogger(__name__)

Handler = Callable[[bytes], Awaitable[None]]

# Replication and administration commands that make no sense through a proxy, or would stop the server behind it.
_REFUSED = frozenset(
    (
        Commands.COM_SLEEP,
        Commands.COM_CREATE_DB,
        Commands.COM_DROP_DB,
        Commands.COM_SHUTDOWN,
        Commands.COM_CONNECT,
        Commands.COM_TIME,
        Commands.COM_DELAYED_INSERT,
        Commands.COM_BINLOG_DUMP,
        Commands.COM_TABLE_DUMP,
        Commands.COM_CONNECT_OUT,
        Commands.COM_REGISTER_SLAVE,
        Commands.COM_DAEMON,
        Commands.COM_BINLOG_DUMP_GTID,
    )
)
_STATEMENT_COMMANDS = frozenset(
    (
        Commands.COM_STMT_EXECUTE,
        Commands.COM_STMT_FETCH,
        Commands.COM_STMT_RESET,
        Commands.COM_STMT_CLOSE,
        Commands.COM_STMT_SEND_LONG_DATA,
    )
)
KILL_SECONDS = 0.5  # time for a killed stream's last bytes to leave, before others get its messages
_ENDS_WITH_CONNECTION = (ConnectionClosed, ConnectionError)


class ClientConnection(Connection):  # type: ignore[misc]  # mysql-mimic is untyped here
    """Serves one logged-in client until it goes, is killed, or its line to the database is lost."""

    def __init__(
        self,
        stream: PacketStream,
        executor: Executor,
        change_user: Callable[[bytes], Awaitable[None]],
        interrupt: Callable[[], None] | None = None,
    ) -> None:
        # mysql-mimic's constructor asks for a session of its own kind; what we use of it is set here.
        self.stream = stream
        self.executor = executor
        self.session = executor.session
        self.connection_id = self.session.identity.connection_id
        self._change_user = change_user
        self._interrupt = interrupt
        self._killed = False
        self._local = LocalStatements(executor)
        self._effects: dict[int, Effects] = {}
        self._fast_effects = NO_EFFECTS
        self._handlers: dict[int, Handler] = {
            Commands.COM_QUERY: self._query,
            Commands.COM_INIT_DB: self._init_db,
            Commands.COM_CHANGE_USER: self._user_change,
            Commands.COM_RESET_CONNECTION: self._reset_connection,
            Commands.COM_STMT_PREPARE: self._prepare,
            Commands.COM_SET_OPTION: self._set_option,
            Commands.COM_PROCESS_KILL: self._process_kill,
            Commands.COM_PROCESS_INFO: self._process_list,
        }

    def __repr__(self) -> str:
        return f"<ClientConnection {self.connection_id} {self.session!r}>"

    def process_info(self) -> ProcessInfo:
        """This connection's line in SHOW PROCESSLIST."""
        return self.session.process_info()

    def kill(self, kind: KillKind = KillKind.CONNECTION) -> None:
        """End the running statement or stream with 1317, or the whole connection."""
        if self.session.subscription is not None:
            self.session.subscription.end(StreamKilled("Query execution was interrupted"))
        elif self._interrupt is not None:
            self._interrupt()
        if kind is KillKind.CONNECTION:
            self._killed = True
            # Let an error for the running statement go out first; an idle client is cut at once.
            loop = asyncio.get_running_loop()
            loop.call_soon(self.stream.close)
            if self.session.subscription is not None:
                # A receiver that has stopped reading would keep its messages until its socket has room again.
                loop.call_later(KILL_SECONDS, self.stream.abort)

    def lost(self, outcome: Outcome) -> None:
        """The line to the database is gone. A client at rest is cut off, as the server itself would have done; a
        running statement is answered first, and a stream goes on, for it does not need that line."""
        if not self.session.running:
            self.stream.close()

    def finish(self) -> None:
        """Shutdown: an idle client is cut at once, a busy one once its statement has been answered."""
        self._killed = True
        if not self.session.running:
            self.stream.close()

    async def serve(self) -> None:
        """The command phase. Returns when the client is gone or must go; the caller closes everything."""
        try:
            while self.session.upstream.alive and not self._killed:
                payload = await self.stream.read_command()
                if not payload:
                    raise ProxyError(1835, "Malformed communication packet: an empty command")
                if payload[0] == Commands.COM_QUIT:
                    return
                await self._dispatch(payload)
        except (LoginFailed, *_ENDS_WITH_CONNECTION):
            return  # nobody is left to tell, or it has been told
        except ClientFault as error:
            # Outside a statement only the packets themselves can be at fault: say so, then hang up.
            await self.executor.fail(error)
        finally:
            await self._local.close()
            report = self.session.abandon()
            if report:
                self.executor.engine.committed(report)

    async def _dispatch(self, payload: bytes) -> None:
        command = payload[0]
        self.session.busy("")
        try:
            handler = self._handlers.get(command)
            if handler is not None:
                await handler(payload)
            elif command in _REFUSED:
                raise ProxyError(1235, f"Command {command:#04x} is not passed on by the proxy; connect to the database")
            elif command in _STATEMENT_COMMANDS:
                await self._statement_command(payload)
            else:
                self.executor.note(await self.session.upstream.command(payload))
        except ClientFault as error:
            if getattr(error, "fatal", False):
                raise
            await self.executor.fail(error)
        except _ENDS_WITH_CONNECTION:
            raise
        except Exception as error:
            # A defect of ours. What state it left behind nobody knows, so the session ends; the client is told.
            log.exception("command %#04x failed", command)
            raise InternalFault from error
        finally:
            self.session.busy(None)

    # --- the fast path: called from the socket callback, for one whole small packet

    def may_relay(self, command: int, body: bytes) -> bool:
        """Whether this command may go straight to the database. Never raises; unsure means no."""
        if not self.session.scope.empty or self.session.notes:
            return False
        if command == Commands.COM_QUERY:
            text = params.query_text(body, self.session.identity.capabilities)
            if text is None:
                return False
            glance = self.executor.planning.scanner.glance(text, self.session.database)
            if glance.concern is Concern.NONE:
                return True
            if glance.concern is Concern.TOUCHES and not glance.effects.catalog:
                self._fast_effects = glance.effects
                return True
            return False
        if command == Commands.COM_STMT_EXECUTE:
            number = int.from_bytes(body[:4], "little")
            effects = self._effects.get(number, NO_EFFECTS)
            if number >= FIRST_LOCAL_ID or effects.catalog:
                return False
            self._fast_effects = effects
            return True
        return bool(command == Commands.COM_PING)

    def relayed(self, command: int, outcome: Outcome) -> None:
        """The answer to a command that `may_relay` let through has ended."""
        effects, self._fast_effects = self._fast_effects, NO_EFFECTS
        self.executor.note(outcome, effects)

    # --- text commands

    async def _query(self, payload: bytes) -> None:
        text = params.query_text(payload[1:], self.session.identity.capabilities)
        if text is None:
            text = params.parse_query(payload[1:], self.session.identity.capabilities)
        self.session.busy(text[:1024].decode(self.session.identity.codec, "replace"))
        if await self.executor.told_notes(text):
            return
        glance = self.executor.planning.scanner.glance(text, self.session.database)
        match glance.concern:
            case Concern.NONE:
                await self.executor.forward(payload, verb=self._verb(text))
            case Concern.TOUCHES:
                await self.executor.forward(payload, glance.effects)
            case Concern.USE | Concern.PLAN:
                await self._run_each(text)

    async def _run_each(self, text: bytes) -> None:
        statements = self.executor.split(text)
        for number, statement in enumerate(statements, 1):
            if not await self.executor.run(statement, more=number < len(statements)):
                return

    def _verb(self, text: bytes) -> TransactionVerb | None:
        """Looked up only when the answer matters."""
        return None if self.session.scope.empty else transaction_verb(text)

    async def _init_db(self, payload: bytes) -> None:
        outcome = await self.executor.forward(payload)
        if outcome.ok:
            self.session.database = payload[1:].decode(self.session.identity.codec, "replace")

    async def _set_option(self, payload: bytes) -> None:
        """Switches multi-statements on (0) or off (1)."""
        outcome = await self.executor.forward(payload)
        if outcome.ok and payload[1:2] == b"\x00":
            self.session.writer.capabilities |= wire.MULTI_STATEMENTS
        elif outcome.ok:
            self.session.writer.capabilities &= ~wire.MULTI_STATEMENTS

    async def _user_change(self, payload: bytes) -> None:
        await self._forget_statements()
        await self._change_user(payload)
        self.executor.note(Outcome(status=self.session.upstream.status), verb=TransactionVerb.ROLLBACK)

    async def _reset_connection(self, payload: bytes) -> None:
        await self._forget_statements()
        await self.executor.forward(payload, verb=TransactionVerb.ROLLBACK)

    async def _process_kill(self, payload: bytes) -> None:
        if len(payload) != 5:
            raise ProxyError(1835, "Malformed communication packet: COM_PROCESS_KILL takes a 4-byte id")
        await self.executor.run(b"KILL %d" % int.from_bytes(payload[1:5], "little"))

    async def _process_list(self, payload: bytes) -> None:
        await self.executor.run(b"SHOW PROCESSLIST")

    # --- prepared statements

    async def _prepare(self, payload: bytes) -> None:
        text = payload[1:]
        glance = self.executor.planning.scanner.glance(text, self.session.database)
        if glance.concern in (Concern.NONE, Concern.TOUCHES):
            await self._prepare_upstream(payload, replace(glance.effects, transaction=transaction_verb(text)))
            return
        match await self.executor.planned(text):
            case Passthrough(effects):
                await self._prepare_upstream(payload, effects)
            case Execute(sql, effects):
                encoded = self.executor.encode(sql)
                await self._prepare_upstream(bytes((Commands.COM_STMT_PREPARE,)) + encoded, effects)
            case UseDatabase():
                raise ProxyError(1295, "This command is not supported in the prepared statement protocol yet")
            case plan:
                await self._local.prepare(plan)

    async def _prepare_upstream(self, payload: bytes, effects: Effects) -> None:
        outcome = await self.executor.forward(payload)
        if outcome.ok and not effects.empty:
            self._effects[outcome.statement_id] = effects

    async def _statement_command(self, payload: bytes) -> None:
        """A command on a prepared statement, ours or the database's."""
        number = int.from_bytes(payload[1:5], "little")
        if number >= FIRST_LOCAL_ID:
            await self._local.command(payload)
            return
        effects = NO_EFFECTS
        if payload[0] == Commands.COM_STMT_EXECUTE:
            effects = self._effects.get(number, NO_EFFECTS)
        elif payload[0] == Commands.COM_STMT_CLOSE:
            self._effects.pop(number, None)
        await self.executor.forward(payload, effects, effects.transaction)

    async def _forget_statements(self) -> None:
        self._effects.clear()
        await self._local.close()
