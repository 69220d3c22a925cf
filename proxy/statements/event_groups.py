"""Statements on queues whose messages form groups, carried out on the client's own connection, in its transaction.

What a client writes as one statement becomes several here: a unit that is applied as a whole or not at all, a
transaction of its own where none is open, else from a savepoint on. Order is everything (see engine.model.groups): the
rows of GROUPS_TABLE are locked before messages are ended, and a group is checked last, by reads that see what others
have committed, in any isolation level. A follow-up and its registration are one unit as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.model.errors import NO_SUCH_TABLE, BackendError, MissingTableAllowed
from engine.model.groups import GROUPS_TABLE, NO_SUCH_COLUMN, FindQueue, GroupKey
from engine.model.identity import is_integer
from engine.model.pins import Pins
from engine.model.queue import QueueName, QueueSpec, quoted
from engine.model.states import PARKED_NS
from engine.store.statements.groups import due_sql, table_of
from mysql_wire.errors import ProxyError
from mysql_wire.outcome import Outcome, number, unhex
from proxy.session.session import ClientSession
from proxy.statements.unit_of_work import UnitOfWork
from rewriter.errors import UnsupportedSql
from rewriter.plan import EndInGroup, InsertAfterGroup, PlanContext
from rewriter.text.literals import hex_literal

_VALUES_AT_ONCE = 500  # of an IN list, each found by an index
_NOW = PlanContext().now_sql

Notes = tuple[tuple[str, int, str], ...]


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a statement: the database's answer to the client's own part of it, its warnings, and the queues
    that got messages through it."""

    outcome: Outcome
    notes: Notes
    sent: frozenset[QueueName] = frozenset()


@dataclass(frozen=True, slots=True, order=True)
class _Waiting:
    """A message that waits for a group."""

    group: str
    queue: QueueName
    id: str


class GroupedStatements(UnitOfWork):
    """Runs such statements for one session. `find` looks a queue up in the catalog."""

    def __init__(self, session: ClientSession, find: FindQueue) -> None:
        super().__init__(session)
        self._find = find

    async def end(self, plan: EndInGroup) -> Done:
        """End messages, and send what waited for the groups that are done with them.

        Raises:
            BackendError: the database refused a part of it; then nothing of it is applied.
        """
        async with self.unit():
            # In this order, that of all who end messages: first the groups' rows, then the messages.
            await self._lock_waiting(plan.group, await self._groups_of(plan.group, plan.groups_sql))
            # The transaction's snapshot may be old. This read is of the current rows, and locks them.
            groups = await self._groups_of(plan.group, f"{plan.groups_sql} FOR UPDATE")
            outcome, notes = await self._run(plan.sql, plan.pins)
            # A client that registers something locks a message of its group: its row is here, or it sees the group
            # done.
            waiting = await self._lock_waiting(plan.group, groups)
            sent = await self._send_done(plan.group, waiting) if outcome.affected_rows else set()
        return Done(self.now(outcome), notes, frozenset(sent))

    async def insert(self, plan: InsertAfterGroup) -> Done:
        """Enqueue a message that waits for a group, or as any other if the group is done.

        Raises:
            BackendError: as `end`. UnsupportedSql: it would wait for itself.
        """
        if plan.value is None or (plan.id is None and not plan.numbered):
            raise ProxyError(1064, "You have an error in your SQL syntax: a ? has a value only where it is prepared")
        async with self.unit():
            await self._write_first(plan.group)
            waits = not await self._is_done(plan.group, plan.value)
            outcome, notes = await self._run(plan.parked if waits else plan.plain, Pins.NOTHING)
            if waits and outcome.affected_rows:
                await self._register(plan, str(outcome.last_insert_id) if plan.id is None else plan.id)
        return Done(self.now(outcome), notes)

    async def _run(self, sql: str, pins: Pins) -> tuple[Outcome, Notes]:
        """The client's own part, and its warnings."""
        outcome = await self.do(sql, pins)
        if not outcome.warnings:
            return outcome, ()
        rows = await self.rows("SHOW WARNINGS", 3)
        return outcome, tuple((_text(level), number(code), _text(text)) for level, code, text in rows)

    # --- groups

    async def _groups_of(self, group: GroupKey, sql: str) -> set[str]:
        """The groups of messages; those with NULL belong to none."""
        values = {value for (value,) in await self.rows(sql, 1) if value is not None}
        return {str(number(value)) if group.integer else unhex(value) for value in values}

    async def _lock_waiting(self, group: GroupKey, values: Iterable[str]) -> list[_Waiting]:
        """Lock, in one order for all, the messages that wait for these groups."""
        ordered = sorted(values)
        waiting: list[_Waiting] = []
        for start in range(0, len(ordered), _VALUES_AT_ONCE):
            waiting += await self._lock_waiting_batch(group, ordered[start : start + _VALUES_AT_ONCE])
        return waiting

    async def _lock_waiting_batch(self, group: GroupKey, values: Sequence[str]) -> list[_Waiting]:
        columns = "HEX(group_value), HEX(follow_database), HEX(follow_table), HEX(follow_id)"
        condition = (
            f"queue_name = {hex_literal(group.queue.table)} AND group_value IN ({', '.join(map(hex_literal, values))})"
        )
        order = "ORDER BY group_value, follow_database, follow_table, follow_id"
        with MissingTableAllowed():
            rows = await self.rows(f"SELECT {columns} FROM {_groups(group)} WHERE {condition} {order} FOR UPDATE", 4)
            texts = [[unhex(value) for value in row] for row in rows]
            return [_Waiting(value, QueueName(database, table), id_) for value, database, table, id_ in texts]
        return []  # nothing was ever registered in this database

    async def _send_done(self, group: GroupKey, waiting: list[_Waiting]) -> set[QueueName]:
        sent: set[QueueName] = set()
        done = {value: await self._is_done(group, value) for value in sorted({one.group for one in waiting})}
        for one in sorted(set(waiting)):
            if done[one.group] and await self._send(one):
                await self.do(f"DELETE FROM {_groups(group)} WHERE {_key(one.queue, one.id)}")
                sent.add(one.queue)
        return sent

    async def _is_done(self, group: GroupKey, value: str) -> bool:
        """Whether no message of the group waits for an ack. A message may move between a queue and its
        dead-letter queue meanwhile: the first one is queried again."""
        return not (
            await self._is_open(group.queue, _is_of(group, value))
            or await self._is_dead(group, value)
            or await self._is_open(group.queue, _is_of(group, value))
        )

    async def _is_dead(self, group: GroupKey, value: str) -> bool:
        for condition in (_is_of(group, value), "1 = 1"):
            try:
                return await self._is_open(group.dead, condition)
            except BackendError as error:
                if error.errno == NO_SUCH_COLUMN:
                    continue
                if not group.misses(error.errno):
                    raise
                return False
        return False  # no queue at all

    async def _is_open(self, queue: QueueName, condition: str) -> bool:
        """Rows that others have locked are waited for only where there are no free ones: they may be about to end, or
        not."""
        sql = f"SELECT 1 FROM {queue.sql} WHERE time_acked IS NULL AND {condition} LIMIT 1 FOR UPDATE"
        return bool(await self.rows(f"{sql} SKIP LOCKED", 1) or await self.rows(sql, 1))

    async def _send(self, message: _Waiting) -> bool:
        """Make a waiting message due. One that is deleted, or was rescheduled, is left alone.

        False: there is no such table; it may have been renamed, and be back one day.
        """
        spec = self._find(message.queue)
        due = _NOW if spec is None else due_sql(_NOW, spec)
        with MissingTableAllowed():
            await self.do(
                f"UPDATE {message.queue.sql} SET time_next = {due} WHERE id = {_id_literal(spec, message.id)}"
                f" AND time_acked IS NULL AND time_next = {PARKED_NS}"
            )
            return True
        return False

    async def _write_first(self, group: GroupKey) -> None:
        """Become a writer, where the database has room for one: rows that are read from here on do not change."""
        try:
            await self.do(f"UPDATE {_groups(group)} SET queue_name = queue_name WHERE 1 = 0")
        except BackendError as error:
            if error.errno != NO_SUCH_TABLE:
                raise
            raise BackendError(
                f"there is no table {group.queue.database}.{GROUPS_TABLE}, which groups are kept in; the proxy's own "
                "account could not make it: see its log, and docs/event-groups.md",
                NO_SUCH_TABLE,
                "42S02",
            ) from error

    async def _register(self, plan: InsertAfterGroup, id_: str) -> None:
        assert plan.value is not None
        if plan.follow == plan.group.queue:
            await self._check_other_group(plan, id_)
        names = "follow_database, follow_table, follow_id, queue_name, group_value"
        texts = (plan.follow.database, plan.follow.table, id_, plan.group.queue.table, plan.value)
        # A message of this id may have waited before, and been deleted since.
        await self.do(f"DELETE FROM {_groups(plan.group)} WHERE {_key(plan.follow, id_)}")
        await self.do(f"INSERT INTO {_groups(plan.group)} ({names}) VALUES ({', '.join(map(hex_literal, texts))})")

    async def _check_other_group(self, plan: InsertAfterGroup, id_: str) -> None:
        group, value = plan.group, plan.value
        assert value is not None
        own = f"id = {_id_literal(self._find(plan.follow), id_)} AND {_is_of(group, value)}"
        if await self.rows(f"SELECT 1 FROM {plan.follow.sql} WHERE {own}", 1):
            raise UnsupportedSql(
                f"the message would wait for itself, for it is of group {value} too; "
                f"give it another {group.column}, or NULL"
            )


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


def _id_literal(spec: QueueSpec | None, id_: str) -> str:
    column = None if spec is None else spec.column("id")
    return id_ if column is not None and is_integer(column) and id_.isdecimal() else hex_literal(id_)


def _is_of(group: GroupKey, value: str) -> str:
    return f"{quoted(group.column)} = {value if group.integer else hex_literal(value)}"


def _groups(group: GroupKey) -> str:
    return table_of(group.queue.database)


def _key(queue: QueueName, id_: str) -> str:
    values = zip(("database", "table", "id"), (queue.database, queue.table, id_), strict=True)
    return " AND ".join(f"follow_{name} = {hex_literal(value)}" for name, value in values)
