"""What goes on when those who wait are cancelled."""

from __future__ import annotations

import asyncio
import gc

import pytest

from engine.shared_future import wait_shared


@pytest.mark.parametrize("cancels", [1, 2])
def test_an_error_that_nobody_waits_for_any_more_is_no_news(cancels: int) -> None:
    """Cancelled, and cancelled again while cleaning up: the future fails afterwards, and asyncio has nothing to say."""
    told: list[object] = []

    async def wait(future: asyncio.Future[int]) -> None:
        try:
            await wait_shared(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(wait(future))
        for _ in range(cancels):
            await asyncio.sleep(0)
            waiting.cancel()
        await asyncio.sleep(0)
        future.set_exception(OSError("late"))
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        del future
        await asyncio.sleep(0)
        gc.collect()

    asyncio.run(main())
    assert not told


def test_one_of_two_leaves_and_the_other_hears_the_result() -> None:
    async def main() -> int:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        leaves, stays = (asyncio.ensure_future(wait_shared(future)) for _ in range(2))
        await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.wait([leaves])
        future.set_result(7)
        return await stays

    assert asyncio.run(main()) == 7
