"""What is done during an open stream on the session's own connection to the database: rights checks and keepalives.

The rights of the stream's account are checked again and again; and on the connection, which is otherwise silent, a
keepalive is sent before the server's timeout ends it.

A statement of the proxy is over before anything else goes to that connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from engine.engine import OpenStream
from engine.model.errors import BackendError
from mysql_wire.errors import ProxyError
from mysql_wire.outcome import number
from proxy.upstream.base import NOT_BASE_TABLE, Upstream, collected

RIGHTS_SECONDS = 30.0
"""The interval at which the rights of an open stream's account are checked: one statement, which reads no row."""

_FIRST_SECONDS = 0.5  # no server ends a silent session sooner than after a second; most results are over by then
_PARTS = 3  # of the server's timeout: so often a keepalive is sent
_KEEPALIVE_SECONDS_MIN = 0.3
_LAST_SECONDS = 2.0  # for a statement of the proxy that is in progress when the stream ends

_SERVER_TIMEOUTS = (
    "SHOW SESSION VARIABLES WHERE Variable_name IN ('wait_timeout', 'idle_transaction_timeout',"
    " 'idle_readonly_transaction_timeout', 'idle_write_transaction_timeout')"
)
"""After how long a silence the server ends the session; 0: never."""

_DENIED = frozenset((1044, 1045, 1142, 1143, 1370, NOT_BASE_TABLE))

Judge = Callable[[], Awaitable[None]]
"""Raises BackendError where the account may not receive any more."""


class RightsChecks:
    """When the rights of a stream's account were last checked. A cursor stores it from one fetch to the next: each may
    be over at once."""

    def __init__(self) -> None:
        self._at = asyncio.get_running_loop().time()

    @property
    def due_at(self) -> float:
        """When the next check is due, on the event loop's clock."""
        return self._at + RIGHTS_SECONDS

    async def again(self, subscription: OpenStream, judge: Judge) -> BackendError | None:
        """Check now. Where the account may not receive any more the stream is ended, with this error."""
        error = await _denied(judge)
        self._at = asyncio.get_running_loop().time()
        if error is not None:
            subscription.end(error)
        return error


class StreamWatch:
    """For as long as the client waits for the stream: the body of an `async with`. A result that is over within
    _FIRST_SECONDS needs no watch."""

    def __init__(self, subscription: OpenStream, upstream: Upstream, judge: Judge, rights_checks: RightsChecks) -> None:
        self._subscription, self._upstream = subscription, upstream
        self._judge, self._rights_checks = judge, rights_checks
        self._over = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_FIRST_SECONDS, self._begin)

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            # Broken off in mid-answer the connection would be lost.
            await asyncio.wait((self._watch,), timeout=_LAST_SECONDS)
            self._watch.cancel()

    def _begin(self) -> None:
        self._watch = asyncio.get_running_loop().create_task(self._check_until_over())

    async def _check_until_over(self) -> None:
        now, checks, upstream = asyncio.get_running_loop().time, self._rights_checks, self._upstream
        keepalive_at = now()
        while not await self._ended_within(min(checks.due_at, keepalive_at) - now()):
            if now() >= keepalive_at:
                keepalive_at = now() + (await _keep_alive(upstream) if upstream.connection_required else RIGHTS_SECONDS)
            if now() < checks.due_at or self._over.is_set():
                continue
            if await checks.again(self._subscription, self._judge) is not None:
                return

    async def _ended_within(self, seconds: float) -> bool:
        """Wait; whether the stream has ended meanwhile."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.0)):  # not wait_for, which makes a task of each
                await self._over.wait()
        return self._over.is_set()


async def _keep_alive(upstream: Upstream) -> float:
    """Send a keepalive: a query for the server's timeouts. Returns the seconds until the next one."""
    try:
        limits = [number(value) for _, value in (await collected(upstream, _SERVER_TIMEOUTS)).each(2)]
    except (BackendError, ProxyError):
        return RIGHTS_SECONDS  # the next user of the connection gets the error
    limits = [limit for limit in limits if limit > 0]
    return max(min(limits, default=RIGHTS_SECONDS) / _PARTS, _KEEPALIVE_SECONDS_MIN)


async def _denied(judge: Judge) -> BackendError | None:
    """Why the account may not receive any more."""
    try:
        await judge()
    except BackendError as error:
        return error if error.errno in _DENIED else None
    except ProxyError:
        return None  # no check is possible now
    return None
