"""RelayUpstream: a client's commands to its own MySQL connection, the answers back, as bytes.

Rules:
- One command at a time. The walker finds the end of its answer; rows are never parsed.
- Bytes pass untouched, except in the middle of a multi-statement (sequence ids, MORE_RESULTS), and except for answers
  that are buffered for `deliver` or collected for the proxy itself.
- Back-pressure goes both ways: a client that does not read stops the reading of the server, and the other way round.
- The fast path: from the client's socket callback to the server's socket and back, no task and no queue between.
- The connection to the server is lost: the client's is closed, as the server would have done. Where the session
  outlives its connection (`loss_hint`), the command in progress gets an error instead, if nothing of its answer was
  sent yet; otherwise the client's connection is cut, because half an answer cannot be ended. Whether the command took
  effect is unknown.
- Cancelling a command in mid-answer closes the connection: what it still carries would be taken for the next answer.

The state of a relay is its `Mode`; which mode may follow which is `FOLLOWS`. An answer ends when the walker is done.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable

from mysql_mimic.types import Commands

from proxy.errors import (
    BackendLost,
    FatalProtocolError,
    MalformedPacket,
    ProxyError,
    RefusedByServer,
    SessionLost,
    StreamClosed,
)
from proxy.login.carried_login import Admit, LoginResult, admit_all, carry_change_user
from proxy.transport.backend_socket import BackendSocket
from proxy.transport.client_socket import ClientSocket
from proxy.upstream.answer_output import BUFFERED_MAX_BYTES, AnswerOutput
from proxy.upstream.base import encoded
from proxy.upstream.client_data import pass_file, pass_replies
from proxy.upstream.fast_path import FAST_COMMAND_MAX_BYTES, FAST_COMMANDS, FastPath, NoListener, RelayListener
from proxy.upstream.large_command import LargeCommand
from proxy.upstream.relay_mode import FOLLOWS, OF_FAST_PATH, SENDING_ANY, WITHOUT_ANSWER, Mode
from proxy.wire import replies, requests
from proxy.wire.answer_walker import SHAPES, AnswerError, AnswerWalker, Shape, parse_err
from proxy.wire.collected_answer import decode_answer
from proxy.wire.outcome import Collected, Outcome
from proxy.wire.packets import HEADER_BYTES, PAYLOAD_MAX, frame, pieces
from proxy.wire.reframer import Reframer, renumbered
from proxy.wire.whole_answer import WholeAnswers, with_insert_id

QUIT_SECONDS = 1.0  # time for the server to close, so that a rollback is over when `close` returns

_ANSWERED = frozenset(command for command, shape in SHAPES.items() if shape is not Shape.NOTHING)
_ERR = 0xFF
_unpack_command = struct.Struct("<IB").unpack_from
_DUMPS = (Commands.COM_BINLOG_DUMP, Commands.COM_BINLOG_DUMP_GTID)
_IDLE, _FAST = Mode.IDLE, Mode.FAST  # for the fast path, which does not use the table
_WITH_STATUS = frozenset(command for command, shape in SHAPES.items() if shape in (Shape.RESULT, Shape.ROWS))


class RelayUpstream:
    """See the module. A listener is attached once there is one."""

    def __init__(
        self,
        backend: BackendSocket,
        client: ClientSocket,
        *,
        capabilities: int,
        status: int = 0,
        encoding: str = "utf-8",
    ) -> None:
        self.encoding = encoding
        self._backend = backend
        self._client = client
        self._capabilities = capabilities
        self._status = status
        self._walker = AnswerWalker(capabilities)
        self._recognise = WholeAnswers(capabilities).recognise
        self._mode = Mode.IDLE
        self._command = 0
        self._report = False
        self._last_outcome: Outcome | None = None  # of the last command, where it was a whole answer on the fast path
        self.output = AnswerOutput(client, self._walker)
        self._waiter: asyncio.Future[Outcome] | None = None
        self._client_data: asyncio.Task[None] | None = None
        self._replies: asyncio.Task[None] | None = None
        self._early = b""  # what the server sent while the client was still sending its data
        self._closed = False
        self.loss_reported = False
        """Whether a command was in progress when the connection was lost, so that its answer reported it."""
        self.loss_hint = ""
        """The end of a client's error, after the reason, when its command was in progress."""
        client.on_pause, client.on_resume = backend.pause_reading, backend.resume_reading
        self.attach(NoListener())
        # A client that stopped reading and then went never resumes; what the server still sends must be seen to end it.
        client.on_lost = backend.resume_reading
        backend.on_lost = self._lost
        backend.deliver_to(self._data)

    def __repr__(self) -> str:
        mode = "lost" if self._backend.closed else self._mode.value
        return f"<RelayUpstream {mode} command={self._command:#04x} status={self._status:#06x}>"

    def attach(self, listener: RelayListener) -> None:
        """The listener decides whether a command takes the fast path, and receives its outcome and the connection's
        end. `NoListener` removes it."""
        self._listener = listener
        self._may_relay = listener.may_relay

    @property
    def status(self) -> int:
        """See Upstream."""
        return self._status

    @property
    def alive(self) -> bool:
        """See Upstream."""
        return not self._backend.closed

    @property
    def connection_required(self) -> bool:
        """See Upstream."""
        return self.alive

    @property
    def answering(self) -> bool:
        """Whether the server is at work for the client, or for us."""
        return self._mode not in WITHOUT_ANSWER

    def _enter(self, mode: Mode) -> None:
        assert mode is _IDLE or mode in FOLLOWS[self._mode], f"{mode} after {self._mode}"
        self._mode = mode

    # --- commands

    async def command(self, payload: bytes, *, more: bool = False, buffered: bool = False) -> Outcome:
        """See Upstream.

        Raises:
            ProxyError: a command that cannot be relayed, or a connection that was lost before.
            StreamClosed: the connection was lost with half an answer written, so the client was cut off.
        """
        command = payload[0] if payload else -1
        if command not in SHAPES:
            raise ProxyError(1047, f"Unknown command {command:#04x}")
        if command not in _ANSWERED:
            self._check_ready()
            await self._write(payload)
            return Outcome(status=self._status)
        sent_packets = len(payload) // PAYLOAD_MAX + 1
        untouched = not more and self._client.seq == sent_packets & 0xFF and self.output.edit_error is None
        self._begin(command)
        reframer = None if untouched else Reframer(self._client.seq, more=more, capabilities=self._capabilities)
        self.output.begin(reframer, buffered=buffered)
        return await self._send(payload)

    async def pass_on(self, large: LargeCommand, *, buffered: bool = False) -> Outcome:
        """See Upstream."""
        command = large.head[0]
        if command not in _ANSWERED:
            self._check_ready()
            self._enter(Mode.SENDING_UNANSWERED)
            await self._send_large(large)
            return Outcome(status=self._status)
        self._begin(command, Mode.SENDING)
        self.output.begin(buffered=buffered)
        return await self._answered(self._send_large(large), large=True)

    async def _send_large(self, large: LargeCommand) -> None:
        """Send a command; what the server sends before it has all of it is buffered until then."""
        self._early = b""
        try:
            await large.send(self._backend)
        except BaseException as error:
            self._enter(Mode.IDLE)
            if isinstance(error, (StreamClosed, FatalProtocolError)):
                # Half of it is there; it must never be executed.
                self._backend.abort("the client broke off its command")
            raise
        answered = self._mode is Mode.SENDING
        self._enter(Mode.ANSWERING if answered else Mode.IDLE)
        early, self._early = self._early, b""
        if answered and (early or large.rest is not None):
            # The server has not counted as many packets as the client has sent.
            self.output.reframer = Reframer(
                self._client.seq, more=large.rest is not None, capabilities=self._capabilities
            )
        if early:
            self._data(early)
        if self.answering and self._backend.closed:
            self._fail(self._loss(self._backend.reason))

    def recode(self, encoding: str) -> None:
        """See Upstream."""
        self.encoding = encoding

    async def deliver(self) -> None:
        """See Upstream."""
        self.output.deliver(begun=self.answering)
        await self._client.drain()

    async def collect(self, sql: str) -> Collected | Outcome:
        """See Upstream."""
        try:
            payload = requests.query_payload(encoded(sql, self.encoding), self._capabilities)
        except UnicodeEncodeError as error:
            return Outcome(1300, f"Invalid {self.encoding} character string: {error.reason}", "HY000")
        self._begin(Commands.COM_QUERY)
        self.output.begin(collect=True)
        outcome = await self._send(payload)
        answer = self.output.take()
        if not outcome.ok:
            return outcome
        if answer is None:
            return Outcome(1105, f"the answer is larger than {BUFFERED_MAX_BYTES} bytes", "HY000", self._status)
        try:
            return decode_answer(answer, outcome, self._capabilities, encoding=self.encoding)
        except MalformedPacket as error:
            return Outcome(1105, error.message, "HY000", self._status)

    async def change_user(self, payload: bytes, login: LoginResult, admit: Admit = admit_all) -> LoginResult:
        """Carry a COM_CHANGE_USER; see `carry_change_user` for what it raises."""
        self._check_ready()
        try:
            result = await carry_change_user(self._client, self._backend, payload, login, admit=admit)
        except RefusedByServer:
            self._status, self._last_outcome = login.status, None  # MariaDB resets the session before it refuses
            raise
        self._status, self.encoding, self._last_outcome = result.status, result.encoding, None
        return result

    async def close(self) -> None:
        """See Upstream."""
        if self._closed:
            return
        self._closed = True
        self._backend.on_lost = self._client.on_pause = self._client.on_resume = self._client.on_lost = None
        self._end_replies()
        if self._client_data is not None:
            self._client_data.cancel()
        if self._mode in OF_FAST_PATH and not self.output.begun:
            # A client that is killed leaves its last statement in progress. How it ends is worth knowing.
            self._waiter = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._waiter,), timeout=QUIT_SECONDS)
        if self._mode is not Mode.IDLE:
            self._backend.abort()
            if self.answering:
                self._fail(self._loss("closed by the proxy"))
        elif not self._backend.closed:
            self._backend.resume_reading()
            self._backend.sink = lambda chunk: None  # what the server sends at the end is of no interest
            if self._client.closed and not self._client.quit_received:
                self._backend.hang_up()  # as the client did: the server counts such, and logs them
            else:
                self._backend.write(frame(bytes((Commands.COM_QUIT,))))
            try:
                async with asyncio.timeout(QUIT_SECONDS):
                    await self._backend.wait_lost()
            except TimeoutError:
                pass  # the rollback takes longer than we wait
            finally:
                self._backend.close()

    def _check_ready(self) -> None:
        if self._backend.closed:
            if not self.loss_hint:
                self._client.close()
            raise self._loss(self._backend.reason)
        assert self._mode is Mode.IDLE, "a command is under way"

    def _begin(self, command: int, mode: Mode = Mode.ANSWERING) -> None:
        self._check_ready()
        self._walker.begin(command)
        self._command = command
        self._enter(mode)
        if command in _DUMPS:
            self._replies = asyncio.get_running_loop().create_task(pass_replies(self._client, self._backend))

    def _send(self, payload: bytes) -> Awaitable[Outcome]:
        return self._answered(self._write(payload), large=len(payload) > FAST_COMMAND_MAX_BYTES)

    async def _answered(self, sending: Awaitable[None], *, large: bool) -> Outcome:
        """Have a command sent, and wait for the end of its answer. `large`: the server may send an error and close
        before it has all of it."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            with self._backend.preserving_closing_error(large):
                await sending
                return await self._waiter
        except asyncio.CancelledError:
            self._enter(Mode.IDLE)
            self._backend.abort("a command was cancelled")
            raise
        finally:
            self._waiter = None

    def _end_replies(self) -> None:
        """Whatever comes next is the client's next command."""
        if self._replies is not None:
            self._replies.cancel()
            self._replies = None
            self._client.seq = 1

    async def _write(self, payload: bytes) -> None:
        """A large command goes as the server takes it."""
        for piece in pieces(payload):
            self._backend.write(piece)
            await self._backend.drain()

    # --- the fast path

    def try_fast(self, data: bytes) -> bool:
        """A ClientSocket's fast path: relay one whole small command without a task, if the listener agrees."""
        size = len(data) - HEADER_BYTES
        if not 0 < size <= FAST_COMMAND_MAX_BYTES:
            return False
        header, command = _unpack_command(data)
        # The header as one number: its sequence id has to be 0, and the packet all there is.
        send = self._backend.writer
        if header != size or command not in FAST_COMMANDS or self._mode is not _IDLE or send is None:
            return False
        verdict = self._may_relay(command, data)
        if verdict is FastPath.REFUSE:
            return False
        send(verdict if isinstance(verdict, bytes) else data)
        self._report = verdict is not FastPath.RELAY
        self._command = command
        self._mode = _FAST
        return True

    # --- answers

    def _data(self, chunk: bytes) -> None:
        if self._mode is not _FAST:
            self._slow_data(chunk)
            return
        # The client first: the bytes are parsed while they are in transit.
        client = self._client
        if client.writer is not None:
            if len(chunk) > HEADER_BYTES + 2 and chunk[HEADER_BYTES] == _ERR and not self.output.begun:
                chunk = renumbered(chunk, chunk[HEADER_BYTES + 1] | chunk[HEADER_BYTES + 2] << 8)
            client.writer(chunk)
        if not self.output.begun:
            outcome = self._recognise(chunk)
            if outcome is not None:
                self._mode = _IDLE
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
        self._last_outcome, self._status = outcome, outcome.status
        self._listener.relayed(self._command, with_insert_id(outcome, answer) if self._report else outcome)

    def _slow_data(self, chunk: bytes) -> None:
        if self._mode is Mode.ANSWERING:
            self._walk(chunk)
        elif self._mode is Mode.IDLE:
            self._out_of_turn(chunk)
        else:
            self._buffer_early(chunk)

    def _walk(self, chunk: bytes, *, written: bool = False) -> None:
        """Find the end of the answer; the bytes go to the client unless they are `written` already."""
        try:
            used = self._walker.feed(chunk)
        except AnswerError as error:
            self._backend.abort(str(error))
            return
        rest = b""
        if used != len(chunk):
            chunk, rest = chunk[:used], chunk[used:]
        if not written:
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
            self._status = outcome.status
        fast = self._mode is Mode.FAST
        self._enter(Mode.IDLE)
        if fast:
            self._fast_done(outcome)
            return
        self._end_replies()
        if not self.output.collecting:
            self._client.seq = self.output.next_seq()
        self._reset_output()
        self._resolve(outcome)

    def _reset_output(self) -> None:
        self.output.reset()
        self._last_outcome = None

    def _fast_done(self, outcome: Outcome) -> None:
        self._reset_output()
        self._listener.relayed(self._command, outcome)
        self._client.reset_seq()
        self._client.fast_done()
        self._resolve(outcome)

    def _resolve(self, outcome: Outcome) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(outcome)

    # --- LOAD DATA LOCAL

    def _begin_client_data(self, rest: bytes) -> None:
        self._early = rest
        if self.output.collecting:
            # The proxy itself has no file to send: an empty packet ends it.
            self._backend.write(frame(b"", self._walker.last_sequence + 1 & 0xFF))
            self._walker.client_data_sent()
            return
        self.output.deliver(begun=self.answering)
        self._enter(Mode.SENDING_FILE_FAST if self._mode is Mode.FAST else Mode.SENDING_FILE)
        self._client_data = asyncio.get_running_loop().create_task(self._send_client_data())

    def _buffer_early(self, chunk: bytes) -> None:
        self._early += chunk
        if len(self._early) > BUFFERED_MAX_BYTES:
            self._backend.abort("the server answers at length before it has been sent everything")

    async def _send_client_data(self) -> None:
        """When the client has sent its file the answer goes on."""
        client = self._client
        client.seq = self.output.next_seq()
        self._backend.seq = self._walker.last_sequence + 1 & 0xFF
        if not await pass_file(client, self._backend):
            return
        if self.output.reframer is not None:
            self.output.reframer.seq = client.seq
        self._walker.client_data_sent()
        self._client_data = None
        self._enter(Mode.FAST if self._mode is Mode.SENDING_FILE_FAST else Mode.ANSWERING)
        early, self._early = self._early, b""
        if early:
            self._data(early)

    # --- losing the connection

    def _out_of_turn(self, chunk: bytes) -> None:
        """The server sends an error without a command: it is about to close the connection (timeout, KILL,
        shutdown)."""
        reason = "the server spoke out of turn"
        if chunk[HEADER_BYTES : HEADER_BYTES + 1] == b"\xff":
            reason = parse_err(chunk[HEADER_BYTES:]).message
            self._listener.on_closing_error(chunk)
        self._backend.abort(reason)

    def _lost(self, reason: str) -> None:
        self._end_replies()
        if self._client_data is not None:
            self._client_data.cancel()
            self._client_data = None
        self.loss_reported = self.answering
        error = self._loss(reason)
        if self._mode is not Mode.IDLE and self._mode not in SENDING_ANY:
            self._fail(error)
        self._listener.lost(Outcome.of(error, self._status), reset=self._backend.was_reset)

    def _loss(self, reason: str) -> BackendLost:
        """With a hint the client's session outlives the connection, and must not be taken for lost. Without, the
        client's connection is closed, and no packet has the reason."""
        if self.loss_hint:
            return BackendLost(reason + self.loss_hint if self.answering else reason)
        return SessionLost(reason)

    def _fail(self, error: BackendLost) -> None:
        """End the command in progress."""
        outcome = Outcome.of(error, self._status)
        fast = self._mode in OF_FAST_PATH
        self._enter(Mode.IDLE)
        if self.output.begun:
            if not self._client.closed:
                self._client.abort()
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_exception(StreamClosed("the client was cut off in mid-answer"))
            return
        if not self.loss_hint:
            self.output.forget()
            self._client.close()
        elif not self.output.collecting:
            seq = 1 if fast else self._client.seq
            self._client.seq = seq + 1 & 0xFF
            packet = replies.err_packet(self._capabilities, error.errno, error.sqlstate, error.message)
            self.output.write_error(frame(packet, seq))
        if fast:
            self._fast_done(outcome)
        else:
            self._resolve(outcome)
