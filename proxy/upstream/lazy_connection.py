"""LazyConnection: the connection to the MySQL server, while there is one, of a client that the proxy has logged in.

Invariants:
- There is at most one, and its id is in the registry exactly as long.
- It is pinned once something was done on it that cannot be repeated on another. One that is not is closed after
  `IDLE_CONNECTION_SECONDS`.
- The fast path is open while it is pinned, and never for settings, which have to be seen.
- Ids of prepared statements are never used twice in a session, so one of an old connection is unknown on the next
  (1243). The server counts again on every connection; from the second on, ids are moved up beyond those given out
  before.
"""

from __future__ import annotations

import asyncio
import logging

from mysql_mimic.types import Commands

from mysql_wire.answer_walker import BULK_EXECUTE, UNANSWERED
from mysql_wire.errors import ProxyError
from mysql_wire.outcome import Outcome
from mysql_wire.requests import FIRST_LOCAL_ID, LAST_PREPARED
from mysql_wire.status_flags import IN_TRANSACTION
from proxy.errors import LOST, BackendLost
from proxy.transport.client_socket import ClientSocket
from proxy.upstream.fast_path import FastPath, RelayListener
from proxy.upstream.opener import LOST_STATE_NOTE, OpenUpstream, UpstreamOpener
from proxy.upstream.session_memory import SessionMemory

log = logging.getLogger("proxy.upstream.lazy")  # under which operators know it

IDLE_CONNECTION_SECONDS = 5.0
"""Long enough for the statements of a driver when it connects, and for a worker that settles messages one after the
other; short enough that receivers that send nothing more do not add up in the database."""

STATEMENTS = frozenset(
    (Commands.COM_STMT_EXECUTE, Commands.COM_STMT_FETCH, Commands.COM_STMT_RESET, BULK_EXECUTE)
)  # those of a prepared statement that are answered


class StatementIds:
    """The ids of prepared statements, as the client has them. `offset`: by how much this connection's are moved up."""

    def __init__(self) -> None:
        self.offset = 0
        self._highest = 0  # that the client was sent

    def on_opened(self) -> None:
        """The server counts from one again."""
        self.offset = self._highest

    def on_prepared(self, number: int) -> None:
        """The client was sent this id."""
        self._highest = max(self._highest, number)

    def of_client(self, number: int) -> int:
        """The id that the client gets for one of the server's.

        Raises:
            ProxyError: 1461, there are no more.
        """
        if number + self.offset >= FIRST_LOCAL_ID:
            raise ProxyError(1461, "This session has prepared as many statements as it may; connect anew")
        return number + self.offset

    def to_server(self, payload: bytes) -> bytes | None:
        """The command with the server's own id in it; None for one without an answer on a statement that is gone.

        Raises:
            ProxyError: 1243, the statement is gone.
        """
        number = int.from_bytes(payload[1:5], "little")
        if not self.offset or number == LAST_PREPARED:
            return payload
        if number <= self.offset:
            if payload[0] in UNANSWERED:
                return None
            raise unknown_statement(payload)
        return payload[:1] + (number - self.offset).to_bytes(4, "little") + payload[5:]


class LazyConnection(RelayListener):
    """See the module. Towards the connection it is the listener that the client's connection is towards it."""

    client_stays = True

    def __init__(self, client: ClientSocket, opener: UpstreamOpener, memory: SessionMemory) -> None:
        self.opener = opener
        self.memory = memory
        self.opened: OpenUpstream | None = None
        self.pinned = False
        self.ids = StatementIds()
        self._client = client
        self._loss = ""  # why a connection was lost that is not reported to the client yet
        self._idle: asyncio.TimerHandle | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._listener = RelayListener()
        self._encoding: str | None = None  # where it is not that of the login

    def __repr__(self) -> str:
        mode = "not connected" if self.opened is None else "pinned" if self.pinned else "connected"
        return f"{mode} {self.memory!r} {self.opened!r}"

    def attach(self, listener: RelayListener) -> None:
        """The listener decides whether a command takes the fast path, and receives its outcome."""
        self._listener = listener

    @property
    def usable(self) -> OpenUpstream | None:
        """The connection, if it is there."""
        return self.opened if self.opened is not None and self.opened.upstream.alive else None

    async def open(self) -> OpenUpstream:
        """The connection, opened if need be.

        Raises:
            ProxyError: there is none to be had (1218), or the one before was lost (1105).
        """
        self._cancel_idle()
        opened = self.usable
        if opened is not None:
            return opened
        self.report_loss()
        opened = self.opened = await self.opener.open(self._client, self.memory)
        if self._encoding is not None:
            opened.upstream.recode(self._encoding)
        self.pinned = False
        self.ids.on_opened()
        opened.upstream.attach(self)
        return opened

    def report_loss(self) -> None:
        """Raise the error for a lost connection, once."""
        reason, self._loss = self._loss, ""
        if reason:
            raise BackendLost(reason + LOST_STATE_NOTE)

    def recode(self, encoding: str) -> None:
        """See Upstream. What made the change is repeated on the next connection, so it applies there too."""
        self._encoding = encoding
        if self.usable is not None:
            self.usable.upstream.recode(encoding)

    def reset(self) -> None:
        """The session is as after the login; a loss that is not reported took nothing with it."""
        self.memory.reset()
        self._loss = ""

    def after(self, opened: OpenUpstream, *, pins: bool) -> None:
        """A command has been answered. `pins`: it may have left something behind that cannot be repeated."""
        if self.opened is not opened or not opened.upstream.alive:
            return
        if pins and not self.pinned:
            self.pinned = True
            if opened.fast:
                self._client.fast_path = opened.upstream.try_fast
        if not self.pinned and not opened.upstream.status & IN_TRANSACTION:
            self._idle = asyncio.get_running_loop().call_later(IDLE_CONNECTION_SECONDS, self.release)

    def unpin(self) -> None:
        """What was done on it is undone."""
        self.pinned = False
        self._client.fast_path = None

    def release(self) -> None:
        """Close the connection, and go on without one."""
        opened = self._detach()
        if opened is not None:
            # Its first step, in which it lets go of the stream, is taken before any other connection can be open.
            task = asyncio.get_running_loop().create_task(opened.upstream.close())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    def restart(self, opener: UpstreamOpener, memory: SessionMemory) -> None:
        """COM_CHANGE_USER: nothing of the session before stays."""
        self.release()
        self.opener, self.memory, self._loss, self._encoding = opener, memory, "", None

    async def close(self) -> None:
        """Close it, and wait until those before it are closed."""
        opened = self._detach()
        if opened is not None:
            await opened.upstream.close()
        if self._leaving:
            await asyncio.wait(self._leaving)

    def _detach(self) -> OpenUpstream | None:
        self._cancel_idle()
        opened, self.opened = self.opened, None
        self.unpin()
        if opened is not None:
            self.memory.was(opened.upstream.status)
            opened.forget()
        return opened

    def _cancel_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    # --- the listener of the connection

    def may_relay(self, command: int, packet: bytes) -> FastPath | bytes:
        """See RelayListener. Settings have to be seen, and ids of statements may have to be changed."""
        setting = command == Commands.COM_QUERY and may_set(packet[5:24])
        if setting or (self.ids.offset and command in STATEMENTS):
            return FastPath.REFUSE
        return self._listener.may_relay(command, packet)

    def refused(self, error: Outcome) -> bytes:
        return self._listener.refused(error)

    def relayed(self, command: int, outcome: Outcome) -> None:
        self._listener.relayed(command, outcome)

    def lost(self, outcome: Outcome, *, reset: bool) -> None:
        """The server closed the connection, or it broke. A command that was in progress has been answered with the
        error."""
        opened = self.opened
        if opened is None:
            return  # it was being closed
        reported = opened.upstream.loss_reported
        if not reported and (self.pinned or opened.upstream.status & IN_TRANSACTION):
            self._loss = outcome.message.removeprefix(LOST)
        self._cancel_idle()
        self.memory.was(opened.upstream.status)
        self.unpin()
        opened.forget()
        log.info(
            "a client's connection to the database was lost", extra={"reason": outcome.message, "reported": reported}
        )


def may_set(text: bytes) -> bool:
    """Whether a statement may be a SET or a USE; one that begins with a comment or the like may be anything."""
    head = text.lstrip(b" \t\r\n\x00\x01")[:3].lower()
    return head in (b"set", b"use") or not head[:1].isalpha()


def unknown_statement(payload: bytes) -> ProxyError:
    """The error for a command on a prepared statement that is gone."""
    number = int.from_bytes(payload[1:5], "little")
    return ProxyError(1243, f"Unknown prepared statement handler ({number}) given to EXECUTE; prepare it anew")
