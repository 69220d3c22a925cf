"""ClientConnection: one client's command loop.

Lives here: which command goes where. Ordinary commands go to the upstream unread; statements on queues go to
the executor; prepared statements that the proxy answers itself are known by their ids. The fast path (`may_relay`) lets
the relay pass a command on from inside its socket callback, without waking this task, when it is plainly ordinary.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from mysql_mimic.constants import KillKind
from mysql_mimic.stream import ConnectionClosed
from mysql_mimic.types import Commands

from engine.model.errors import StreamKilled
from mysql_wire import replies
from mysql_wire.answer_walker import UNANSWERED, parse_err
from mysql_wire.command_pieces import LARGE_BYTES
from mysql_wire.errors import ProxyError
from mysql_wire.outcome import Outcome
from mysql_wire.packets import HEADER_BYTES, PAYLOAD_MAX
from proxy.cluster.registry import ProcessInfo
from proxy.commands.fast_commands import FastCommands
from proxy.commands.statement_commands import STATEMENT_COMMANDS, StatementCommands
from proxy.commands.text_commands import TextCommands
from proxy.errors import InternalFault, LoginFailed, RefusedByServer
from proxy.statements.executor import ClientFault, Executor
from proxy.transport import tcp
from proxy.transport.client_socket import ClientSocket
from proxy.upstream.fast_path import RelayListener
from proxy.upstream.large_command import LargeCommand
from rewriter.plan import NO_EFFECTS, TransactionVerb

log = logging.getLogger(__name__)

Handler = Callable[[bytes], Awaitable[None]]

# What makes no sense through a proxy, would stop the server behind it, or is nothing that a client may send.
_REFUSED = frozenset(
    (
        Commands.COM_SLEEP,
        Commands.COM_CREATE_DB,
        Commands.COM_DROP_DB,
        Commands.COM_SHUTDOWN,
        Commands.COM_CONNECT,
        Commands.COM_TIME,
        Commands.COM_DELAYED_INSERT,
        Commands.COM_TABLE_DUMP,
        Commands.COM_CONNECT_OUT,
        Commands.COM_DAEMON,
    )
)
_KILLED = 1927  # ER_CONNECTION_KILLED, which MariaDB sends to idle connections
KILL_SECONDS = 0.5  # time for a killed stream's last bytes to leave, before others get its messages
TURN_SECONDS = 0.005  # of commands that were sent ahead, until others have their turn
_ENDS_WITH_CONNECTION = (ConnectionClosed, ConnectionError)


class ClientConnection(RelayListener):
    """Serves one logged-in client until it disconnects, is killed, or its connection to the database is lost."""

    def __init__(
        self,
        client: ClientSocket,
        executor: Executor,
        change_user: Callable[[bytes], Awaitable[None]],
        interrupt: Callable[[], None] | None = None,
    ) -> None:
        self.client = client
        self.executor = executor
        self.session = executor.session
        self.connection_id = self.session.identity.connection_id
        self._change_user = change_user
        self._interrupt = interrupt
        self._killed = False
        # The embedded database takes no command in pieces. One of several packets is read in pieces nevertheless, so
        # that what is too large is refused when all of it has come, for clients listen only then.
        self._in_pieces = executor.traits.accounts or executor.traits.one_account
        commands = client.commands
        commands.large_from = min(LARGE_BYTES if self._in_pieces else PAYLOAD_MAX, commands.max_packet_bytes + 1)
        self._text = TextCommands(client, executor)
        self._statements = StatementCommands(executor)
        self._fast = FastCommands(executor, self._statements.upstream)
        self.may_relay = self._fast.may_relay  # type: ignore[method-assign]  # saves a call for each command
        self._dumping = False
        self._turn_ends: float | None = None  # of a client that sends ahead
        self._handlers: dict[int, Handler] = {
            Commands.COM_QUERY: self._text.query,
            Commands.COM_INIT_DB: self._text.init_db,
            Commands.COM_CHANGE_USER: self._user_change,
            Commands.COM_RESET_CONNECTION: self._reset_connection,
            Commands.COM_STMT_PREPARE: self._statements.prepare,
            Commands.COM_SET_OPTION: self._set_option,
            Commands.COM_PROCESS_KILL: self._process_kill,
            Commands.COM_PROCESS_INFO: self._process_list,
            Commands.COM_BINLOG_DUMP: self._binlog_dump,
            Commands.COM_BINLOG_DUMP_GTID: self._binlog_dump,
        }

    def __repr__(self) -> str:
        return f"<ClientConnection {self.connection_id} {self.session!r}>"

    @property
    def user(self) -> str:
        """Its account."""
        return self.session.identity.user

    def process_info(self) -> ProcessInfo:
        """This connection's row in SHOW PROCESSLIST."""
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
            loop.call_soon(self.client.close)
            if self.session.subscription is not None:
                # A receiver that has stopped reading would keep its messages leased until its socket has room again.
                loop.call_later(KILL_SECONDS, self.client.abort)

    @property
    def client_stays(self) -> bool:
        """See RelayListener. Rights are checked by that connection during a stream, which does not need it."""
        return self.session.subscription is not None

    def lost(self, outcome: Outcome, *, reset: bool) -> None:
        """The connection to the database is gone. A client idle is cut off, as the server itself would have done; a
        running statement is answered first, and a stream goes on, for it does not need that connection."""
        if reset and self.client.idle and not self.client.unsent:
            tcp.end_with_reset(self.client.socket)  # drivers distinguish it from an end
        if not self.session.running:
            self.client.close()

    def on_closing_error(self, packet: bytes) -> None:
        """The server sends the reason why it is about to close the connection. An idle client gets it, as without
        the proxy; one that receives a stream goes on, unless it was killed at the server."""
        if self.client.idle:
            self.client.write_framed(packet)
        elif self.session.subscription is not None and parse_err(packet[HEADER_BYTES:]).errno == _KILLED:
            self.kill()

    def finish(self) -> None:
        """Shutdown: an idle client is cut at once, a busy one once its statement has been answered; a replica, which is
        sent events without an end, at once.

        To be called again until the connection has ended: who takes the fast path does not come by here in between.
        """
        self._killed = True
        if self._dumping or (not self.session.running and not self.client.relaying):
            self.client.close()

    async def serve(self) -> None:
        """The command phase. Returns when the client is gone or must go; the caller closes everything."""
        try:
            while self.session.upstream.alive and not self._killed:
                payload = await self._next_command()
                if not payload:
                    raise ProxyError(1835, "Malformed communication packet: an empty command")
                if payload[0] == Commands.COM_QUIT:
                    self.client.quit_received = True
                    return
                await self._dispatch(payload)
                if self.executor.database.excess is not None:
                    self._end_with(self.executor.database.excess)
                    return
                del payload  # until the next command, which may be in hours, a large one must not be stored
        except (LoginFailed, *_ENDS_WITH_CONNECTION):
            return  # no one is left, or the client has its error
        except ClientFault as error:
            # Outside a statement only the packets themselves can be at fault: send the error, then close.
            with contextlib.suppress(*_ENDS_WITH_CONNECTION):
                await self.executor.fail(error)
        finally:
            await self._statements.close()
            report = self.session.abandon()
            if report:
                self.executor.engine.committed(report)

    async def _next_command(self) -> bytes:
        """A client that sends ahead lets others have their turn: to read what has come already is no wait."""
        if not self.client.commands.unread:
            self._turn_ends = None
        elif self._turn_ends is None:
            self._turn_ends = asyncio.get_running_loop().time() + TURN_SECONDS
        elif asyncio.get_running_loop().time() >= self._turn_ends:
            self._turn_ends = None
            await asyncio.sleep(0)
        return await self.client.read_command()

    async def _dispatch(self, payload: bytes) -> None:
        command = payload[0]
        self.session.busy("")
        if command != Commands.COM_QUERY and command not in UNANSWERED:
            self.session.notes = ()  # of the statement before; a text may be SHOW WARNINGS
        try:
            if self.client.commands.pieces is None:
                await self._handle(payload)
            else:
                await self._large(LargeCommand(self.client, payload))
                await self._skip_rest()
        except ClientFault as error:
            if getattr(error, "fatal", False):
                raise
            await self._skip_rest()
            if command not in UNANSWERED:  # an answer would be taken for that of the next command
                await self.executor.fail(error)
        except _ENDS_WITH_CONNECTION:
            raise
        except Exception as error:
            # A defect of the proxy. The state after it is unknown, so the session ends with an error.
            log.exception("command %#04x failed", command)
            raise InternalFault from error
        finally:
            self.session.busy(None)

    async def _skip_rest(self) -> None:
        """Of a command that was refused, or came to nothing, before all of it had been read."""
        while await self.client.read_piece():
            pass

    async def _handle(self, payload: bytes) -> None:
        command = payload[0]
        handler = self._handlers.get(command)
        if handler is not None:
            await handler(payload)
        elif command in _REFUSED:
            raise ProxyError(1235, f"Command {command:#04x} is not passed on by the proxy; connect to the database")
        elif command in STATEMENT_COMMANDS:
            await self._statements.command(payload)
        else:
            self.executor.database.note(await self.session.upstream.command(payload))

    async def _large(self, large: LargeCommand) -> None:
        """Passed on while it comes, where its beginning shows that the database may have it; else as any other."""
        command = large.head[0]
        passed_on = False
        if self.session.rights is None and self._in_pieces:  # else it is to be judged, or run, whole
            if command in STATEMENT_COMMANDS:
                passed_on = await self._statements.pass_on(large)
            elif command == Commands.COM_QUERY:
                passed_on = await self._text.pass_on(large)
        if not passed_on:
            await self._handle(await large.whole())

    # --- the fast path

    def refused(self, error: Outcome) -> bytes:
        return self._fast.refused(error)

    def relayed(self, command: int, outcome: Outcome) -> None:
        """A command that `may_relay` let through has been answered, and not just as the one before."""
        fast = self._fast
        effects, fast.effects = fast.effects, NO_EFFECTS
        verb, fast.verb = fast.verb, None
        leased, fast.leased = fast.leased, None
        birth = None if leased is None else leased.birth
        self.executor.database.note(outcome, effects, verb, fast.sent_at, birth)
        if self.executor.database.excess is not None:
            self._killed = True
            self._end_with(self.executor.database.excess)

    def _end_with(self, error: ProxyError) -> None:
        """Disconnect an idle client; its next read gets the reason."""
        capabilities = self.session.identity.capabilities
        packet = replies.err_packet(capabilities, error.errno, error.sqlstate, error.message)
        # Numbered as the answer to a command, for the client reads it as such.
        self.client.write_framed(len(packet).to_bytes(3, "little") + b"\x01" + packet)
        self.client.close()

    # --- commands

    async def _set_option(self, payload: bytes) -> None:
        """Switches multi-statements on (0) or off (1)."""
        outcome = await self.executor.database.forward(payload)
        if outcome.ok and payload[1:2] == b"\x00":
            self.session.writer.capabilities |= replies.MULTI_STATEMENTS
        elif outcome.ok:
            self.session.writer.capabilities &= ~replies.MULTI_STATEMENTS

    async def _user_change(self, payload: bytes) -> None:
        await self._statements.forget()
        try:
            await self._change_user(payload)
        except RefusedByServer:
            pass  # it has its error. MySQL hangs up; MariaDB goes on with the user from before, in a session made new
        self.executor.database.note(Outcome(status=self.session.upstream.status), verb=TransactionVerb.ROLLBACK)
        await self.session.release_retained()

    async def _reset_connection(self, payload: bytes) -> None:
        await self._statements.forget()
        await self.executor.database.forward(payload, verb=TransactionVerb.ROLLBACK)
        await self.session.release_retained()
        self.session.reset()

    async def _process_kill(self, payload: bytes) -> None:
        if len(payload) != 5:
            raise ProxyError(1835, "Malformed communication packet: COM_PROCESS_KILL takes a 4-byte id")
        await self.executor.run(b"KILL %d" % int.from_bytes(payload[1:5], "little"))

    async def _process_list(self, payload: bytes) -> None:
        await self.executor.run(b"SHOW PROCESSLIST")

    async def _binlog_dump(self, payload: bytes) -> None:
        self._dumping = True
        try:
            self.executor.database.note(await self.session.upstream.command(payload))
        finally:
            self._dumping = False
