"""A server that logs clients in, answers COM_CHANGE_USER, and says OK to all the rest: for tests of logins."""

from __future__ import annotations

import asyncio
import threading
from ssl import SSLContext

from wire_peers import LOOPS

from proxy import wire
from proxy.accounts import Account, Accounts
from proxy.auth import EmbeddedIdentities, authenticate_embedded, change_user_embedded
from proxy.client_tls import OfferedTls
from proxy.errors import FatalProtocolError, LoginFailed, StreamClosed
from proxy.handshake import LoginResult
from proxy.stream import PacketStream


class LoginServer:
    """Start with `with`; `port` is where it listens. `commands` is everything that was executed."""

    def __init__(self, *accounts: Account, loop: str = "uvloop", tls: SSLContext | None = None) -> None:
        self.port = 0
        self.logins: list[LoginResult] = []
        self.failed_logins: list[LoginFailed] = []
        self.commands: list[bytes] = []
        self.faults: list[BaseException] = []
        self._identities = EmbeddedIdentities(Accounts(accounts))
        self._tls = OfferedTls(tls) if tls is not None else None
        self._loop = LOOPS[loop]()
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams: list[PacketStream] = []
        self._started = threading.Event()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> LoginServer:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        assert not self._thread.is_alive()
        assert self.faults == []

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
            login = await authenticate_embedded(
                stream, self._identities, connection_id=7, server_version="8.0.40-test", tls=self._tls, login_timeout=5
            )
            self.logins.append(login)
            while (payload := await stream.read_command())[:1] != b"\x01":
                if payload[:1] == b"\x11":
                    login = await change_user_embedded(stream, self._identities, payload, login)
                    self.logins.append(login)
                    continue
                self.commands.append(payload)
                await stream.write(wire.ok_packet(login.capabilities, status=2))
        except LoginFailed as error:
            self.failed_logins.append(error)
        except (StreamClosed, FatalProtocolError):
            pass
        finally:
            stream.close()
