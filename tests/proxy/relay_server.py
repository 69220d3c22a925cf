"""A proxy of the wire alone, for tests: PacketStream, carried authentication and RelayUpstream, in a thread of its own.

Everything passes to the database. With `fast`, whatever can goes the fast path; otherwise every command takes a task.
Comments in a query ask for more: `/*next*/` separates statements that are sent one by one, `/*hold*/` has the answer
held and then delivered, `/*collect*/` has it collected and sent on as a result of our own.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from wire_peers import LOOPS

from proxy import wire
from proxy.client_tls import OfferedTls
from proxy.errors import LoginFailed, ProxyError, StreamClosed
from proxy.handshake import BackendTls, LoginResult, carry_authentication
from proxy.relay import NO, TELL, BackendLink, RelayUpstream
from proxy.stream import PacketStream
from proxy.upstream import Collected, Outcome

MAX_PACKET_BYTES = 64 << 20


class RelayServer:
    """Start with `with`; `port` is where it listens."""

    def __init__(
        self,
        backend_port: int,
        *,
        loop: str = "uvloop",
        fast: bool = True,
        tls: BackendTls | None = None,
        client_tls: OfferedTls | None = None,
        login_timeout: float = 10.0,
    ) -> None:
        self.port = 0
        self.fast_answers: list[tuple[int, Outcome]] = []
        self.task_answers: list[tuple[int, Outcome]] = []
        self.logins: list[LoginResult] = []
        self.failed_logins: list[LoginFailed] = []
        self.upstreams: list[RelayUpstream] = []
        self.faults: list[BaseException] = []
        self._backend_port = backend_port
        self._fast = fast
        self._tls = tls
        self._client_tls = client_tls
        self._login_timeout = login_timeout
        self._loop = LOOPS[loop]()
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams: list[PacketStream] = []
        self._links: list[BackendLink] = []
        self._started = threading.Event()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> RelayServer:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        assert not self._thread.is_alive()
        assert self.faults == []

    def call(self, work: Any) -> Any:
        """Run a coroutine on the server's loop, from the test's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        server = await self._loop.create_server(
            lambda: PacketStream(self._accepted, max_packet_bytes=64 << 10), "127.0.0.1", 0
        )
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for stream in self._streams:
            stream.abort()
            await stream.wait_lost()
        for link in self._links:  # TLS says goodbye even then
            link.abort()
            await link.wait_lost()

    def _accepted(self, stream: PacketStream) -> None:
        self._streams.append(stream)
        task = self._loop.create_task(self._serve(stream))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.faults.append(error)

    async def _serve(self, stream: PacketStream) -> None:
        try:
            link = await BackendLink.connect("127.0.0.1", self._backend_port)
            self._links.append(link)
            login = await carry_authentication(
                stream, link, tls=self._tls, client_tls=self._client_tls, login_timeout=self._login_timeout
            )
        except LoginFailed as error:
            self.failed_logins.append(error)
            return
        except StreamClosed:
            return
        self.logins.append(login)
        stream.set_limits(MAX_PACKET_BYTES)
        upstream = RelayUpstream(
            link,
            stream,
            capabilities=login.capabilities,
            status=login.status,
            decide=lambda command, packet: TELL if self._fast and b"/*" not in packet else NO,
            on_answer=lambda command, outcome: self.fast_answers.append((command, outcome)),
            on_lost=lambda outcome: stream.close(),
        )
        self.upstreams.append(upstream)
        stream.fast_path = upstream.try_fast
        try:
            await self._commands(stream, upstream, login)
        except (StreamClosed, LoginFailed):
            pass
        finally:
            await upstream.close()
            stream.close()

    async def _commands(self, stream: PacketStream, upstream: RelayUpstream, login: LoginResult) -> None:
        while upstream.alive:
            payload = await stream.read_command()
            if payload[0] == 0x01:
                return
            if payload[0] == 0x11:
                login = await upstream.change_user(payload, login)
                self.logins.append(login)
                continue
            try:
                await self._command(stream, upstream, payload, login.capabilities)
            except ProxyError:
                return

    async def _command(self, stream: PacketStream, upstream: RelayUpstream, payload: bytes, capabilities: int) -> None:
        if payload[:1] == b"\x03" and b"/*collect*/" in payload:
            await self._collect(stream, await upstream.collect(payload[1:].decode()), capabilities)
            return
        hold = b"/*hold*/" in payload
        statements = payload[1:].split(b"/*next*/") if payload[:1] == b"\x03" else [payload[1:]]
        for number, statement in enumerate(statements, 1):
            more = number < len(statements)
            outcome = await upstream.command(payload[:1] + statement, more=more, hold=hold)
            self.task_answers.append((payload[0], outcome))
            await upstream.deliver()
            if not outcome.ok:
                return

    async def _collect(self, stream: PacketStream, found: Collected | Outcome, capabilities: int) -> None:
        if isinstance(found, Outcome):
            if found.ok:
                await stream.write(wire.ok_packet(capabilities, affected_rows=found.affected_rows))
            else:
                await stream.write(wire.err_packet(capabilities, found.errno, found.sqlstate, found.message))
            return
        stream.write_many([wire.column_count(len(found.columns), capabilities)])
        stream.write_many([wire.column_definition(column, capabilities) for column in found.columns])
        if not wire.deprecates_eof(capabilities):
            stream.write_many([wire.eof_packet()])
        stream.write_many([wire.text_row(row) for row in found.rows])
        await stream.write(wire.end_packet(capabilities))
