"""Waiting for what others wait for, too, or for what goes on when nobody does."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def wait_shared(future: asyncio.Future[T]) -> T:
    """Its result. Who is cancelled meanwhile does not end it, and how it ends then is no news for asyncio's log.

    Raises what it raises.
    """
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        future.add_done_callback(_retrieve)  # only now: an ordinary wait has no callback more
        raise


def _retrieve(future: asyncio.Future[T]) -> None:
    if not future.cancelled():
        future.exception()
