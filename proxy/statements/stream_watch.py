"""What is done during an open stream on the session's own connection to the database: rights checks and keepalives.

The rights of the stream's account are checked again and again; and on the connection, which is otherwise silent, a
keepalive is sent before the server's timeout ends it.

A statement of the proxy is over before anything else goes to that connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

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


@contextlib.asynccontextmanager
async def watching_stream(
    subscription: OpenStream, upstream: Upstream, judge: Judge, rights_checks: RightsChecks
) -> AsyncIterator[None]:
    """For as long as the client waits for the stream. A result that is over within _FIRST_SECONDS needs no watch."""
    over, loop = asyncio.Event(), asyncio.get_running_loop()
    watches: list[asyncio.Task[None]] = []

    def begin() -> None:
        watches.append(loop.create_task(_watch(subscription, upstream, judge, rights_checks, over)))

    timer = loop.call_later(_FIRST_SECONDS, begin)
    try:
        yield
    finally:
        over.set()
        timer.cancel()
        for watch in watches:
            # Broken off in mid-answer the connection would be lost.
            await asyncio.wait((watch,), timeout=_LAST_SECONDS)
            watch.cancel()


async def _watch(
    subscription: OpenStream, upstream: Upstream, judge: Judge, rights_checks: RightsChecks, over: asyncio.Event
) -> None:
    now = asyncio.get_running_loop().time
    keepalive_at = now()
    while not await _ended_within(over, min(rights_checks.due_at, keepalive_at) - now()):
        if now() >= keepalive_at:
            keepalive_at = now() + (await _keep_alive(upstream) if upstream.connection_required else RIGHTS_SECONDS)
        if (
            now() >= rights_checks.due_at
            and not over.is_set()
            and await rights_checks.again(subscription, judge) is not None
        ):
            return


async def _ended_within(over: asyncio.Event, seconds: float) -> bool:
    """Wait; whether the stream has ended meanwhile."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(seconds, 0.0)):  # not wait_for, which makes a task of each
            await over.wait()
    return over.is_set()


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
