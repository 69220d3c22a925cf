"""A proxy of the wire alone, for tests: ClientSocket, carried authentication and RelayUpstream, in a thread of its own.

Everything passes to the database. With `fast`, whatever can goes the fast path; otherwise every command takes a task.
Comments in a query ask for more: `/*next*/` separates statements that are sent one by one, `/*hold*/` has the answer
held and then delivered, `/*collect*/` has it collected and sent on as a result of our own.
"""

from __future__ import annotations

from wire_server import WireServer

from mysql_wire import replies
from mysql_wire.errors import ProxyError
from mysql_wire.outcome import Collected, Outcome
from proxy.errors import LoginFailed, StreamClosed
from proxy.login.carried_login import BackendTls, LoginResult, carry_authentication
from proxy.login.client_tls import OfferedTls
from proxy.transport.backend_socket import BackendSocket, connect_backend
from proxy.transport.client_socket import ClientSocket
from proxy.upstream.fast_path import FastPath
from proxy.upstream.relay import RelayUpstream

MAX_PACKET_BYTES = 64 << 20


class RelayServer(WireServer):
    """See the module."""

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
        super().__init__(loop)
        self.fast_answers: list[tuple[int, Outcome]] = []
        self.task_answers: list[tuple[int, Outcome]] = []
        self.logins: list[LoginResult] = []
        self.failed_logins: list[LoginFailed] = []
        self.upstreams: list[RelayUpstream] = []
        self._backend_port = backend_port
        self.fast = fast
        self._tls = tls
        self._client_tls = client_tls
        self._login_timeout = login_timeout
        self._links: list[BackendSocket] = []

    async def _closed(self) -> None:
        for link in self._links:  # TLS says goodbye even then
            link.abort()
            await link.wait_lost()

    async def _serve(self, stream: ClientSocket) -> None:
        try:
            link = await connect_backend("127.0.0.1", self._backend_port)
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
        stream.commands.max_packet_bytes = MAX_PACKET_BYTES
        upstream = RelayUpstream(
            link,
            stream,
            capabilities=login.capabilities,
            status=login.status,
        )
        upstream.attach(_Listener(self, stream))
        self.upstreams.append(upstream)
        stream.fast_path = upstream.try_fast
        try:
            await self._commands(stream, upstream, login)
        except (StreamClosed, LoginFailed):
            pass
        finally:
            await upstream.close()
            stream.close()

    async def _commands(self, stream: ClientSocket, upstream: RelayUpstream, login: LoginResult) -> None:
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

    async def _command(self, stream: ClientSocket, upstream: RelayUpstream, payload: bytes, capabilities: int) -> None:
        if payload[:1] == b"\x03" and b"/*collect*/" in payload:
            await self._collect(stream, await upstream.collect(payload[1:].decode()), capabilities)
            return
        buffered = b"/*hold*/" in payload
        statements = payload[1:].split(b"/*next*/") if payload[:1] == b"\x03" else [payload[1:]]
        for number, statement in enumerate(statements, 1):
            more = number < len(statements)
            outcome = await upstream.command(payload[:1] + statement, more=more, buffered=buffered)
            self.task_answers.append((payload[0], outcome))
            await upstream.deliver()
            if not outcome.ok:
                return

    async def _collect(self, stream: ClientSocket, found: Collected | Outcome, capabilities: int) -> None:
        if isinstance(found, Outcome):
            if found.ok:
                await stream.write(replies.ok_packet(capabilities, affected_rows=found.affected_rows))
            else:
                await stream.write(replies.err_packet(capabilities, found.errno, found.sqlstate, found.message))
            return
        stream.write_many([replies.column_count(len(found.columns), capabilities)])
        stream.write_many([replies.column_definition(column, capabilities) for column in found.columns])
        if not replies.deprecates_eof(capabilities):
            stream.write_many([replies.eof_packet()])
        stream.write_many([replies.text_row(row) for row in found.rows])
        await stream.write(replies.end_packet(capabilities))


class _Listener:
    """One client's."""

    def __init__(self, server: RelayServer, stream: ClientSocket) -> None:
        self._server = server
        self._stream = stream

    def may_relay(self, command: int, packet: bytes) -> FastPath:
        fast = self._server.fast and b"/*" not in packet
        return FastPath.RELAY_AND_REPORT if fast else FastPath.REFUSE

    def refused(self, error: Outcome) -> bytes:
        return b""

    def relayed(self, command: int, outcome: Outcome) -> None:
        self._server.fast_answers.append((command, outcome))

    def lost(self, outcome: Outcome, *, reset: bool) -> None:
        self._stream.close()

    client_stays = False

    def on_closing_error(self, packet: bytes) -> None: ...
