"""RelayUpstream: a client's commands to its own MySQL connection, the answers back, as bytes.

Rules:
- One command at a time. The walker finds the end of its answer; rows are never parsed.
- Bytes pass untouched, except in the middle of a multi-statement (sequence ids, MORE_RESULTS), and except for answers
  that are buffered for `deliver` or collected for the proxy itself.
- Cancelling a command in mid-answer closes the connection: what it still carries would be taken for the next answer.

The bytes, and what happens when a connection is lost, are `AnswerRelay`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from mysql_mimic.types import Commands

from mysql_wire import requests
from mysql_wire.answer_walker import SHAPES, Shape
from mysql_wire.collected_answer import decode_answer
from mysql_wire.errors import FatalProtocolError, MalformedPacket, ProxyError
from mysql_wire.outcome import Collected, Outcome
from mysql_wire.packets import PAYLOAD_MAX, frame, pieces
from proxy.errors import RefusedByServer, StreamClosed
from proxy.login.carried_login import Admit, LoginResult, admit_all, carry_change_user
from proxy.transport.backend_socket import BackendSocket
from proxy.transport.client_socket import ClientSocket
from proxy.upstream.answer_output import BUFFERED_MAX_BYTES, AnswerOutput
from proxy.upstream.answer_relay import AnswerRelay, Mode
from proxy.upstream.base import encoded
from proxy.upstream.fast_path import FAST_COMMAND_MAX_BYTES, RelayListener
from proxy.upstream.large_command import LargeCommand

QUIT_SECONDS = 1.0  # time for the server to close, so that a rollback is over when `close` returns

_ANSWERED = frozenset(command for command, shape in SHAPES.items() if shape is not Shape.NOTHING)
_DUMPS = (Commands.COM_BINLOG_DUMP, Commands.COM_BINLOG_DUMP_GTID)


class RelayUpstream:
    """See the module. A listener is attached once there is one. `loss_hint`: see AnswerRelay."""

    def __init__(
        self,
        backend: BackendSocket,
        client: ClientSocket,
        *,
        capabilities: int,
        status: int = 0,
        encoding: str = "utf-8",
        loss_hint: str = "",
    ) -> None:
        self.encoding = encoding
        self._backend = backend
        self._client = client
        self._capabilities = capabilities
        self._closed = False
        self._relay = AnswerRelay(backend, client, capabilities=capabilities, status=status, loss_hint=loss_hint)
        self.try_fast = self._relay.try_fast
        """The client's fast path."""

    def __repr__(self) -> str:
        return f"<RelayUpstream {self._relay!r}>"

    def attach(self, listener: RelayListener) -> None:
        """See AnswerRelay."""
        self._relay.attach(listener)

    @property
    def status(self) -> int:
        return self._relay.status

    @property
    def alive(self) -> bool:
        return not self._backend.closed

    @property
    def connection_required(self) -> bool:
        return self.alive

    @property
    def answering(self) -> bool:
        """Whether the server is at work for the client, or for us."""
        return self._relay.answering

    @property
    def loss_reported(self) -> bool:
        """See Losses."""
        return self._relay.losses.reported

    @property
    def output(self) -> AnswerOutput:
        """Where the bytes of an answer go."""
        return self._relay.output

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
            ProxyError: a command that cannot be relayed, or a connection that was lost before.
            StreamClosed: the connection was lost with half an answer written, so the client was cut off.
        """
        command = payload[0] if payload else -1
        if command not in SHAPES:
            raise ProxyError(1047, f"Unknown command {command:#04x}")
        if command not in _ANSWERED:
            self._check_ready()
            await self._write(payload)
            return Outcome(status=self.status)
        sent_packets = len(payload) // PAYLOAD_MAX + 1
        untouched = not more and self._client.seq == sent_packets & 0xFF and self.output.edit_error is None
        self._begin(command)
        if repeatable and len(payload) <= FAST_COMMAND_MAX_BYTES:
            self._relay.repeats.begin(frame(payload))
        self.output.begin(buffered=buffered)
        if not untouched:
            self.output.reframe(more=more)
        return await self._send(payload)

    async def pass_on(self, large: LargeCommand, *, buffered: bool = False) -> Outcome:
        command = large.head[0]
        if command not in _ANSWERED:
            self._check_ready()
            self._relay.enter(Mode.SENDING_UNANSWERED)
            await self._send_large(large)
            return Outcome(status=self.status)
        self._begin(command, Mode.SENDING)
        self.output.begin(buffered=buffered)
        return await self._answered(self._send_large(large), large=True)

    async def _send_large(self, large: LargeCommand) -> None:
        """Send a command; what the server sends before it has all of it is buffered until then."""
        relay = self._relay
        relay.client_data.early = b""
        try:
            await large.send(self._backend)
        except BaseException as error:
            relay.enter(Mode.IDLE)
            if isinstance(error, (StreamClosed, FatalProtocolError)):
                # Half of it is there; it must never be executed.
                self._backend.abort("the client broke off its command")
            raise
        answered = relay.mode is Mode.SENDING
        relay.enter(Mode.ANSWERING if answered else Mode.IDLE)
        if answered and (relay.client_data.early or large.rest is not None):
            # The server has not counted as many packets as the client has sent.
            self.output.reframe(more=large.rest is not None)
        relay.release_early()
        if relay.answering and self._backend.closed:
            relay.fail(relay.loss(self._backend.reason))

    def recode(self, encoding: str) -> None:
        self.encoding = encoding

    async def deliver(self) -> None:
        self.output.deliver(begun=self.answering)
        await self._client.drain()

    async def collect(self, sql: str) -> Collected | Outcome:
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
            return Outcome(1105, f"the answer is larger than {BUFFERED_MAX_BYTES} bytes", "HY000", self.status)
        try:
            return decode_answer(answer, outcome, self._capabilities, encoding=self.encoding)
        except MalformedPacket as error:
            return Outcome(1105, error.message, "HY000", self.status)

    async def change_user(self, payload: bytes, login: LoginResult, admit: Admit = admit_all) -> LoginResult:
        """Carry a COM_CHANGE_USER; see `carry_change_user` for what it raises."""
        self._check_ready()
        try:
            result = await carry_change_user(self._client, self._backend, payload, login, admit=admit)
        except RefusedByServer:
            self._relay.set_status(login.status)  # MariaDB resets the session before it refuses
            raise
        self._relay.set_status(result.status)
        self.encoding = result.encoding
        return result

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        relay, backend = self._relay, self._backend
        relay.detach()
        # A client that is killed leaves its last statement in progress. How it ends is worth knowing.
        await relay.wait_fast(QUIT_SECONDS)
        if relay.mode is not Mode.IDLE:
            backend.abort()
            if relay.answering:
                relay.fail(relay.loss("closed by the proxy"))
        elif not backend.closed:
            backend.resume_reading()
            backend.redirect(lambda chunk: None)  # what the server sends at the end is of no interest
            if self._client.closed and not self._client.quit_received:
                backend.hang_up()  # as the client did: the server counts such, and logs them
            else:
                backend.write(frame(bytes((Commands.COM_QUIT,))))
            try:
                async with asyncio.timeout(QUIT_SECONDS):
                    await backend.wait_lost()
            except TimeoutError:
                pass  # the rollback takes longer than we wait
            finally:
                backend.close()

    def _check_ready(self) -> None:
        relay = self._relay
        if self._backend.closed:
            relay.losses.close(self._client, relay.listener)
            raise relay.loss(self._backend.reason)
        assert relay.mode is Mode.IDLE, "a command is under way"

    def _begin(self, command: int, mode: Mode = Mode.ANSWERING) -> None:
        self._check_ready()
        self._relay.begin(command, mode)
        if command in _DUMPS:
            self._relay.client_data.begin_replies()

    def _send(self, payload: bytes) -> Awaitable[Outcome]:
        return self._answered(self._write(payload), large=len(payload) > FAST_COMMAND_MAX_BYTES)

    async def _answered(self, sending: Awaitable[None], *, large: bool) -> Outcome:
        """`large`: the server may send an error and close before it has all of the command."""
        with self._backend.preserving_closing_error(large):
            return await self._relay.wait(sending)

    async def _write(self, payload: bytes) -> None:
        """A large command goes as the server takes it."""
        for piece in pieces(payload):
            self._backend.write(piece)
            await self._backend.drain()
