"""AnswerRelay: the bytes of one connection to a MySQL server, and what they are at.

Invariant: what the server sends is the answer to the command in progress, and goes to `output` until the walker has
seen its end; what comes at any other time ends the connection.

- The fast path: from the client's socket callback to the server's socket and back, no task and no queue between.
- Back-pressure goes both ways: a client that does not read stops the reading of the server, and the other way round.
- The connection to the server is lost: the client's is closed, as the server would have done. Where the session
  outlives its connection (`loss_hint`), the command in progress gets an error instead, if nothing of its answer was
  sent yet; otherwise the client's connection is cut, because half an answer cannot be ended. Whether the command took
  effect is unknown.

Its state is its `Mode`; which mode may follow which is `FOLLOWS`.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable
from dataclasses import dataclass
from enum import Enum

from mysql_client.packets import MalformedAnswer
from mysql_wire.answer_walker import SHAPES, AnswerWalker, Shape, parse_err
from mysql_wire.outcome import Outcome
from mysql_wire.packets import HEADER_BYTES, frame
from mysql_wire.reframer import renumbered
from mysql_wire.whole_answer import WholeAnswers, with_insert_id
from proxy.errors import BackendLost, SessionLost, StreamClosed
from proxy.transport.backend_socket import BackendSocket
from proxy.transport.client_socket import ClientSocket
from proxy.upstream.answer_output import AnswerOutput
from proxy.upstream.client_data import ClientData
from proxy.upstream.fast_path import FAST_COMMAND_MAX_BYTES, FAST_COMMANDS, FastPath, RelayListener
from proxy.upstream.repeats import Repeats

_ERR = 0xFF
_unpack_command = struct.Struct("<IB").unpack_from
_WITH_STATUS = frozenset(command for command, shape in SHAPES.items() if shape in (Shape.RESULT, Shape.ROWS))


class Mode(Enum):
    """The state of a relay. FAST: the answer to a command of the fast path is to come; ANSWERING: to any other."""

    IDLE = "idle"
    FAST = "fast"
    ANSWERING = "answering"
    SENDING = "sending a large command"
    SENDING_UNANSWERED = "sending a large command that has no answer"
    SENDING_FILE = "sending the client's file"
    SENDING_FILE_FAST = "sending the client's file for a command of the fast path"


FOLLOWS = {
    Mode.IDLE: frozenset((Mode.FAST, Mode.ANSWERING, Mode.SENDING, Mode.SENDING_UNANSWERED)),
    Mode.FAST: frozenset((Mode.SENDING_FILE_FAST,)),
    Mode.ANSWERING: frozenset((Mode.SENDING_FILE,)),
    Mode.SENDING: frozenset((Mode.ANSWERING,)),
    Mode.SENDING_UNANSWERED: frozenset[Mode](),
    Mode.SENDING_FILE: frozenset((Mode.ANSWERING,)),
    Mode.SENDING_FILE_FAST: frozenset((Mode.FAST,)),
}
"""Which modes may follow which; IDLE may follow each of them."""

OF_FAST_PATH = frozenset((Mode.FAST, Mode.SENDING_FILE_FAST))
"""The modes of a command of the fast path."""

SENDING_ANY = frozenset((Mode.SENDING, Mode.SENDING_UNANSWERED))
"""Modes in which the server's bytes are buffered until the client has sent everything."""

WITHOUT_ANSWER = frozenset((Mode.IDLE, Mode.SENDING_UNANSWERED))
"""In which no client waits for an answer."""

# A whole answer on the fast path goes from one to the other and back. Both steps are taken without a call: each has
# just seen that the other mode holds.
_IDLE, _FAST = Mode.IDLE, Mode.FAST
assert _FAST in FOLLOWS[_IDLE]


@dataclass(slots=True)
class Losses:
    """What a client gets when its connection to the server is lost. `reported`: whether a command was in progress
    then, so that its answer reported it.

    With a hint the client's session outlives the connection, and must not be taken for lost. Without, the client's
    connection is closed, and no packet has the reason; but not while it receives a stream, during which a statement of
    the proxy was in progress.
    """

    hint: str
    reported: bool = False

    def error(self, reason: str, *, answering: bool) -> BackendLost:
        """The error; `answering`: a command is in progress."""
        if self.hint:
            return BackendLost(reason + self.hint if answering else reason)
        return SessionLost(reason)

    def close(self, client: ClientSocket, listener: RelayListener) -> None:
        """Close the connection of a client whose session is lost, unless it stays."""
        if not self.hint and not listener.client_stays:
            client.close()


class AnswerRelay:
    """See the module. `status` are the server's flags when last received. `loss_hint` is the end of a client's error,
    after the reason, when its command was in progress."""

    def __init__(
        self, backend: BackendSocket, client: ClientSocket, *, capabilities: int, status: int, loss_hint: str
    ) -> None:
        self.mode = _IDLE
        self.status = status
        self.losses = Losses(loss_hint)
        self.repeats = Repeats(backend)
        self.client_data = ClientData(client, backend)
        self._backend = backend
        self._client = client
        self._walker = AnswerWalker(capabilities)
        self.output = AnswerOutput(client, self._walker, capabilities)
        self._recognise = WholeAnswers(capabilities).recognise
        self._command = 0
        self._report = False
        self._last_outcome: Outcome | None = None  # of the last command, where it was a whole answer on the fast path
        self._waiter: asyncio.Future[Outcome] | None = None
        self.listener = RelayListener()
        client.source = backend
        backend.on_lost = self._lost
        backend.deliver_to(self._data)

    def __repr__(self) -> str:
        mode = "lost" if self._backend.closed else self.mode.value
        return f"{mode} command={self._command:#04x} status={self.status:#06x}"

    def attach(self, listener: RelayListener) -> None:
        """The listener decides whether a command takes the fast path, and receives its outcome and the connection's
        end."""
        self.listener = listener

    @property
    def answering(self) -> bool:
        """Whether the server is at work for the client, or for us."""
        return self.mode not in WITHOUT_ANSWER

    def enter(self, mode: Mode) -> None:
        """Another mode, which may follow the present one."""
        assert mode is _IDLE or mode in FOLLOWS[self.mode], f"{mode} after {self.mode}"
        self.mode = mode

    def set_status(self, status: int) -> None:
        """The session begins again, with these flags."""
        self.status, self._last_outcome = status, None

    def begin(self, command: int, mode: Mode = Mode.ANSWERING) -> None:
        """A command that is not on the fast path, and has an answer."""
        self._walker.begin(command)
        self._command = command
        self.repeats.begin(b"")
        self.enter(mode)

    async def wait(self, sending: Awaitable[None]) -> Outcome:
        """Have the command sent, and wait for the end of its answer."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await sending
            return await self._waiter
        except asyncio.CancelledError:
            self.enter(_IDLE)
            self._backend.abort("a command was cancelled")
            raise
        finally:
            self._waiter = None

    async def wait_fast(self, seconds: float) -> None:
        """Give an answer on the fast path so long to end, where nothing of it has come."""
        if self.mode in OF_FAST_PATH and not self.output.begun:
            self._waiter = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._waiter,), timeout=seconds)

    def detach(self) -> None:
        """The client leaves."""
        self._backend.on_lost = self._client.source = None
        self.client_data.cancel()

    # --- the fast path

    def try_fast(self, data: bytes) -> bool:
        """A ClientSocket's fast path: relay one whole small command without a task, if the listener agrees."""
        size = len(data) - HEADER_BYTES
        if not 0 < size <= FAST_COMMAND_MAX_BYTES:
            return False
        header, command = _unpack_command(data)
        # The header as one number: its sequence id has to be 0, and the packet all there is.
        send = self._backend.writer
        if header != size or command not in FAST_COMMANDS or self.mode is not _IDLE or send is None:
            return False
        verdict = self.listener.may_relay(command, data)
        if verdict is FastPath.REFUSE:
            return False
        own = verdict if isinstance(verdict, bytes) else b""
        send(own or data)
        self.repeats.begin(own)
        self._report = verdict is not FastPath.RELAY
        self._command = command
        self.mode = _FAST
        return True

    # --- answers

    def _data(self, chunk: bytes) -> None:
        if self.mode is not _FAST:
            self._slow_data(chunk)
            return
        # The client first: the bytes are parsed while they are in transit.
        client = self._client
        if client.writer is not None:
            if len(chunk) > HEADER_BYTES + 2 and chunk[HEADER_BYTES] == _ERR and not self.output.begun:
                errno = chunk[HEADER_BYTES + 1] | chunk[HEADER_BYTES + 2] << 8
                repeats = self.repeats
                if repeats.sent_again(errno, self.status, chunk) or repeats.replaced(chunk, self.listener.refused):
                    return
                chunk = renumbered(chunk, errno)
            client.writer(chunk)
        if not self.output.begun:
            outcome = self._recognise(chunk)
            if outcome is not None:
                self.mode = _IDLE
                # Outcomes of whole answers are shared values: the same one again contains nothing new.
                if outcome is not self._last_outcome or self._report:
                    self._on_outcome_changed(outcome, chunk)
                client.fast_done()
                if self._waiter is not None:
                    self._resolve(outcome)
                return
            self.output.begun = True
            self._walker.begin(self._command)
        self._walk(chunk, written=True)

    def _on_outcome_changed(self, outcome: Outcome, answer: bytes) -> None:
        self._last_outcome, self.status = outcome, outcome.status
        self.listener.relayed(self._command, with_insert_id(outcome, answer) if self._report else outcome)

    def _slow_data(self, chunk: bytes) -> None:
        if self.mode is Mode.ANSWERING:
            self._walk(chunk)
        elif self.mode is Mode.IDLE:
            self._out_of_turn(chunk)
        else:
            self.client_data.buffer_early(chunk)

    def _walk(self, chunk: bytes, *, written: bool = False) -> None:
        """Find the end of the answer; the bytes go to the client unless they are `written` already."""
        try:
            used = self._walker.feed(chunk)
        except MalformedAnswer as error:
            self._backend.abort(str(error))
            return
        rest = b""
        if used != len(chunk):
            chunk, rest = chunk[:used], chunk[used:]
        if not written:
            errno = self._walker.outcome.errno if self._walker.done and not rest else 0
            if errno and self.repeats.sent_again(errno, self.status, chunk):
                self._walker.begin(self._command)
                return
            self.output.emit(chunk)
        if self._walker.done:
            self._finish()
            if rest:
                self._out_of_turn(rest)
        elif self._walker.wants_client_data:
            self._begin_client_data(rest)
        elif self._client.lost:
            self._backend.abort("the client is gone, and with it the need for the rest of its answer")

    def _finish(self) -> None:
        outcome = self._walker.outcome
        if not outcome.errno and self._command in _WITH_STATUS:
            self.status = outcome.status
        fast = self.mode is _FAST
        self.enter(_IDLE)
        if fast:
            self._fast_done(outcome)
            return
        self.client_data.end_replies()
        if not self.output.collecting:
            self._client.seq = self.output.next_seq()
        self.output.reset()
        self._last_outcome = None
        self._resolve(outcome)

    def _fast_done(self, outcome: Outcome) -> None:
        self.output.reset()
        self._last_outcome = None
        self.listener.relayed(self._command, outcome)
        self._client.reset_seq()
        self._client.fast_done()
        self._resolve(outcome)

    def _resolve(self, outcome: Outcome) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(outcome)

    # --- what the client sends in the middle of an answer

    def _begin_client_data(self, rest: bytes) -> None:
        self.client_data.early = rest
        if self.output.collecting:
            # The proxy itself has no file to send: an empty packet ends it.
            self._backend.write(frame(b"", self._walker.last_sequence + 1 & 0xFF))
            self._walker.client_data_sent()
            return
        self.output.deliver(begun=self.answering)
        self.enter(Mode.SENDING_FILE_FAST if self.mode is _FAST else Mode.SENDING_FILE)
        self._client.seq = self.output.next_seq()
        self._backend.seq = self._walker.last_sequence + 1 & 0xFF
        self.client_data.begin_file(self._file_sent)

    def _file_sent(self) -> None:
        """When the client has sent its file the answer goes on."""
        if self.output.reframer is not None:
            self.output.reframer.seq = self._client.seq
        self._walker.client_data_sent()
        self.enter(_FAST if self.mode is Mode.SENDING_FILE_FAST else Mode.ANSWERING)
        self.release_early()

    def release_early(self) -> None:
        """Everything has been sent: take what the server has sent meanwhile."""
        if early := self.client_data.take_early():
            self._data(early)

    # --- losing the connection

    def _out_of_turn(self, chunk: bytes) -> None:
        """The server sends an error without a command: it is about to close the connection (timeout, KILL,
        shutdown)."""
        reason = "the server spoke out of turn"
        if chunk[HEADER_BYTES : HEADER_BYTES + 1] == b"\xff":
            reason = parse_err(chunk[HEADER_BYTES:]).message
            self.listener.on_closing_error(chunk)
        self._backend.abort(reason)

    def _lost(self, reason: str) -> None:
        self.client_data.cancel()
        self.losses.reported = self.answering
        error = self.loss(reason)
        if self.mode is not Mode.IDLE and self.mode not in SENDING_ANY:
            self.fail(error)
        self.listener.lost(Outcome.of(error, self.status), reset=self._backend.was_reset)

    def loss(self, reason: str) -> BackendLost:
        """The error for a connection that is lost now."""
        return self.losses.error(reason, answering=self.answering)

    def fail(self, error: BackendLost) -> None:
        """End the command in progress."""
        outcome = Outcome.of(error, self.status)
        fast = self.mode in OF_FAST_PATH
        self.enter(_IDLE)
        if self.output.begun:
            if not self._client.closed:
                self._client.abort()
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_exception(StreamClosed("the client was cut off in mid-answer"))
            return
        if not self.losses.hint:
            self.output.forget()
            self.losses.close(self._client, self.listener)
        elif not self.output.collecting:
            seq = 1 if fast else self._client.seq
            self._client.seq = seq + 1 & 0xFF
            self.output.write_error(error, seq)
        if fast:
            self._fast_done(outcome)
        else:
            self._resolve(outcome)
