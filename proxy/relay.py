"""RelayUpstream: a client's commands to its own MySQL connection, the answers back, as bytes.

Rules:
- One command at a time. The walker finds the end of its answer; rows are never looked at.
- Bytes pass untouched, except in the middle of a multi-statement (sequence ids, MORE_RESULTS), and except for answers
  that are held for `deliver` or collected for the proxy itself.
- Back-pressure goes both ways: a client that does not read stops the reading of the server, and the other way round.
- The fast path: from the client's socket callback to the server's socket and back, no task and no queue between.
- A line lost while a command is under way: the client gets an error if nothing of the answer was sent yet; otherwise
  its connection is cut, because half an answer cannot be ended. Whether the command took effect is unknown.
- Cancelling a command in mid-answer closes the line: what it still carries would be taken for the next answer.

Modes: idle, answering (direct, re-framed, held or collected), fast. Each ends when the walker is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mysql_mimic.types import Commands

from proxy import params, wire
from proxy.answer import SHAPES, AnswerError, AnswerWalker, Shape, parse_err
from proxy.capabilities import DEPRECATE_EOF
from proxy.collecting import decode_result
from proxy.errors import BackendLost, FatalProtocolError, MalformedPacket, ProxyError, StreamClosed
from proxy.framing import HEADER_BYTES, PAYLOAD_MAX, frame
from proxy.handshake import LoginResult, carry_change_user, refuse
from proxy.link import BackendLink
from proxy.reframe import Reframer
from proxy.stream import PacketStream
from proxy.upstream import Collected, Outcome

__all__ = ("BackendLink", "RelayUpstream")

HELD_MAX_BYTES = 16 << 20
"""Of an answer kept in memory: what SHOW statements and DDL answer is far smaller; beyond it nothing is collected."""

FAST_COMMAND_MAX_BYTES = 64 * 1024  # one read of the socket; a larger command is written with back-pressure
QUIT_SECONDS = 1.0  # time for the server to say goodbye, so that a rollback is over when `close` returns

Decide = Callable[[int, bytes], bool]
OnAnswer = Callable[[int, Outcome], None]

_ANSWERED = frozenset(command for command, shape in SHAPES.items() if shape is not Shape.NOTHING)
_WITH_STATUS = frozenset(command for command, shape in SHAPES.items() if shape in (Shape.RESULT, Shape.ROWS))


class RelayUpstream:
    """See the module. `decide` says whether a command may take the fast path, `on_answer` is told how it ended, and
    `on_lost` when the server closed the line or it broke."""

    def __init__(
        self,
        link: BackendLink,
        stream: PacketStream,
        *,
        capabilities: int,
        status: int = 0,
        encoding: str = "utf-8",
        decide: Decide | None = None,
        on_answer: OnAnswer | None = None,
        on_lost: Callable[[Outcome], None] | None = None,
    ) -> None:
        self.encoding = encoding
        self.decide = decide
        self.on_answer = on_answer
        self.on_lost = on_lost
        self._link = link
        self._stream = stream
        self._capabilities = capabilities
        self._status = status
        self._walker = AnswerWalker(deprecate_eof=bool(capabilities & DEPRECATE_EOF))
        self._command = 0
        self._busy = False
        self._fast = False
        self._begun = False  # something of this answer has reached the client
        self._kept: bytearray | None = None  # the answer so far, where it is held or collected
        self._collecting = False
        self._reframer: Reframer | None = None
        self._waiter: asyncio.Future[Outcome] | None = None
        self._client_data: asyncio.Task[None] | None = None
        self._early = b""  # what the server said while the client was still sending its data
        self._closed = False
        stream.on_pause, stream.on_resume = link.pause_reading, link.resume_reading
        # A client that stopped reading and then went never resumes; what the server still sends must be seen to end it.
        stream.on_lost = link.resume_reading
        link.on_lost = self._lost
        link.deliver_to(self._data)

    @classmethod
    async def open(
        cls,
        link: BackendLink,
        stream: PacketStream,
        *,
        capabilities: int,
        status: int = 0,
        encoding: str = "utf-8",
        decide: Decide | None = None,
        on_answer: OnAnswer | None = None,
        on_lost: Callable[[Outcome], None] | None = None,
    ) -> RelayUpstream:
        """Take over a link on which the client has just been logged in with these capabilities."""
        return cls(
            link,
            stream,
            capabilities=capabilities,
            status=status,
            encoding=encoding,
            decide=decide,
            on_answer=on_answer,
            on_lost=on_lost,
        )

    def __repr__(self) -> str:
        mode = "lost" if self._link.closed else "fast" if self._fast else "answering" if self._busy else "idle"
        return f"<RelayUpstream {mode} command={self._command:#04x} status={self._status:#06x}>"

    @property
    def status(self) -> int:
        """See Upstream."""
        return self._status

    @property
    def alive(self) -> bool:
        """See Upstream."""
        return not self._link.closed

    # --- commands

    async def command(self, payload: bytes, *, more: bool = False, hold: bool = False) -> Outcome:
        """See Upstream.

        Raises:
            ProxyError: a command that cannot be relayed, or a line that was lost before.
            StreamClosed: the line was lost with half an answer written, so the client was cut off.
        """
        command = payload[0] if payload else -1
        if command not in SHAPES:
            raise ProxyError(1047, f"Unknown command {command:#04x}")
        if command not in _ANSWERED:
            self._check_ready()
            self._link.write(frame(payload))
            await self._link.drain()
            return Outcome(status=self._status)
        sent_packets = len(payload) // PAYLOAD_MAX + 1
        untouched = not more and self._stream.seq == sent_packets & 0xFF
        self._begin(command)
        self._reframer = None if untouched else Reframer(self._stream.seq, more=more)
        self._kept = bytearray() if hold else None
        return await self._send(payload)

    async def deliver(self) -> None:
        """See Upstream."""
        self._stop_holding()
        await self._stream.drain()

    async def collect(self, sql: str) -> Collected | Outcome:
        """See Upstream."""
        try:
            payload = params.query_payload(sql.encode(self.encoding), self._capabilities)
        except UnicodeEncodeError as error:
            return Outcome(1300, f"Invalid {self.encoding} character string: {error.reason}", "HY000")
        self._begin(Commands.COM_QUERY)
        self._reframer, self._kept, self._collecting = None, bytearray(), True
        outcome = await self._send(payload)
        kept, self._kept = self._kept, None
        if not outcome.ok:
            return outcome
        if kept is None or len(kept) > HELD_MAX_BYTES:
            return Outcome(1105, f"the answer is larger than {HELD_MAX_BYTES} bytes", "HY000", self._status)
        return self._decoded(bytes(kept)) or outcome

    def _decoded(self, answer: bytes) -> Collected | Outcome | None:
        deprecate_eof = bool(self._capabilities & DEPRECATE_EOF)
        try:
            return decode_result(answer, deprecate_eof=deprecate_eof, encoding=self.encoding)
        except MalformedPacket as error:
            return Outcome(1105, error.message, "HY000", self._status)

    async def change_user(self, payload: bytes, login: LoginResult) -> LoginResult:
        """Carry a COM_CHANGE_USER; see `carry_change_user` for what it raises."""
        self._check_ready()
        result = await carry_change_user(self._stream, self._link, payload, login)
        self._status, self.encoding = result.status, result.encoding
        return result

    async def close(self) -> None:
        """See Upstream."""
        if self._closed:
            return
        self._closed = True
        self._link.on_lost = self._stream.on_pause = self._stream.on_resume = self._stream.on_lost = None
        if self._client_data is not None:
            self._client_data.cancel()
        if self._busy and self._fast and not self._begun:
            # A client that is killed leaves its last statement under way. How it ends is worth knowing.
            self._waiter = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._waiter,), timeout=QUIT_SECONDS)
        if self._busy:
            self._link.abort()
            self._fail(BackendLost("closed by the proxy"))
        elif not self._link.closed:
            self._link.resume_reading()
            self._link.sink = _discard
            self._link.write(frame(bytes((Commands.COM_QUIT,))))
            try:
                async with asyncio.timeout(QUIT_SECONDS):
                    await self._link.wait_lost()
            except TimeoutError:
                pass  # the rollback takes longer than we wait
            finally:
                self._link.close()

    def _check_ready(self) -> None:
        if self._link.closed:
            raise BackendLost(self._link.reason)
        assert not self._busy, "a command is under way"

    def _begin(self, command: int) -> None:
        self._check_ready()
        self._walker.begin(command)
        self._command = command
        self._busy = True
        self._begun = self._collecting = False

    async def _send(self, payload: bytes) -> Outcome:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            self._link.write(frame(payload))
            await self._link.drain()
            return await self._waiter
        except asyncio.CancelledError:
            self._busy = False
            self._link.abort("a command was cancelled")
            raise
        finally:
            self._waiter = None

    # --- the fast path

    def try_fast(self, data: bytes) -> bool:
        """A PacketStream's fast path: relay one whole small command without a task, if `decide` agrees."""
        size = len(data) - HEADER_BYTES
        if not 0 < size <= FAST_COMMAND_MAX_BYTES or data[0] | data[1] << 8 | data[2] << 16 | data[3] << 24 != size:
            return False
        command = data[4]
        if command not in _ANSWERED or self._busy or self._link.closed or self.decide is None:
            return False
        if not self.decide(command, data[5:]):
            return False
        self._walker.begin(command)
        self._command = command
        self._busy = self._fast = True
        self._begun = self._collecting = False
        self._reframer = self._kept = None
        self._link.write(data)
        return True

    # --- answers

    def _data(self, chunk: bytes) -> None:
        if not self._busy:
            self._out_of_turn(chunk)
            return
        if self._client_data is not None:
            self._keep_early(chunk)
            return
        try:
            used = self._walker.feed(chunk)
        except AnswerError as error:
            self._link.abort(str(error))
            return
        rest = b""
        if used != len(chunk):
            chunk, rest = chunk[:used], chunk[used:]
        if self._reframer is None and self._kept is None:
            self._begun = True
            self._stream.write_framed(chunk)
        else:
            self._emit(chunk)
        if self._walker.done:
            self._finish()
            if rest:
                self._out_of_turn(rest)
        elif self._walker.wants_client_data:
            self._begin_client_data(rest)
        elif self._stream.lost:
            self._link.abort("the client is gone, and with it the need for the rest of its answer")

    def _emit(self, chunk: bytes) -> None:
        """A chunk that is not passed on as it is."""
        if self._reframer is not None:
            chunk = self._reframer.feed(chunk, ended=self._walker.done and self._walker.outcome.ok)
        if self._kept is None:
            self._begun = self._begun or bool(chunk)
            self._stream.write_framed(chunk)
        elif len(self._kept) <= HELD_MAX_BYTES:
            self._kept += chunk
        elif not self._collecting:
            # Too much to hold: the client gets it before the proxy has read the catalog again.
            self._stop_holding()
            self._stream.write_framed(chunk)

    def _stop_holding(self) -> None:
        if self._kept is not None:
            kept, self._kept = bytes(self._kept), None
            self._begun = True
            self._stream.write_framed(kept)

    def _finish(self) -> None:
        outcome = self._walker.outcome
        if not outcome.errno and self._command in _WITH_STATUS:
            self._status = outcome.status
        self._busy = False
        if self._fast:
            self._fast_done(outcome)
            return
        if not self._collecting:
            self._stream.seq = self._next_seq()
        self._resolve(outcome)

    def _fast_done(self, outcome: Outcome) -> None:
        self._fast = False
        if self.on_answer is not None:
            self.on_answer(self._command, outcome)
        self._stream.fast_done()
        self._resolve(outcome)

    def _next_seq(self) -> int:
        """The sequence id that follows the last packet the client was sent."""
        return self._walker.last_sequence + 1 & 0xFF if self._reframer is None else self._reframer.seq

    def _resolve(self, outcome: Outcome) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(outcome)

    # --- LOAD DATA LOCAL

    def _begin_client_data(self, rest: bytes) -> None:
        self._early = rest
        if self._collecting:
            # The proxy itself has no file to send: an empty packet ends it.
            self._link.write(frame(b"", self._walker.last_sequence + 1 & 0xFF))
            self._walker.client_data_sent()
            return
        self._stop_holding()
        self._client_data = asyncio.get_running_loop().create_task(self._send_client_data())

    def _keep_early(self, chunk: bytes) -> None:
        self._early += chunk
        if len(self._early) > HELD_MAX_BYTES:
            self._link.abort("the server answers at length while it is being sent a file")

    async def _send_client_data(self) -> None:
        """Packets from the client to the server until the empty one; then the answer goes on."""
        stream, link = self._stream, self._link
        stream.seq = self._next_seq()
        link.seq = self._walker.last_sequence + 1 & 0xFF
        try:
            while payload := await stream.read():
                link.write_packet(payload)
                await link.drain()
        except FatalProtocolError as error:
            refuse(stream, error)
            link.abort("the client broke off its data")  # never ended properly: half a file must not be committed
            return
        except StreamClosed:
            link.abort("the client broke off its data")
            return
        link.write_packet(b"")
        if self._reframer is not None:
            self._reframer.seq = stream.seq
        self._walker.client_data_sent()
        self._client_data = None
        early, self._early = self._early, b""
        if early:
            self._data(early)

    # --- losing the line

    def _out_of_turn(self, chunk: bytes) -> None:
        """The server speaks unasked: it is about to close the line and says why (timeout, KILL, shutdown)."""
        reason = "the server spoke out of turn"
        if chunk[HEADER_BYTES : HEADER_BYTES + 1] == b"\xff":
            reason = parse_err(chunk[HEADER_BYTES:]).message
        self._link.abort(reason)

    def _lost(self, reason: str) -> None:
        if self._client_data is not None:
            self._client_data.cancel()
            self._client_data = None
        error = BackendLost(reason)
        if self._busy:
            self._fail(error)
        if self.on_lost is not None:
            self.on_lost(Outcome(error.errno, error.message, error.sqlstate, self._status))

    def _fail(self, error: BackendLost) -> None:
        """End the command under way."""
        outcome = Outcome(error.errno, error.message, error.sqlstate, self._status)
        self._busy = False
        if self._begun:
            self._fast = False
            if not self._stream.closed:
                self._stream.abort()
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_exception(StreamClosed("the client was cut off in mid-answer"))
            return
        if not self._collecting:
            self._write_error(error)
        if self._fast:
            self._fast_done(outcome)
        else:
            self._resolve(outcome)

    def _write_error(self, error: BackendLost) -> None:
        seq = 1 if self._fast else self._stream.seq
        packet = frame(wire.err_packet(self._capabilities, error.errno, error.sqlstate, error.message), seq)
        self._stream.seq = seq + 1 & 0xFF
        if self._kept is None:
            self._stream.write_framed(packet)
        else:
            self._kept[:] = packet


def _discard(chunk: bytes) -> None:
    """What the server says after our COM_QUIT is of no interest."""
