"""An engine over the in-memory store in virtual time, and receivers that note what they get."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Sequence
from typing import Any

from memory_store import NAME, MemoryStore, Row, make_spec
from virtual_time import VirtualClock, settle

from engine.delivery.message_manager import MessageManager
from engine.delivery.subscription import Subscription
from engine.engine import Engine, EngineOptions
from engine.model.commit_report import CommitReport, Settlement
from engine.model.errors import EngineError
from engine.model.queue import Batch, QueueName, QueueSpec, ReceiverIdentity, SubscribeRequest, WaitMode

_IDENTITY = tuple(field.name for field in dataclasses.fields(ReceiverIdentity))


def request_of(queue: QueueName = NAME, **request: Any) -> SubscribeRequest:
    """A request; what identifies its receiver may be among the arguments."""
    receiver = {name: request.pop(name) for name in _IDENTITY if name in request}
    return SubscribeRequest(queue, receiver=ReceiverIdentity(**receiver), **request)


class Receiver:
    """A consumer that reads batch after batch, or stops when told to."""

    def __init__(self, subscription: Subscription, reading: bool = True) -> None:
        self.subscription = subscription
        self.batches: list[Batch] = []
        self.times: list[float] = []
        self.error: EngineError | None = None
        self.ended = asyncio.Event()
        self._reading = asyncio.Event()
        if reading:
            self._reading.set()
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            async for batch in self.subscription:
                self.batches.append(batch)
                self.times.append(asyncio.get_running_loop().time())
                await self._reading.wait()
        except EngineError as error:
            self.error = error
        self.ended.set()

    @property
    def ids(self) -> list[Any]:
        return [message.id for batch in self.batches for message in batch.messages]

    @property
    def epochs(self) -> list[int]:
        return [message.epoch for batch in self.batches for message in batch.messages]

    def stop_reading(self) -> None:
        self._reading.clear()

    def go_on_reading(self) -> None:
        self._reading.set()

    async def close(self, *, release: bool = True) -> None:
        """What the proxy does when its client is gone."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        await self.subscription.close(release=release)


class World:
    """See the module. Made by `world`."""

    def __init__(
        self, *queues: QueueSpec, work_limit: int = 8, store: MemoryStore | None = None, **options: Any
    ) -> None:
        self.clock = VirtualClock()
        self.store = store or MemoryStore(self.clock)
        self.store.serve(*(queues or (make_spec(),)))
        chosen = EngineOptions(work_limit, **options)
        self.engine = Engine(self.store, clock=self.clock, jitter=lambda: 1.0, options=chosen)
        self.receivers: list[Receiver] = []
        self.committed_at: dict[Any, float] = {}
        """For tests that note it."""

    @property
    def time(self) -> float:
        """Seconds since the start."""
        return self.clock.monotonic() - 1000.0

    @property
    def manager(self) -> MessageManager:
        return self.engine.queues.by_name[NAME].manager

    async def receive(self, queue: QueueName = NAME, *, reading: bool = True, **request: Any) -> Receiver:
        """A new receiver; one that is not `reading` takes one batch and then stops."""
        receiver = Receiver(await self.engine.subscribe(request_of(queue, **request)), reading)
        self.receivers.append(receiver)
        await settle()
        return receiver

    async def fetch(
        self, limit: int | None = None, wait: float | None = None, mode: WaitMode | None = None, **request: Any
    ) -> Receiver:
        """A bounded result, read to its end; by its `mode`, or NOWAIT where it has no time to wait."""
        mode = mode or (WaitMode.NOWAIT if wait is None else WaitMode.WAIT)
        receiver = await self.receive(limit=limit, wait_mode=mode, wait_seconds=wait or 0.0, **request)
        await receiver.ended.wait()
        await receiver.subscription.close(release=receiver.error is not None)
        return receiver

    async def commit(self, *rows: Row, queue: QueueName = NAME, told: Sequence[int] = ()) -> None:
        """A client's committed INSERT, with the proxy's word of it, and the ids that the database's answer `told`."""
        self.store.add(*rows, queue=queue)
        if told and list(told) != list(range(told[0], told[0] + len(told))):
            self.engine.committed(CommitReport(touched=frozenset((queue,)), added={queue: told}))
        else:  # one statement, a transaction of its own
            self.engine.enqueued(queue, told[0] if told else 0, len(told or rows))
        await settle()

    def ack(self, *ids: Any, heard: bool = True, queue: QueueName = NAME) -> None:
        """A committed ack; not `heard`: around the proxy."""
        self.store.ack(*ids, queue=queue)
        if heard:
            self.engine.settled(Settlement(queue, "acked", ids, True), len(ids))

    def counters(self, queue: QueueName = NAME) -> dict[str, int]:
        return dict(next(status for status in self.engine.status() if status.name == queue).counters)


@contextlib.asynccontextmanager
async def world(*queues: QueueSpec, **options: Any) -> AsyncIterator[World]:
    """An open engine; closed in the end, with every receiver."""
    made = World(*queues, **options)
    await made.engine.open()
    try:
        yield made
    finally:
        for receiver in made.receivers:
            await receiver.close()
        await made.engine.close()
