"""NextBatch: where the consumer of a stream waits, and what it waits for: a batch, or the end.

A batch is delivered to a consumer that waits; one that comes in the moment in which its wait is cancelled is stored for
the next call, or for `take_undelivered`. Nothing is delivered after the end, and what was delivered before it is read
first.
"""

from __future__ import annotations

import asyncio

from engine.model.errors import EngineError
from engine.model.queue import Batch, Message


class _Ended(Exception):
    """Wakes a consumer that waits."""


class NextBatch:
    """See the module. `error`: what the consumer gets at the end; None: it ends normally."""

    __slots__ = ("_ready", "_waiter", "error", "has_ended")

    def __init__(self) -> None:
        self._waiter: asyncio.Future[Batch] | None = None
        self._ready: Batch | None = None
        self.has_ended = False
        self.error: EngineError | None = None

    # --- the consumer's side

    def take(self) -> Batch | None:
        """A batch that is there already. Raises RuntimeError if another task waits."""
        if self._waiter is not None:
            raise RuntimeError("two tasks read one subscription")
        if self.error is not None:
            return None
        batch, self._ready = self._ready, None
        return batch

    def raise_if_ended(self) -> None:
        """StopAsyncIteration, or the error of the end."""
        if self.error is not None:
            raise self.error
        if self.has_ended:
            raise StopAsyncIteration

    def begin_wait(self) -> None:
        """From now on it is awaited; `wait` follows."""
        self._waiter = asyncio.get_running_loop().create_future()

    async def wait(self) -> Batch:
        """The next batch. Raises as `raise_if_ended`."""
        waiter = self._waiter
        assert waiter is not None, "begin_wait comes first"
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._ready = waiter.result()  # came in the same moment; the next call returns it
            raise
        except _Ended:
            self.raise_if_ended()
            raise AssertionError("woken as ended, yet not ended") from None
        finally:
            self._waiter = None

    # --- the manager's side

    @property
    def awaited(self) -> bool:
        """A consumer waits, and has no batch yet."""
        return self._waiter is not None and not self._waiter.done()

    def deliver(self, batch: Batch) -> None:
        """Give a batch to the consumer that waits; without one it is stored."""
        assert self._ready is None, "one batch at a time"
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(batch)
        else:
            self._ready = batch

    def take_undelivered(self) -> tuple[Message, ...]:
        """The messages of a batch that never reached the consumer."""
        batch, self._ready = self._ready, None
        return batch.messages if batch is not None else ()

    def end(self, error: EngineError | None) -> None:
        """Nothing is delivered any more. A consumer that waits is woken."""
        self.has_ended, self.error = True, error
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_exception(_Ended())
