"""Futures of those who wait for the same thing, in a list: each waits in it, and all are woken at once."""

from __future__ import annotations

import asyncio


async def wait_in(waiters: list[asyncio.Future[None]], loop: asyncio.AbstractEventLoop) -> None:
    waiter = loop.create_future()
    waiters.append(waiter)
    try:
        await waiter
    finally:
        if waiter in waiters:
            waiters.remove(waiter)


def wake_all(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
    waiters.clear()
