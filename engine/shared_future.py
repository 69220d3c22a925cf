"""Waiting for a future that has other waiters, or that goes on without any."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def wait_shared(future: asyncio.Future[T]) -> T:
    """Its result. Cancelling a waiter does not cancel the future, and asyncio does not log an exception that it has
    then.

    Raises the future's exception.
    """
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        future.add_done_callback(_retrieve)  # only now, so that an ordinary wait has no extra callback
        raise


def _retrieve(future: asyncio.Future[T]) -> None:
    if not future.cancelled():
        future.exception()
