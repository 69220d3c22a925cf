"""LazyUpstream: a client that the proxy itself has logged in, and its connection to the MySQL server, opened at first
need.

Rules:
- No connection for what needs no database: a login, COM_PING, COM_RESET_CONNECTION, settings that drivers send when
  they connect (`SessionMemory` stores them for the next connection), COMMIT and ROLLBACK of nothing, and streams.
- A connection on which nothing was done but what can be repeated on another is closed after `IDLE_CONNECTION_SECONDS`.
  All else pins the session to its connection until the session is reset: what it did there may have left something
  behind.
- A connection that is lost while the client waits for an answer: the answer is the error. Lost while idle: if it was
  pinned, the next command, whatever it is, gets one error that names what is lost; if not, nothing is lost, and no
  error is sent. Either way the next command that needs a connection opens a new one.

What is open, and since when, is `LazyConnection`'s.
"""

from __future__ import annotations

import re

from mysql_mimic.types import Commands

from mysql_wire import requests
from mysql_wire.answer_walker import UNANSWERED
from mysql_wire.outcome import Collected, Outcome
from mysql_wire.packets import HEADER_BYTES
from mysql_wire.status_flags import NO_BACKSLASH_ESCAPES
from proxy.errors import LOST, BackendLost
from proxy.rights.kinds import LimitedStatement, QueueStatement
from proxy.rights.statements import read
from proxy.transport.answer_writer import AnswerWriter
from proxy.transport.client_socket import ClientSocket
from proxy.upstream.base import QUESTION, RESULTS_CHARSET
from proxy.upstream.fast_path import RelayListener
from proxy.upstream.large_command import LargeCommand
from proxy.upstream.lazy_connection import STATEMENTS, LazyConnection, may_set, unknown_statement
from proxy.upstream.opener import OpenUpstream, UpstreamOpener
from proxy.upstream.session_memory import SessionMemory, Unknown

READ_MAX_BYTES = 8 * 1024  # of a statement, to see whether it can be repeated: settings and acks are far shorter

_SETTING = rb"\w+ = \w+"
_PINS = re.compile(
    rb"\ASET STATEMENT " + _SETTING + rb"(?:, " + _SETTING + rb")* FOR "
    rb"|\A(\w+ )/\*\+ (?:SET_VAR\(" + _SETTING + rb"\) )+\*/ "
)
"""What StatementPins puts before a statement, exactly; for texts of the proxy's own alone."""
_STATEMENT_ID_AT = HEADER_BYTES + 1  # in the answer to COM_STMT_PREPARE
_LEAVING_NOTHING_OURS = re.compile(
    rb"(?:SELECT|SHOW|(?:DEALLOCATE )?PREPARE " + QUESTION.encode() + rb")\b", re.IGNORECASE
)
_LEAVING_NOTHING = frozenset((Commands.COM_PING, Commands.COM_INIT_DB, Commands.COM_RESET_CONNECTION))


class LazyUpstream:
    """See the module."""

    def __init__(
        self, client: ClientSocket, writer: AnswerWriter, opener: UpstreamOpener, memory: SessionMemory
    ) -> None:
        self._writer = writer
        self._connection = LazyConnection(client, opener, memory)
        self._closed = False

    def __repr__(self) -> str:
        return f"<LazyUpstream {self._connection!r}>"

    def attach(self, listener: RelayListener) -> None:
        """See LazyConnection."""
        self._connection.attach(listener)

    @property
    def status(self) -> int:
        opened = self._connection.usable
        return self._connection.memory.status if opened is None else opened.upstream.status

    @property
    def alive(self) -> bool:
        """See Upstream: the session outlives its connections."""
        return not self._closed

    @property
    def connection_required(self) -> bool:
        return self._connection.usable is not None and self._connection.pinned

    @property
    def backend_id(self) -> int | None:
        """The server's id of this session's connection, if it has one."""
        opened = self._connection.usable
        return None if opened is None else opened.connection_id

    @property
    def answering(self) -> int | None:
        """The server's id of the connection on which a statement is running for the client, if one is."""
        opened = self._connection.usable
        return opened.connection_id if opened is not None and opened.upstream.answering else None

    # --- commands

    async def command(
        self,
        payload: bytes,
        *,
        more: bool = False,
        buffered: bool = False,
        repeatable: bool = False,
        plain: bytes | None = None,
    ) -> Outcome:
        """See Upstream.

        Raises:
            ProxyError: what LazyConnection.open or the relay raises.
        """
        command, connection = payload[0], self._connection
        text = self._text(plain or payload)
        statement = self._read(text)
        if command == Commands.COM_RESET_CONNECTION and connection.opener.owner.limited:
            # A reset one would have the server's sql_mode, which may be unsuitable for the guard.
            connection.release()
        if connection.usable is None:
            done = await self._without_connection(command, payload, statement, text)
            if done is not None:
                return done
        opened = await connection.open()
        if command in STATEMENTS or command in UNANSWERED:
            moved = connection.ids.to_server(payload)
            if moved is None:
                return Outcome(status=self.status)
            payload = moved
        if command == Commands.COM_STMT_PREPARE and connection.ids.offset:
            outcome = await self._prepare(opened, payload, more)
        else:
            outcome = await opened.upstream.command(payload, more=more, buffered=buffered, repeatable=repeatable)
        self._done(opened, command, statement, text, outcome)
        return outcome

    async def pass_on(self, large: LargeCommand, *, buffered: bool = False) -> Outcome:
        """See Upstream. Raises as `command`."""
        command, connection = large.head[0], self._connection
        if (
            connection.usable is None
            and (done := await self._without_connection(command, large.head, None, None)) is not None
        ):
            return done
        opened = await connection.open()
        if command in STATEMENTS or command in UNANSWERED:
            moved = connection.ids.to_server(large.head)
            if moved is None:
                return Outcome(status=self.status)
            large.replace_head(moved)
        outcome = await opened.upstream.pass_on(large, buffered=buffered)
        self._done(opened, command, None, None, outcome)
        return outcome

    def recode(self, encoding: str) -> None:
        self._connection.recode(encoding)

    async def deliver(self) -> None:
        if self._connection.opened is not None:
            await self._connection.opened.upstream.deliver()

    async def collect(self, sql: str) -> Collected | Outcome:
        """See Upstream. Statements of the proxy's own that are not questions pin the session."""
        connection, memory = self._connection, self._connection.memory
        if sql == RESULTS_CHARSET and connection.usable is None and not isinstance(memory.results_charset, Unknown):
            name = memory.results_charset
            return Collected((), ((None if name is None else name.encode(),),))
        opened = await connection.open()
        result = await opened.upstream.collect(sql)
        if isinstance(result, Outcome) and not opened.upstream.alive:
            # Not every caller would report a missing answer to the client.
            raise BackendLost(result.message.removeprefix(LOST))
        plain = _PINS.sub(rb"\1", sql.encode("utf-8", "surrogateescape"))
        leaves_nothing = _LEAVING_NOTHING_OURS.match(plain) is not None or isinstance(read(plain), QueueStatement)
        connection.after(opened, pins=not leaves_nothing)
        return result

    def restart(self, opener: UpstreamOpener, memory: SessionMemory) -> None:
        """COM_CHANGE_USER: nothing of the session before stays."""
        self._connection.restart(opener, memory)

    async def close(self) -> None:
        self._closed = True
        await self._connection.close()

    def _text(self, payload: bytes) -> bytes | None:
        """The text of a statement short enough to be parsed."""
        if payload[0] != Commands.COM_QUERY or len(payload) > READ_MAX_BYTES:
            return None
        return requests.query_text(payload[1:], self._writer.capabilities)

    def _read(self, text: bytes | None) -> LimitedStatement | None:
        """What a statement is; not of one on a pinned connection unless it sets something, for then nothing depends on
        it."""
        if text is None or (self.connection_required and not may_set(text)):
            return None
        return read(text, backslash_escapes=not self.status & NO_BACKSLASH_ESCAPES)

    async def _without_connection(
        self, command: int, payload: bytes, statement: LimitedStatement | None, text: bytes | None
    ) -> Outcome | None:
        """The answer to what needs no connection; None: it needs one."""
        connection, memory = self._connection, self._connection.memory
        if command in UNANSWERED:
            return Outcome(status=self.status)
        if command == Commands.COM_RESET_CONNECTION:
            connection.reset()
            return await self._ok()
        connection.report_loss()
        if command in STATEMENTS:
            raise unknown_statement(payload)
        if command == Commands.COM_PING:
            return await self._ok()
        database = connection.opener.database
        if command == Commands.COM_INIT_DB and payload.isascii() and payload[1:] == (database or "").encode():
            return await self._ok()
        if statement is not None and text is not None and memory.deferred(statement, text, database):
            return await self._ok()
        return None

    async def _ok(self) -> Outcome:
        self._writer.status = self.status
        await self._writer.ok()
        return Outcome(status=self.status)

    def _done(
        self,
        opened: OpenUpstream,
        command: int,
        statement: LimitedStatement | None,
        text: bytes | None,
        outcome: Outcome,
    ) -> None:
        """After an answer: remember what it changed, and whether the session is on this connection now."""
        connection, memory = self._connection, self._connection.memory
        if command == Commands.COM_STMT_PREPARE and outcome.ok:
            connection.ids.on_prepared(outcome.statement_id)
        if command == Commands.COM_RESET_CONNECTION and outcome.ok:
            memory.reset()
            connection.unpin()
        pins = command not in _LEAVING_NOTHING
        if statement is not None and text is not None:
            # One that failed has done nothing; where there are several, `statement` is None.
            pins = outcome.ok and not memory.repeatable(statement, text)
        connection.after(opened, pins=pins)

    async def _prepare(self, opened: OpenUpstream, payload: bytes, more: bool) -> Outcome:
        """Prepare on a connection whose ids are moved: the answer is buffered, and the id in it changed."""
        outcome = await opened.upstream.command(payload, more=more, buffered=True)
        if outcome.ok:
            number = self._connection.ids.of_client(outcome.statement_id)
            opened.upstream.output.amend(_STATEMENT_ID_AT, number.to_bytes(4, "little"))
            outcome = Outcome(status=outcome.status, statement_id=number)
        await opened.upstream.deliver()
        return outcome
