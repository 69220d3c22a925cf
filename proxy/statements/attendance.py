"""Attendance: what is done beside an open stream on the session's own connection to the database.

The account of the stream is asked for its rights again and again; and the connection, from which nothing else is sent
meanwhile, says something before its server takes it for one whose client has gone. To the client it is at work.

A statement of ours is over before anything else goes to that connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from engine.engine import OpenStream
from engine.model.errors import BackendError
from proxy.errors import ProxyError
from proxy.upstream.base import Upstream, collected
from proxy.wire.outcome import number

RIGHTS_SECONDS = 30.0
"""After so long an open stream's account is asked for its rights again: one statement, which reads no row."""

_FIRST_SECONDS = 0.5  # no server ends a silent session sooner than after a second; most results are over by then
_PARTS = 3  # of the time after which a server does: so often something is said
_SAID_SECONDS_MIN = 0.3
_LAST_SECONDS = 2.0  # for a statement of ours that is under way when the stream ends

_SILENCE = (
    "SHOW SESSION VARIABLES WHERE Variable_name IN ('wait_timeout', 'idle_transaction_timeout',"
    " 'idle_readonly_transaction_timeout', 'idle_write_transaction_timeout')"
)
"""How long the server hears nothing of the session until it ends it; 0: for ever."""

_DENIED = frozenset((1044, 1045, 1142, 1143, 1370))

Judge = Callable[[], Awaitable[None]]
"""Raises BackendError where the account may not receive any more."""


class Judged:
    """When a stream's account was last asked for its rights. A cursor keeps it from one fetch to the next: each may be
    over at once."""

    def __init__(self) -> None:
        self._at = asyncio.get_running_loop().time()

    @property
    def due_at(self) -> float:
        """When it is to be asked again, on the event loop's clock."""
        return self._at + RIGHTS_SECONDS

    async def again(self, subscription: OpenStream, judge: Judge) -> BackendError | None:
        """Ask it. Where it may not receive any more the stream is ended, with this error."""
        error = await _denied(judge)
        self._at = asyncio.get_running_loop().time()
        if error is not None:
            subscription.end(error)
        return error


@contextlib.asynccontextmanager
async def attended(subscription: OpenStream, upstream: Upstream, judge: Judge, judged: Judged) -> AsyncIterator[None]:
    """For as long as the client waits for the stream."""
    over = asyncio.Event()
    attendance = asyncio.create_task(_attend(subscription, upstream, judge, judged, over))
    try:
        yield
    finally:
        over.set()
        # Broken off in mid-answer the connection would be lost.
        await asyncio.wait((attendance,), timeout=_LAST_SECONDS)
        attendance.cancel()


async def _attend(
    subscription: OpenStream, upstream: Upstream, judge: Judge, judged: Judged, over: asyncio.Event
) -> None:
    now = asyncio.get_running_loop().time
    said_at = now() + _FIRST_SECONDS
    while not await _passes(over, min(judged.due_at, said_at) - now()):
        if now() >= said_at:
            said_at = now() + (await _silence(upstream) if upstream.line_held else RIGHTS_SECONDS)
        if now() >= judged.due_at and not over.is_set() and await judged.again(subscription, judge) is not None:
            return


async def _passes(over: asyncio.Event, seconds: float) -> bool:
    """Wait; whether the stream has ended meanwhile."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(seconds, 0.0)):  # not wait_for, which makes a task of each
            await over.wait()
    return over.is_set()


async def _silence(upstream: Upstream) -> float:
    """Say something, namely ask after how many seconds it has to be said again."""
    try:
        limits = [number(value) for _, value in (await collected(upstream, _SILENCE)).each(2)]
    except (BackendError, ProxyError):
        return RIGHTS_SECONDS  # what is the matter is told to whoever uses the connection next
    limits = [limit for limit in limits if limit > 0]
    return max(min(limits, default=RIGHTS_SECONDS) / _PARTS, _SAID_SECONDS_MIN)


async def _denied(judge: Judge) -> BackendError | None:
    """Why the account may not receive any more."""
    try:
        await judge()
    except BackendError as error:
        return error if error.errno in _DENIED else None
    except ProxyError:
        return None  # nobody can be asked now
    return None
