"""The console's process: its sockets, uvicorn with its own bounds, and background tasks.

It shuts down cleanly at SIGTERM and SIGINT, and when the proxy that started it is gone, for whatever reason: the pipe
between them ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import ssl
import time
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import uvicorn

from console.bounded_http import (
    CONNECTIONS_MAX,
    HEAD_MAX_BYTES,
    HEAD_SECONDS,
    KEEP_ALIVE_SECONDS,
    OF_ADDRESS_MAX,
    BoundedHttp,
    HttpConnections,
)
from console.database import IDLE_SECONDS, Connector
from console.entry import Entry
from console.hosts import hosts_of
from console.rates import Rates
from console.refused_logins import LoginLimits, RefusedLogins
from console.routes import application
from console.sampler import sample
from console.sessions import Sessions
from console.settings import ConsoleSettings
from proxy.login.client_tls import InvalidCertificate, load_certificate
from proxy.os_process import ENDING, on_signals, then_ignore_them

log = logging.getLogger(__name__)

_END_SECONDS = 3  # for pages in progress when the console ends
_HOUSEKEEPING_SECONDS = 5.0


class _Server(uvicorn.Server):
    """Handles signals itself: uvicorn would end the process by the signal. Opens the sockets itself: uvicorn would give
    a client a minute for the TLS handshake, before which a connection is not counted."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        config, loop = self.config, asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(
                lambda: BoundedHttp(config=config, server_state=self.server_state, app_state={}),
                sock=each,
                backlog=config.backlog,
                ssl=config.ssl,
                ssl_handshake_timeout=None if config.ssl is None else HEAD_SECONDS,
            )
            for each in sockets or ()
        ]
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run(settings: ConsoleSettings, sockets: Sequence[socket.socket], parent: int | None = None) -> None:
    """Serve on these sockets until the end. `parent`: a descriptor that is at its end when the parent is."""
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # any client can cause its warnings
    with asyncio.Runner() as runner:
        runner.run(then_ignore_them(_serve(settings, sockets, parent)))


async def _serve(settings: ConsoleSettings, sockets: Sequence[socket.socket], parent: int | None) -> None:
    clock = time.monotonic
    connector = Connector(settings.proxy, clock)
    sessions, rates = Sessions(clock), Rates()
    encrypted = settings.certificate is not None or settings.behind_proxy
    entry = Entry(
        sessions, LoginLimits(settings.login_failures, clock), connector, hosts_of(settings), encrypted,
        sockets[0].getsockname()[1], RefusedLogins("login refused", clock),
    )  # fmt: skip
    server = _server(application(entry, rates, behind_proxy=settings.behind_proxy), settings)
    of_address = CONNECTIONS_MAX if settings.behind_proxy else OF_ADDRESS_MAX
    server.server_state.http_connections = HttpConnections(of_address, entry.is_logged_in)  # type: ignore[attr-defined]
    loop = asyncio.get_running_loop()

    def stop() -> None:
        server.should_exit = True

    on_signals(ENDING, stop)
    on_signals((signal.SIGHUP,), lambda: None)  # sent to all of a service; a renewed certificate is noticed without it
    if parent is not None:
        loop.add_reader(parent, _gone, parent, stop)
    background: list[Coroutine[Any, Any, None]] = [_housekeeping(sessions, entry.refused, clock)]
    if settings.counters is not None:
        background.append(sample(settings.counters, rates, clock))
    if server.config.ssl is not None:
        background.append(_renew(server.config.ssl, settings))
    tasks = [asyncio.create_task(each) for each in background]
    try:
        await server.serve(sockets=list(sockets))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for session in sessions:
            sessions.end(session)
        connector.close()


def _server(app: Any, settings: ConsoleSettings) -> _Server:
    config = uvicorn.Config(
        app,
        http=BoundedHttp,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX + 1,  # HttpConnections decides which one is closed
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_END_SECONDS,
        h11_max_incomplete_event_size=HEAD_MAX_BYTES,
    )
    config.load()
    if settings.certificate is not None:
        config.ssl, _ = load_certificate(settings.certificate, settings.key)
    return _Server(config)


def _gone(parent: int, stop: Any) -> None:
    if not os.read(parent, 64):
        asyncio.get_running_loop().remove_reader(parent)
        stop()


async def _housekeeping(sessions: Sessions, refused: RefusedLogins, clock: Any) -> None:
    """End sessions whose time has run out, close connections that nobody uses, and count refused logins in the log."""
    while True:
        await asyncio.sleep(_HOUSEKEEPING_SECONDS)
        refused.report()
        sessions.end_old()
        for session in sessions:
            await asyncio.to_thread(session.database.close_idle, clock() - IDLE_SECONDS)


async def _renew(context: ssl.SSLContext, settings: ConsoleSettings) -> None:
    """Read a renewed certificate: connections to come have it."""
    files = [Path(name) for name in (settings.certificate, settings.key) if name is not None]
    read = _times(files)
    while True:
        await asyncio.sleep(_HOUSEKEEPING_SECONDS)
        if (now := _times(files)) != read:
            read = now
            try:
                load_certificate(settings.certificate or "", settings.key)  # which refuses what would ask for a word
                context.load_cert_chain(settings.certificate or "", settings.key)
                log.info("the console's certificate was renewed")
            except (OSError, InvalidCertificate) as error:
                log.error("the console's certificate was not renewed, the old one stays", extra={"reason": error})


def _times(files: Sequence[Path]) -> list[int]:
    return [file.stat().st_mtime_ns if file.exists() else 0 for file in files]
