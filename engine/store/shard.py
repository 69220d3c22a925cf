"""Shard: one shard of a Vitess, its store, and whether it answers; and Answers of several."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from engine.model.backoff import DoublingDelay
from engine.model.errors import (
    LOCKED,
    ROLLED_BACK,
    TOO_LARGE,
    BackendError,
    BackendUnavailable,
    fails_as_whole,
    is_transient,
)
from engine.model.queue import QueueName
from engine.store.sql_store import SqlMessageStore

_FIRST_PING, _PINGS_SECONDS = 0.25, 2.0  # the pauses between pings of a shard that does not answer
_REST_SECONDS = 5.0  # until a shard that leases nothing is polled again
_REPORT_SECONDS = 60.0  # until the log tells again of what a shard refuses

T = TypeVar("T")


class Shard:
    """One shard: its store, and whether it answers. `on_missing` is called when it does not, and then again and again
    until it does; and when it refuses work."""

    def __init__(
        self, target: str, store: SqlMessageStore, logger: logging.Logger, on_missing: Callable[[], None]
    ) -> None:
        self.store = store
        self._target, self._logger, self._on_missing = target, logger, on_missing
        self._lost: BackendUnavailable | None = None
        self._due: list[Callable[[SqlMessageStore], Awaitable[object]]] = []
        self._pinging: asyncio.Task[None] | None = None
        self._closed = False
        self._rest_until: dict[QueueName, float] = {}
        self._reported: dict[tuple[QueueName, int], float] = {}  # refused work: when the log has told of it

    @property
    def is_lost(self) -> bool:
        """Whether it does not answer."""
        return self._lost is not None

    async def run(self, work: Callable[[SqlMessageStore], Awaitable[T]]) -> T:
        """Do work there. Raises BackendUnavailable at once where it does not answer, and what the work raises."""
        if self._lost is not None:
            raise BackendUnavailable(self._lost.message, self._lost.errno, self._lost.sqlstate)
        try:
            return await work(self.store)
        except BackendUnavailable as error:
            if error.errno != TOO_LARGE:  # that is what it did answer
                self._lose(error)
            raise

    def before_use(self, work: Callable[[SqlMessageStore], Awaitable[object]]) -> None:
        """Have this done there before anything else; after a failure that has lost it."""
        self._due.append(work)

    def rest(self, queue: QueueName, error: BackendError) -> None:
        """It leases no message of a queue: for a while it is not to be polled for others, which come first in vain."""
        self._rest_until[queue] = asyncio.get_running_loop().time() + _REST_SECONDS
        self.refused(queue, error)

    def rests(self, queue: QueueName) -> bool:
        """See `rest`."""
        return self._rest_until.get(queue, 0.0) > asyncio.get_running_loop().time()

    def refused(self, queue: QueueName, error: BackendError) -> None:
        """It answers, but does not do work on a queue that other shards do. So nobody else tells of it."""
        self._on_missing()
        now, key = asyncio.get_running_loop().time(), (queue, error.errno)
        if self._reported.get(key, float("-inf")) < now - _REPORT_SECONDS:
            self._reported[key] = now
            self._logger.warning("the shard %s does no work on %s, and is left out: %s", self._target, queue, error)

    def _lose(self, error: BackendUnavailable) -> None:
        if self._lost is None and not self._closed:
            self._lost = error
            self._logger.warning("the shard %s does not answer, and is left out: %s", self._target, error.message)
            self._pinging = asyncio.create_task(self._until_it_answers())
            self._on_missing()

    async def _until_it_answers(self) -> None:
        pauses = DoublingDelay(_FIRST_PING, _PINGS_SECONDS)
        while True:
            await asyncio.sleep(pauses.take())
            try:
                await self.store.ping()
                while self._due:
                    await self._do_due(self._due[0])
                    del self._due[0]
            except BackendError as error:
                self._logger.debug("the shard %s: %s", self._target, error.message)
                self._on_missing()
                continue
            self._lost = None
            self._logger.warning("the shard %s answers again", self._target)
            return

    async def _do_due(self, work: Callable[[SqlMessageStore], Awaitable[object]]) -> None:
        """Raises BackendError where it is to be done again. Where it never can be, as after a DROP QUEUE, that must not
        keep the shard from other queues."""
        try:
            await work(self.store)
        except BackendError as error:
            if is_transient(error):
                raise
            self._logger.warning("the shard %s: leases run out, not given back: %s", self._target, error)

    async def close(self) -> None:
        """Give up waiting for it, and close its connections."""
        self._closed = True
        if self._pinging is not None:
            self._pinging.cancel()
        await self.store.close()


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """What each shard has answered: results and errors by its name."""

    results: Mapping[str, T]
    errors: Mapping[str, BackendError]

    @classmethod
    def of(cls, shards: Iterable[str], done: Iterable[T | BaseException]) -> Answers[T]:
        """From what was returned or raised. Raises what is no error of a database."""
        results: dict[str, T] = {}
        errors: dict[str, BackendError] = {}
        for shard, one in zip(shards, done, strict=True):
            if isinstance(one, BackendError):
                errors[shard] = one
            elif isinstance(one, BaseException):
                raise one
            else:
                results[shard] = one
        return cls(results, errors)

    @property
    def failed(self) -> BackendError | None:
        """The first error."""
        return next(iter(self.errors.values()), None)

    @property
    def refusals(self) -> Mapping[str, BackendError]:
        """Errors that others have not had, and that are of the shard, not of some rows."""
        if not self.results:
            return {}
        return {
            shard: error for shard, error in self.errors.items() if is_of_shard(error) and not fails_as_whole(error)
        }

    def some(self) -> Answers[T]:
        """The same. Raises the first error where no shard has done it."""
        if self.failed is not None and not self.results:
            raise self.failed
        return self


def is_of_shard(error: BackendError) -> bool:
    """Whether a shard answers and does not do its work, and no other transaction is in the way."""
    return error.errno not in ROLLED_BACK | LOCKED and not isinstance(error, BackendUnavailable)
