"""ScheduleTable: ScheduleStore in SQL, one implementation for every dialect.

The table is made before the first schedule of a database, by the engine's own account and on a line of its own: the
client who asks for the schedule may be in a transaction, which DDL would commit. Where the table is not there, there
are no schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from engine.backend.base import StoreConnection, StorePool
from engine.model.errors import BackendError, MissingTableAllowed
from engine.model.queue import QueueName
from engine.model.schedules import (
    LATE_NS,
    Insertion,
    MakeInsert,
    Schedule,
    ScheduleName,
    Unreadable,
    read_schedule,
)
from engine.store.gate import check_mark
from engine.store.schedule_store import DueSchedules, Step, WaitingSchedule, WaitingSchedules
from engine.store.statements.dialect import Dialect
from engine.store.statements.schedules import ScheduleStatements, create_schedules
from engine.store.topic_state import Define

_DUPLICATE = 1062
_PROBLEM = 1000  # characters of its column


async def no_inserts(insertion: Insertion, waits: bool) -> Callable[[Any], object]:
    """Where no messages can be made."""
    raise BackendError(f"no messages can be made here for {insertion.target}", 1235)


class ScheduleTable:
    """See the module. `define` makes the table, in MySQL's words; `insert` adds messages."""

    def __init__(self, pool: StorePool, dialect: Dialect, define: Define, insert: MakeInsert) -> None:
        self._pool, self._dialect, self._define, self._insert = pool, dialect, define, insert

    def _statements(self, database: str) -> ScheduleStatements:
        return ScheduleStatements(self._dialect, database)

    async def exists(self, database: str) -> bool:
        sql = self._statements(database).exists
        with MissingTableAllowed():
            await self._pool.read(lambda connection: connection.query(sql))
            return True
        return False

    async def make(self, database: str) -> None:
        await self._define(create_schedules(database))

    async def waiting(self, database: str) -> WaitingSchedules:
        statements = self._statements(database)

        def work(connection: StoreConnection) -> WaitingSchedules:
            now_ns = int(connection.query(statements.now)[0][0])
            rows = connection.query(statements.late, (now_ns - LATE_NS,))
            rows += connection.query(statements.waiting, (now_ns - LATE_NS,))
            return WaitingSchedules(now_ns, dict(filter(None, map(_waiting, rows))))

        return await self._pool.read(work)

    async def due(self, database: str, names: Sequence[str]) -> DueSchedules:
        statements = self._statements(database)
        sql = statements.due(len(names))

        def work(connection: StoreConnection) -> DueSchedules:
            now_ns = int(connection.query(statements.now)[0][0])
            rows = connection.query(sql, tuple(names))
            return DueSchedules(now_ns, tuple(read_schedule(database, tuple(row)) for row in rows))

        return await self._pool.read(work)

    async def step(self, database: str, steps: Sequence[Step]) -> dict[str, int]:
        try:
            return await self._step(database, steps, [[step.messages] if step.messages else [] for step in steps])
        except BackendError as error:
            if error.errno != _DUPLICATE:
                raise
        # A message may also have the key of another one of the same step, so each is an INSERT of its own now.
        return await self._step(database, steps, [_one_by_one(step.messages) for step in steps], _DUPLICATE)

    async def _step(
        self, database: str, steps: Sequence[Step], messages: Sequence[Sequence[Insertion]], passed: int | None = None
    ) -> dict[str, int]:
        """`passed`: the error of an INSERT after which the others continue. One schedule alone may wait for a lock."""
        waits = len(steps) == 1
        inserts = [[(len(each.rows), await self._insert(each, waits)) for each in of_step] for of_step in messages]
        statements = self._statements(database)
        lock = statements.lock(len(steps))

        def work(connection: StoreConnection) -> dict[str, int]:
            free = {str(name) for (name,) in connection.query(lock, [step.schedule.name.name for step in steps])}
            advanced: dict[str, int] = {}
            for step, of_step in zip(steps, inserts, strict=True):
                schedule, name = step.schedule, step.schedule.name.name
                guard = (name, schedule.next_ns, schedule.changed_ns)
                if name in free and connection.execute(statements.advance, (step.next_ns, step.last_ns, *guard)):
                    advanced[name] = 0
                    if of_step and step.target is not None:
                        table = self._dialect.gate.of(step.target)
                        connection.query(table.proof)
                        check_mark(connection, table)
                    advanced[name] = sum(rows for rows, insert in of_step if _inserted(connection, insert, passed))
            return advanced

        return await self._pool.write(work)

    async def note(self, schedule: ScheduleName, problem: str) -> None:
        sql, text = self._statements(schedule.database).note, problem[:_PROBLEM].encode("utf-8", "replace").decode()
        await self._pool.write(lambda connection: connection.execute(sql, (text, schedule.name, text)))

    async def listed(self, database: str) -> list[Schedule | Unreadable]:
        sql = self._statements(database).listed
        with MissingTableAllowed():
            rows = await self._pool.read(lambda connection: connection.query(sql))
            return [read_schedule(database, tuple(row)) for row in rows]
        return []

    async def forget(self, queue: QueueName) -> int:
        sql = self._statements(queue.database).forget
        return await self._pool.write(lambda connection: connection.execute(sql, (queue.table,)))


def _one_by_one(messages: Insertion | None) -> list[Insertion]:
    return [] if messages is None else [replace(messages, rows=(row,)) for row in messages.rows]


def _inserted(connection: StoreConnection, insert: Callable[[Any], object], passed: int | None) -> bool:
    """Whether the database took it; the database itself undoes an INSERT that it refuses, and not the transaction."""
    try:
        insert(connection)
    except BackendError as error:
        if error.errno != passed:
            raise
        return False
    return True


def _waiting(row: Sequence[Any]) -> tuple[str, WaitingSchedule] | None:
    """A row of what ticks next; None where it is no schedule's, for who made the table may have made it otherwise."""
    name, next_ns, troubled = row
    if not isinstance(name, str) or type(next_ns) is not int:
        return None
    return name, WaitingSchedule(max(next_ns, 0), bool(troubled))
