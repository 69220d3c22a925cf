"""The engine's way to the simulated database: a StorePool whose calls are delayed, lost and forgotten.

A caller that is cancelled does not stop a call that is on its way, as with real connections; nor does the end of its
process.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar

from sim_database import InTheWay, SimDatabase
from sim_faults import REFUSE_SECONDS, Fate, Faults, Trouble
from sim_loop import ProcessLoop, Timeline

from engine.backend import sessions
from engine.backend.base import Answer, Statement, StoreConnection, StorePool
from engine.model.errors import BackendError, BackendUnavailable, LockWaitTimeout
from engine.model.queue import QueueName, QueueSpec, StartAt, TopicSpec
from engine.model.topics import SeekResult
from engine.store.topic_log import TopicLog

R = TypeVar("R")
T = TypeVar("T")

GATE_SECONDS = 5.0  # how long the engine's write waits for its turn, as in the embedded database
_SERVER = "8.0.36"
_SILENCE = re.compile(r" wait_timeout = (\d+)")
_SILENCE_BY_DEFAULT = 28_800.0
_ALIVE = (Trouble.NONE, Trouble.FORGOTTEN, Trouble.BROKEN)


def silence_seconds() -> float:
    """After how long a server ends a session of the engine's of which it hears nothing: as the engine sets it there."""
    for pin in sessions.pins(_SERVER, replicates=False):
        if found := _SILENCE.search(pin.sql):
            return float(found[1])
    return _SILENCE_BY_DEFAULT


class SimPool:
    """See the module. `called` hears of every call as it is made. `falls_silent`, where it is set, is called in the
    middle of the next transaction, with what ends that session: its process stands still from then on."""

    falls_silent: Callable[[Callable[[], None]], None] | None = None

    def __init__(
        self,
        actor: str,
        loop: ProcessLoop,
        timeline: Timeline,
        database: SimDatabase,
        faults: Faults,
        up: Callable[[], bool],
        called: Callable[[], None],
    ) -> None:
        self._actor, self._loop, self._timeline, self._database = actor, loop, timeline, database
        self._faults, self._up, self._called = faults, up, called

    @property
    def replicates(self) -> bool:
        return False

    @property
    def without_waiting(self) -> str:
        return ""

    async def write_alone(self, statements: Sequence[Statement]) -> list[Answer]:
        return await self.write(lambda connection: connection.run(statements, last=True, alone=True))

    async def ask(self, statements: Sequence[Statement]) -> list[Answer]:
        return await self.read(lambda connection: connection.run(statements))

    async def read(self, work: Callable[[StoreConnection], T]) -> T:
        return await _Call(self, self._fate(), lambda _: self._database.read(work)).answer

    async def write(self, work: Callable[[StoreConnection], T]) -> T:
        return await _Call(self, self._fate(), self._transaction(work), inside=work).answer

    async def read_then_write(
        self,
        read: Callable[[StoreConnection], R],
        then: Callable[[R], Callable[[StoreConnection], T] | None],
        *,
        locking: bool = False,
    ) -> tuple[R, T | None]:
        """One request and one reply, as on one connection; others may come between the read and the transaction, unless
        it is `locking`: then both are one."""
        if locking:
            assert self._database.row_locks

            def both(connection: StoreConnection) -> tuple[R, T | None]:
                found = read(connection)
                work = then(found)
                return found, None if work is None else work(connection)

            return await self.write(both)
        if not self._database.row_locks:
            found = await self.read(read)
            work = then(found)
            return found, None if work is None else await self.write(work)
        fate = self._fate()
        there = Fate(fate.trouble if fate.trouble is Trouble.LOST else Trouble.NONE, fate.request, 0.0)
        found = await _Call(self, there, lambda _: self._database.read(read)).answer
        work = then(found)
        if work is None:
            await _Call(self, Fate(Trouble.NONE, 0.0, fate.reply), lambda _: None).answer
            return found, None
        rest = Fate(fate.trouble, fate.request / 4, fate.reply)
        return found, await _Call(self, rest, self._transaction(work), inside=work).answer

    async def close(self) -> None:
        """Nothing is kept."""

    def _transaction(self, work: Callable[[StoreConnection], T]) -> Callable[[Trouble], T]:
        return lambda trouble: self._database.write(self._actor, work, trouble)

    def _fate(self) -> Fate:
        self._called()
        fate = self._faults.draw()
        return fate if self._up() else Fate(Trouble.LOST, REFUSE_SECONDS, 0.0)


class _Call:
    """One call under way; `answer` is the caller's. `inside`: what its transaction does, where it is one."""

    def __init__(
        self,
        pool: SimPool,
        fate: Fate,
        work: Callable[[Trouble], Any],
        *,
        inside: Callable[[StoreConnection], Any] | None = None,
    ) -> None:
        self._pool, self._fate, self._work, self._inside = pool, fate, work, inside
        self._over = False
        self.answer: asyncio.Future[Any] = pool._loop.create_future()
        pool._timeline.after(fate.request, self._arrives)

    def _arrives(self) -> None:
        if self._fate.trouble not in _ALIVE:
            self._reply(None, self._fate.error)
        elif self._inside is not None and not self._pool._database.row_locks:
            self._pool._database.when_free(self._if_free, self._expired, GATE_SECONDS)
        else:
            self._done()

    def _if_free(self) -> bool:
        if self._pool._database.gate is not None:
            return False
        self._done()
        return True

    def _again(self) -> bool:
        """It waited for a lock: whether it has it now."""
        if any(one.tables for one in self._pool._database.silent):
            return False
        self._do()
        return True

    def _expired(self) -> None:
        self._reply(None, LockWaitTimeout())

    def _done(self) -> None:
        if not self._pool._up():
            self._reply(None, BackendUnavailable("the simulated database is down"))
            return
        if not self._falls_silent():
            self._do()

    def _falls_silent(self) -> bool:
        """Whether the process stands still in the middle of this."""
        falls, database = self._pool.falls_silent, self._pool._database
        if falls is None or self._inside is None or not database.row_locks:
            return False
        try:
            begun = database.fall_silent(self._inside)
        except (BackendError, InTheWay):
            return False
        self._pool.falls_silent = None

        def ends() -> None:
            begun.end()
            if not self._over:
                self._over = True
                self._reply(None, BackendUnavailable("the simulated server has ended the session"))

        self._pool._timeline.after(silence_seconds(), ends)
        falls(ends)
        return True

    def _do(self) -> None:
        try:
            result = self._work(self._fate.trouble)
        except InTheWay:
            self._pool._database.when_free(self._again, self._expired, float(sessions.LOCK_WAIT_SECONDS))
        except BackendError as error:
            self._reply(None, error)
        except Exception as error:  # a defect of the code under test: its caller shall meet it
            self._reply(None, error)
        else:
            self._reply(result, self._fate.error)

    def _reply(self, result: Any, error: Exception | None) -> None:
        self._pool._timeline.after(self._fate.reply, lambda: self._deliver(result, error))

    def _deliver(self, result: Any, error: Exception | None) -> None:
        if self._pool._loop.dead or self.answer.done():
            return
        if error is None:
            self.answer.set_result(result)
        else:
            self.answer.set_exception(error)


class SimTopicLog(TopicLog):
    """The real one; the database is told which transactions move a group."""

    def __init__(self, database: SimDatabase, pool: StorePool, *args: Any, logger: logging.Logger) -> None:
        super().__init__(pool, *args, logger=logger)
        self._database = database

    async def begin(self, group: QueueName, topic: TopicSpec, start: StartAt) -> None:
        await TopicLog.begin(self._moving(group, start), group, topic, start)

    async def seek(self, group: QueueSpec, topic: TopicSpec, start: StartAt) -> SeekResult:
        return await TopicLog.seek(self._moving(group.name, start), group, topic, start)

    def _moving(self, group: QueueName, start: StartAt) -> TopicLog:
        moving = copy(self)
        moving._pool = _MovingPool(self._pool, self._database, group, start)  # type: ignore[arg-type]
        return moving


@dataclass(frozen=True)
class _MovingPool:
    """A pool whose transactions move a group. One is several packets, so it ends with its process: a server that no
    COMMIT reaches takes it back."""

    pool: SimPool
    database: SimDatabase
    group: QueueName
    start: StartAt

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pool, name)

    async def write(self, work: Callable[[StoreConnection], T]) -> T:
        def marked(connection: StoreConnection) -> T:
            if self.pool._loop.dead:
                raise BackendUnavailable("the simulated connection is gone with its process")
            self.database.moves(self.group.table, self.start)
            return work(connection)

        return await self.pool.write(marked)
