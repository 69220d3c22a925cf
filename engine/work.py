"""DatabaseWork: how much of the database's work the engine may have going at once, over all queues.

Every store call of the engine passes through here, in the order asked for. Each queue's manager has at most one call
at a time, and its purger one more, so no queue can starve the others.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from asyncio_pool import AioPool

T = TypeVar("T")


class DatabaseWork:
    """See the module. Made inside a running event loop."""

    def __init__(self, limit: int) -> None:
        assert limit >= 1
        self._pool = AioPool(size=limit)

    async def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Await the call when it is its turn. A caller that is cancelled does not stop a call that has begun."""
        return cast(T, await self._pool.exec(call))
