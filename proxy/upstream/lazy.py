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
- Ids of prepared statements are never used twice in a session, so one of an old connection is unknown on the next
  (1243). The server counts again on every connection; from the second on, ids are moved up beyond those given out
  before.
- The fast path is open while the session is pinned to its connection, and never for settings, which have to be seen.
"""

from __future__ import annotations

import asyncio
import logging

from mysql_mimic.types import Commands

from proxy.errors import LOST, BackendLost, ProxyError
from proxy.transport.answer_writer import AnswerWriter
from proxy.transport.client_socket import ClientSocket
from proxy.upstream.base import RESULTS_CHARSET
from proxy.upstream.fast_path import FastPath, NoListener, RelayListener
from proxy.upstream.large_command import LargeCommand
from proxy.upstream.opener import LOST_STATE_NOTE, OpenUpstream, UpstreamOpener
from proxy.upstream.session_memory import SessionMemory, Unknown
from proxy.wire import requests
from proxy.wire.answer_walker import BULK_EXECUTE, UNANSWERED
from proxy.wire.outcome import Collected, Outcome
from proxy.wire.packets import HEADER_BYTES
from proxy.wire.requests import FIRST_LOCAL_ID, LAST_PREPARED
from proxy.wire.status_flags import IN_TRANSACTION, NO_BACKSLASH_ESCAPES
from rewriter.rights.kinds import LimitedStatement, QueueStatement
from rewriter.rights.statements import read

log = logging.getLogger(__name__)

IDLE_CONNECTION_SECONDS = 5.0
"""Long enough for the statements of a driver when it connects, and for a worker that settles messages one after the
other; short enough that receivers that send nothing more do not add up in the database."""

READ_MAX_BYTES = 8 * 1024  # of a statement, to see whether it can be repeated: settings and acks are far shorter

_STATEMENT_ID_AT = HEADER_BYTES + 1  # in the answer to COM_STMT_PREPARE

_STATEMENTS = frozenset(
    (Commands.COM_STMT_EXECUTE, Commands.COM_STMT_FETCH, Commands.COM_STMT_RESET, BULK_EXECUTE)
)  # those of a prepared statement that are answered
_LEAVING_NOTHING = frozenset((Commands.COM_PING, Commands.COM_INIT_DB, Commands.COM_RESET_CONNECTION))


class LazyUpstream:
    """See the module. Towards its connections it is the listener that the client's connection is towards it."""

    def __init__(
        self, client: ClientSocket, writer: AnswerWriter, opener: UpstreamOpener, memory: SessionMemory
    ) -> None:
        self._client = client
        self._writer = writer
        self._opener = opener
        self._memory = memory
        self._opened: OpenUpstream | None = None
        self._pinned = False
        self._loss = ""  # why a connection was lost that is not reported to the client yet
        self._highest_id = 0  # the highest id of a prepared statement that the client was sent
        self._id_offset = 0  # by how much those of this connection are moved up
        self._idle: asyncio.TimerHandle | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._listener: RelayListener = NoListener()
        self._encoding: str | None = None  # where it is not that of the login
        self._closed = False

    def __repr__(self) -> str:
        mode = "not connected" if self._opened is None else "pinned" if self._pinned else "connected"
        return f"<LazyUpstream {mode} {self._memory!r} {self._opened!r}>"

    def attach(self, listener: RelayListener) -> None:
        """The listener decides whether a command takes the fast path, and receives its outcome."""
        self._listener = listener

    @property
    def status(self) -> int:
        """See Upstream."""
        opened = self._usable
        return self._memory.status if opened is None else opened.upstream.status

    @property
    def alive(self) -> bool:
        """See Upstream: the session outlives its connections."""
        return not self._closed

    @property
    def connection_required(self) -> bool:
        """See Upstream."""
        return self._usable is not None and self._pinned

    @property
    def backend_id(self) -> int | None:
        """The server's id of this session's connection, if it has one."""
        opened = self._usable
        return None if opened is None else opened.connection_id

    @property
    def answering(self) -> int | None:
        """The server's id of the connection on which a statement is running for the client, if one is."""
        opened = self._usable
        return opened.connection_id if opened is not None and opened.upstream.answering else None

    @property
    def _usable(self) -> OpenUpstream | None:
        return self._opened if self._opened is not None and self._opened.upstream.alive else None

    # --- commands

    async def command(self, payload: bytes, *, more: bool = False, buffered: bool = False) -> Outcome:
        """See Upstream.

        Raises:
            ProxyError: there is no connection to be had (1218), the one before was lost (1105), or what the relay
                raises.
        """
        command = payload[0]
        text = self._text(payload)
        statement = self._read(text)
        if command == Commands.COM_RESET_CONNECTION and self._opener.owner.limited:
            # A reset one would have the server's sql_mode, which may be unsuitable for the guard.
            self._release_connection()
        if self._usable is None:
            done = await self._without_connection(command, payload, statement, text)
            if done is not None:
                return done
        opened = await self._open()
        if command in _STATEMENTS or command in UNANSWERED:
            moved = self._moved(payload)
            if moved is None:
                return Outcome(status=self.status)
            payload = moved
        if command == Commands.COM_STMT_PREPARE and self._id_offset:
            outcome = await self._prepare(opened, payload, more)
        else:
            outcome = await opened.upstream.command(payload, more=more, buffered=buffered)
        self._done(opened, command, payload, statement, text, outcome)
        return outcome

    async def pass_on(self, large: LargeCommand, *, buffered: bool = False) -> Outcome:
        """See Upstream. Raises as `command`."""
        command = large.head[0]
        if (
            self._usable is None
            and (done := await self._without_connection(command, large.head, None, None)) is not None
        ):
            return done
        opened = await self._open()
        if command in _STATEMENTS or command in UNANSWERED:
            moved = self._moved(large.head)
            if moved is None:
                return Outcome(status=self.status)
            large.replace_head(moved)
        outcome = await opened.upstream.pass_on(large, buffered=buffered)
        self._done(opened, command, large.head, None, None, outcome)
        return outcome

    def recode(self, encoding: str) -> None:
        """See Upstream. What made the change is repeated on the next connection, so it applies there too."""
        self._encoding = encoding
        if self._usable is not None:
            self._usable.upstream.recode(encoding)

    async def deliver(self) -> None:
        """See Upstream."""
        if self._opened is not None:
            await self._opened.upstream.deliver()

    async def collect(self, sql: str) -> Collected | Outcome:
        """See Upstream. Statements of the proxy's own that are not questions pin the session."""
        if sql == RESULTS_CHARSET and self._usable is None and not isinstance(self._memory.results_charset, Unknown):
            name = self._memory.results_charset
            return Collected((), ((None if name is None else name.encode(),),))
        opened = await self._open()
        result = await opened.upstream.collect(sql)
        if isinstance(result, Outcome) and not opened.upstream.alive:
            # Not every caller would report a missing answer to the client.
            raise BackendLost(result.message.removeprefix(LOST))
        plain = self._opener.unpinned(sql.encode("utf-8", "surrogateescape"))
        reads_only = plain.split(maxsplit=1)[0].upper() in (b"SELECT", b"SHOW")
        leaves_nothing = reads_only or isinstance(read(plain), QueueStatement)
        self._after(opened, pins=not leaves_nothing)
        return result

    def restart(self, opener: UpstreamOpener, memory: SessionMemory) -> None:
        """COM_CHANGE_USER: nothing of the session before stays."""
        self._release_connection()
        self._opener, self._memory, self._loss, self._encoding = opener, memory, "", None

    async def close(self) -> None:
        """See Upstream."""
        self._closed = True
        opened = self._detach()
        if opened is not None:
            await opened.upstream.close()
        if self._leaving:
            await asyncio.wait(self._leaving)

    def _text(self, payload: bytes) -> bytes | None:
        """The text of a statement short enough to be parsed."""
        if payload[0] != Commands.COM_QUERY or len(payload) > READ_MAX_BYTES:
            return None
        text = requests.query_text(payload[1:], self._writer.capabilities)
        return None if text is None else self._opener.unpinned(text)

    def _read(self, text: bytes | None) -> LimitedStatement | None:
        """What a statement is; not of one on a pinned connection unless it sets something, for then nothing depends on
        it."""
        if text is None or (self._pinned and self._usable is not None and not _may_set(text)):
            return None
        return read(text, backslash_escapes=not self.status & NO_BACKSLASH_ESCAPES)

    # --- without a connection

    async def _without_connection(
        self, command: int, payload: bytes, statement: LimitedStatement | None, text: bytes | None
    ) -> Outcome | None:
        """The answer to what needs no connection; None: it needs one."""
        if command in UNANSWERED:
            return Outcome(status=self.status)
        if command == Commands.COM_RESET_CONNECTION:
            self._memory.reset()
            self._loss = ""
            return await self._ok()
        self._report_loss()
        if command in _STATEMENTS:
            raise _unknown_statement(payload)
        if command == Commands.COM_PING:
            return await self._ok()
        if command == Commands.COM_INIT_DB and payload[1:] == (self._opener.database or "").encode():
            return await self._ok()
        if statement is not None and text is not None and self._memory.deferred(statement, text, self._opener.database):
            return await self._ok()
        return None

    async def _ok(self) -> Outcome:
        self._writer.status = self.status
        await self._writer.ok()
        return Outcome(status=self.status)

    def _report_loss(self) -> None:
        reason, self._loss = self._loss, ""
        if reason:
            raise BackendLost(reason + LOST_STATE_NOTE)

    # --- the connection's life

    async def _open(self) -> OpenUpstream:
        self._cancel_idle()
        opened = self._usable
        if opened is not None:
            return opened
        self._report_loss()
        opened = self._opened = await self._opener.open(self._client, self._memory)
        if self._encoding is not None:
            opened.upstream.recode(self._encoding)
        self._pinned = False
        self._id_offset = self._highest_id
        opened.upstream.attach(self)
        return opened

    def _done(
        self,
        opened: OpenUpstream,
        command: int,
        payload: bytes,
        statement: LimitedStatement | None,
        text: bytes | None,
        outcome: Outcome,
    ) -> None:
        """After an answer: remember what it changed, and whether the session is on this connection now."""
        if command == Commands.COM_STMT_PREPARE and outcome.ok:
            self._highest_id = max(self._highest_id, outcome.statement_id)
        if command == Commands.COM_RESET_CONNECTION and outcome.ok:
            self._memory.reset()
            self._unpin()
        pins = command not in _LEAVING_NOTHING
        if statement is not None and text is not None:
            # One that failed has done nothing; where there are several, `statement` is None.
            pins = outcome.ok and not self._memory.repeatable(statement, text)
        self._after(opened, pins=pins)

    def _after(self, opened: OpenUpstream, *, pins: bool) -> None:
        if self._opened is not opened or not opened.upstream.alive:
            return
        if pins and not self._pinned:
            self._pinned = True
            if opened.fast:
                self._client.fast_path = opened.upstream.try_fast
        if not self._pinned and not opened.upstream.status & IN_TRANSACTION:
            self._idle = asyncio.get_running_loop().call_later(IDLE_CONNECTION_SECONDS, self._release_connection)

    def _unpin(self) -> None:
        self._pinned = False
        self._client.fast_path = None

    def _release_connection(self) -> None:
        """Close the connection, and go on without one."""
        opened = self._detach()
        if opened is not None:
            # Its first step, in which it lets go of the stream, is taken before any other connection can be open.
            task = asyncio.get_running_loop().create_task(opened.upstream.close())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    def _detach(self) -> OpenUpstream | None:
        self._cancel_idle()
        opened, self._opened = self._opened, None
        self._pinned = False
        self._client.fast_path = None
        if opened is not None:
            self._memory.was(opened.upstream.status)
            opened.forget()
        return opened

    def _cancel_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    # --- the listener of a connection

    def may_relay(self, command: int, packet: bytes) -> FastPath | bytes:
        """See RelayListener. Settings have to be seen, and ids of statements may have to be changed."""
        setting = command == Commands.COM_QUERY and _may_set(packet[5:24])
        if setting or (self._id_offset and command in _STATEMENTS):
            return FastPath.REFUSE
        return self._listener.may_relay(command, packet)

    def relayed(self, command: int, outcome: Outcome) -> None:
        """See RelayListener."""
        self._listener.relayed(command, outcome)

    def on_closing_error(self, packet: bytes) -> None:
        """See RelayListener. The session outlives its connection."""

    def lost(self, outcome: Outcome, *, reset: bool) -> None:
        """The server closed the connection, or it broke. A command that was in progress has been answered with the
        error."""
        opened = self._opened
        if opened is None:
            return  # it was being closed
        reported = opened.upstream.loss_reported
        if not reported and (self._pinned or opened.upstream.status & IN_TRANSACTION):
            self._loss = outcome.message.removeprefix(LOST)
        self._cancel_idle()
        self._memory.was(opened.upstream.status)
        self._client.fast_path = None
        self._pinned = False
        opened.forget()
        log.info("a client's connection to the database was lost", extra={"reason": outcome.message, "told": reported})

    # --- prepared statements

    async def _prepare(self, opened: OpenUpstream, payload: bytes, more: bool) -> Outcome:
        """Prepare on a connection whose ids are moved: the answer is buffered, and the id in it changed."""
        outcome = await opened.upstream.command(payload, more=more, buffered=True)
        number = outcome.statement_id + self._id_offset
        if outcome.ok:
            if number >= FIRST_LOCAL_ID:
                raise ProxyError(1461, "This session has prepared as many statements as it may; connect anew")
            opened.upstream.output.amend(_STATEMENT_ID_AT, number.to_bytes(4, "little"))
            outcome = Outcome(status=outcome.status, statement_id=number)
        await opened.upstream.deliver()
        return outcome

    def _moved(self, payload: bytes) -> bytes | None:
        """The command with the server's own id in it; None for one without an answer on a statement that is gone."""
        number = int.from_bytes(payload[1:5], "little")
        if not self._id_offset or number == LAST_PREPARED:
            return payload
        if number <= self._id_offset:
            if payload[0] in UNANSWERED:
                return None
            raise _unknown_statement(payload)
        return payload[:1] + (number - self._id_offset).to_bytes(4, "little") + payload[5:]


def _may_set(text: bytes) -> bool:
    """Whether a statement may be a SET or a USE; one that begins with a comment or the like may be anything."""
    head = text.lstrip(b" \t\r\n\x00\x01")[:3].lower()
    return head in (b"set", b"use") or not head[:1].isalpha()


def _unknown_statement(payload: bytes) -> ProxyError:
    number = int.from_bytes(payload[1:5], "little")
    return ProxyError(1243, f"Unknown prepared statement handler ({number}) given to EXECUTE; prepare it anew")
