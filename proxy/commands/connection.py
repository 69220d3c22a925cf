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
from dataclasses import replace

from mysql_mimic.constants import KillKind
from mysql_mimic.stream import ConnectionClosed
from mysql_mimic.types import Commands

from engine.model.errors import StreamKilled
from proxy.cluster.registry import ProcessInfo
from proxy.commands.prepared import LocalStatements, rebind
from proxy.commands.upstream_statements import EXECUTIONS, UpstreamStatements
from proxy.errors import InternalFault, LoginFailed, ProxyError, RefusedByServer
from proxy.login.system_database import is_system
from proxy.session.guard import judged_as_plan
from proxy.statements.executor import ClientFault, Executor
from proxy.transport import tcp
from proxy.transport.client_socket import ClientSocket
from proxy.upstream.fast_path import FastPath
from proxy.upstream.large_command import LargeCommand
from proxy.wire import replies, requests
from proxy.wire.answer_walker import BULK_EXECUTE, UNANSWERED, parse_err
from proxy.wire.command_pieces import LARGE_BYTES
from proxy.wire.outcome import Outcome
from proxy.wire.packets import HEADER_BYTES, PAYLOAD_MAX, frame
from proxy.wire.requests import FIRST_LOCAL_ID
from rewriter.grammar.quick_ids import VERBS
from rewriter.plan import (
    NO_EFFECTS,
    Effects,
    EndInGroup,
    Execute,
    InsertAfterGroup,
    Passthrough,
    TransactionVerb,
    UseDatabase,
)
from rewriter.scan.large_text import LargeText
from rewriter.scan.scanner import StatementClass, transaction_verb
from rewriter.text.transaction_verbs import verb_of

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
_STATEMENT_COMMANDS = frozenset(
    (
        Commands.COM_STMT_EXECUTE,
        Commands.COM_STMT_FETCH,
        Commands.COM_STMT_RESET,
        Commands.COM_STMT_CLOSE,
        Commands.COM_STMT_SEND_LONG_DATA,
        BULK_EXECUTE,
    )
)
_QUICK_VERBS = tuple(verb.encode("ascii") for verb in VERBS)
# Plain numbers: an enum's members cost more to compare than the rest of the decision.
_QUERY, _EXECUTE, _PING = int(Commands.COM_QUERY), int(Commands.COM_STMT_EXECUTE), int(Commands.COM_PING)
_KILLED = 1927  # ER_CONNECTION_KILLED, which MariaDB sends to idle connections
KILL_SECONDS = 0.5  # time for a killed stream's last bytes to leave, before others get its messages
_ENDS_WITH_CONNECTION = (ConnectionClosed, ConnectionError)


class ClientConnection:
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
        self._local = LocalStatements(executor)
        self._statements = UpstreamStatements()
        self._dumping = False
        self._fast_effects = NO_EFFECTS
        self._sent_at: float | None = None
        self._handlers: dict[int, Handler] = {
            Commands.COM_QUERY: self._query,
            Commands.COM_INIT_DB: self._init_db,
            Commands.COM_CHANGE_USER: self._user_change,
            Commands.COM_RESET_CONNECTION: self._reset_connection,
            Commands.COM_STMT_PREPARE: self._prepare,
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
                payload = await self.client.read_command()
                if not payload:
                    raise ProxyError(1835, "Malformed communication packet: an empty command")
                if payload[0] == Commands.COM_QUIT:
                    self.client.quit_received = True
                    return
                await self._dispatch(payload)
                if self.executor.excess is not None:
                    self._end_with(self.executor.excess)
                    return
                del payload  # until the next command, which may be in hours, a large one must not be stored
        except (LoginFailed, *_ENDS_WITH_CONNECTION):
            return  # no one is left, or the client has its error
        except ClientFault as error:
            # Outside a statement only the packets themselves can be at fault: send the error, then close.
            with contextlib.suppress(*_ENDS_WITH_CONNECTION):
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
        elif command in _STATEMENT_COMMANDS:
            await self._statement_command(payload)
        else:
            self.executor.note(await self.session.upstream.command(payload))

    # --- large commands, of which only the beginning has been read

    async def _large(self, large: LargeCommand) -> None:
        """Passed on while it comes, where its beginning shows that the database may have it; else as any other."""
        command = large.head[0]
        if self.session.rights is not None or not self._in_pieces:
            await self._handle(await large.whole())  # to be judged, or run, whole
        elif command in _STATEMENT_COMMANDS and (number := self._statements.number(large.head)) < FIRST_LOCAL_ID:
            effects = self._statements.effects_of(command, number)
            outcome = await self.executor.pass_on(large, effects)
            self.executor.note(outcome, effects, effects.transaction)
        elif command == Commands.COM_QUERY and large.endless:
            await self.executor.reader.settle(large.head)
            text = self._watched(large)
            await (self._handle(await large.whole()) if text is None else self._large_query(large, text))
        else:
            await self._handle(await large.whole())

    def _watched(self, large: LargeCommand) -> LargeText | None:
        """The text of a query, where passing it on may begin."""
        text = self.executor.reader.large_text()
        if text is None:
            return None
        sql = self._text(large.head)
        self.session.busy(sql[:1024].decode(self.session.identity.codec, "replace"))
        return text if large.watch(text, len(large.head) - len(sql)) else None

    async def _large_query(self, large: LargeCommand, text: LargeText) -> None:
        self.session.notes = ()
        outcome = await self.executor.pass_on(large)
        self.executor.note(outcome, text.effects, text.verb)
        if not outcome.ok or large.rest is None:
            return
        if large.too_large:
            raise ProxyError(
                1153,
                "Got a packet bigger than 'max_allowed_packet' bytes: the statements from the first that concerns a "
                f"queue on are more than {self.client.commands.max_packet_bytes} bytes; send them apart from what is"
                " before",
            )
        await self._run_each(bytes(large.rest))

    # --- the fast path: called from the socket callback, for one whole small packet

    def may_relay(self, command: int, packet: bytes) -> FastPath | bytes:
        """Whether this command may go straight to the database, or what in its place. Never raises; unsure means no."""
        session = self.session
        if not session.scope.empty or session.notes:
            return FastPath.REFUSE
        if command == _QUERY and not session.admin and self.executor.transactions.full(session.identity.user):
            return FastPath.REFUSE  # it may be a BEGIN
        if command == _QUERY:
            text = requests.query_text(packet[5:], session.identity.capabilities)
            if text is None:
                return FastPath.REFUSE
            if text.startswith(_QUICK_VERBS):
                return self._quickly(text)
            reader = self.executor.reader
            classification = reader.classify(text)
            if classification.kind is StatementClass.NONE or (
                classification.kind is StatementClass.USE and reader.names_again(text)
            ):
                return FastPath.RELAY
            return (
                self._with_effects(classification.effects)
                if classification.kind is StatementClass.TOUCHES
                else FastPath.REFUSE
            )
        if command == _EXECUTE:
            number = int.from_bytes(packet[5:9], "little")
            if number >= FIRST_LOCAL_ID:
                return FastPath.REFUSE
            effects = self._statements.effects.get(number)
            return FastPath.RELAY if effects is None else self._with_effects(effects)
        return FastPath.RELAY if command == _PING else FastPath.REFUSE

    def _quickly(self, text: bytes) -> FastPath | bytes:
        """What goes to the database in place of a statement on a queue, where that is known at once."""
        plan = self.executor.reader.quick(text)
        if plan is None:
            return FastPath.REFUSE
        self._fast_effects, self._sent_at = plan.effects, self.session.sending(plan.effects)
        return frame(self.executor.query(self.session.pinned(plan.sql, plan.pins).encode("ascii")))

    def _with_effects(self, effects: Effects) -> FastPath:
        if effects.catalog or effects.numbered:
            return FastPath.REFUSE
        self._fast_effects, self._sent_at = effects, self.session.sending(effects)
        return FastPath.RELAY_AND_REPORT

    def relayed(self, command: int, outcome: Outcome) -> None:
        """A command that `may_relay` let through has been answered, and not just as the one before."""
        effects, self._fast_effects = self._fast_effects, NO_EFFECTS
        self.executor.note(outcome, effects, sent_at=self._sent_at)
        if self.executor.excess is not None:
            self._killed = True
            self._end_with(self.executor.excess)

    def _end_with(self, error: ProxyError) -> None:
        """Disconnect an idle client; its next read gets the reason."""
        capabilities = self.session.identity.capabilities
        packet = replies.err_packet(capabilities, error.errno, error.sqlstate, error.message)
        # Numbered as the answer to a command, for the client reads it as such.
        self.client.write_framed(len(packet).to_bytes(3, "little") + b"\x01" + packet)
        self.client.close()

    # --- text commands

    async def _query(self, payload: bytes) -> None:
        text = self._text(payload)
        self.session.busy(text[:1024].decode(self.session.identity.codec, "replace"))
        if await self.executor.answer_show_warnings(text):
            return
        self._check_begin(text)
        if self.session.rights is not None:
            await self._run_each(text)  # each statement is judged for itself
            return
        classification = await self.executor.reader.classify_long(text)
        if classification.kind in (StatementClass.USE, StatementClass.PLAN):
            await self._run_each(text)
            return
        verb = self._verb(text) if classification.kind is StatementClass.NONE else None
        del text  # it may be many megabytes, and the database may take its time
        await self.executor.forward(payload, classification.effects, verb)

    def _text(self, payload: bytes) -> bytes:
        capabilities = self.session.identity.capabilities
        text = requests.query_text(payload[1:], capabilities)
        return requests.parse_query(payload[1:], capabilities) if text is None else text

    async def _run_each(self, text: bytes) -> None:
        if b";" in text:
            await self.executor.reader.settle(text)
        statements = await self.executor.reader.split(text)
        for number, statement in enumerate(statements, 1):
            if not await self.executor.run(statement, more=number < len(statements)):
                return

    def _check_begin(self, text: bytes) -> None:
        session, transactions = self.session, self.executor.transactions
        user = session.identity.user
        if not session.admin and transactions.full(user) and verb_of(text) is TransactionVerb.BEGIN:
            transactions.check(user)

    def _verb(self, text: bytes) -> TransactionVerb | None:
        """Looked up only when the answer matters."""
        return None if self.session.scope.empty else transaction_verb(text)

    async def _init_db(self, payload: bytes) -> None:
        database = payload[1:].decode(self.session.identity.codec, "replace")
        if is_system(database) and await self.executor.enter_system_database() is not None:
            return
        outcome = await self.executor.forward(payload)
        if outcome.ok:
            self.session.set_database(database)

    async def _set_option(self, payload: bytes) -> None:
        """Switches multi-statements on (0) or off (1)."""
        outcome = await self.executor.forward(payload)
        if outcome.ok and payload[1:2] == b"\x00":
            self.session.writer.capabilities |= replies.MULTI_STATEMENTS
        elif outcome.ok:
            self.session.writer.capabilities &= ~replies.MULTI_STATEMENTS

    async def _user_change(self, payload: bytes) -> None:
        await self._forget_statements()
        try:
            await self._change_user(payload)
        except RefusedByServer:
            pass  # it has its error. MySQL hangs up; MariaDB goes on with the user from before, in a session made new
        self.executor.note(Outcome(status=self.session.upstream.status), verb=TransactionVerb.ROLLBACK)
        await self.session.release_retained()

    async def _reset_connection(self, payload: bytes) -> None:
        await self._forget_statements()
        await self.executor.forward(payload, verb=TransactionVerb.ROLLBACK)
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
            self.executor.note(await self.session.upstream.command(payload))
        finally:
            self._dumping = False

    # --- prepared statements

    async def _prepare(self, payload: bytes) -> None:
        statements = self._statements
        statements.last = None
        text = payload[1:]
        classification = await self.executor.reader.classify_long(text)
        if classification.kind in (StatementClass.NONE, StatementClass.TOUCHES):
            await self._prepare_upstream(payload, replace(classification.effects, transaction=transaction_verb(text)))
            return
        match await self.executor.reader.planned(text):
            case Passthrough() if classification.kind is StatementClass.USE:
                if (number := await self._prepared(payload)) is not None:
                    statements.add_setting(number, text)
            case Passthrough(effects):
                await self._prepare_upstream(payload, effects)
            case Execute() as plan if plan.has_prerequisites:
                # At each execution: by then the database may decide differently.
                statements.last = await self._local.prepare(rebind(self.executor, text))
            case Execute(sql, effects) as plan if not judged_as_plan(self.session, plan):
                encoded = self.executor.reader.encode(self.session.pinned(sql, plan.pins))
                await self._prepare_upstream(bytes((Commands.COM_STMT_PREPARE,)) + encoded, effects)
            case UseDatabase(database):
                if (number := await self._prepared(payload)) is not None:
                    statements.add_use(number, database)
            case EndInGroup() | InsertAfterGroup():
                statements.last = await self._local.prepare(rebind(self.executor, text))
            case plan:
                statements.last = await self._local.prepare(plan)

    async def _prepared(self, payload: bytes) -> int | None:
        """Have the database prepare a statement; its number, or None where the client was sent an error."""
        outcome = await self.executor.forward(payload)
        return outcome.statement_id if outcome.ok else None

    async def _prepare_upstream(self, payload: bytes, effects: Effects) -> None:
        if (number := await self._prepared(payload)) is not None:
            self._statements.add(number, effects)

    async def _statement_command(self, payload: bytes) -> None:
        """A command on a prepared statement, the proxy's or the database's."""
        statements, command = self._statements, payload[0]
        number = statements.number(payload)
        if command == Commands.COM_STMT_CLOSE:
            statements.close(number)
        if number >= FIRST_LOCAL_ID:
            await self._local.command(payload, number)
            return
        effects = statements.effects_of(command, number)
        outcome = await self.executor.forward(payload, effects, effects.transaction)
        if not outcome.ok or command not in EXECUTIONS:
            return
        if (database := statements.database_after(number)) is not None:
            self.session.set_database(database)
        elif (text := statements.setting(number)) is not None:
            self.executor.reader.learn(text)

    async def _forget_statements(self) -> None:
        self._statements.clear()
        await self._local.close()
