"""Dead-letter queues, as far as SQL texts of MySQL's kind are concerned: their tables made for the engine, and REDRIVE.

REDRIVE runs on the client's own connection, in its transaction and with its rights: a unit of three statements that is
applied as a whole or not at all. It marks what is to go (by a time_next that nothing else has, never committed), copies
what is marked back into the queue, and deletes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from engine.model.errors import BackendError
from engine.model.queue import QueueName, QueueSpec
from mysql_wire.outcome import Outcome
from proxy.statements.shards import prepare_table
from proxy.statements.unit_of_work import UnitOfWork
from rewriter.errors import RewriteError
from rewriter.plan import Redrive, ShardedTable
from rewriter.plans.dead_letter_table import dead_letter_table

_DUPLICATE = 1062

Administer = Callable[[str], Awaitable[Sequence[tuple[Any, ...]]]]
"""Runs a statement with the engine's own rights; its rows."""


class DeadLetterTables:
    """Makes the tables of dead-letter queues."""

    def __init__(self, administer: Administer) -> None:
        self._administer = administer

    async def make(self, queue: QueueSpec, name: QueueName) -> None:
        """See engine.background.dead_letter_mover.MakeTable."""
        ((_, definition, *_),) = await self._administer(f"SHOW CREATE TABLE {queue.name.sql}")
        try:
            sql = dead_letter_table(str(definition), queue, name)
        except RewriteError as error:
            raise BackendError(error.message, error.errno, error.sqlstate) from error
        if queue.shards:
            assert queue.options.sharding_key is not None
            await prepare_table(ShardedTable(name, queue.options.sharding_key, None), self._administer)
        await self._administer(sql)


class RedriveStatement(UnitOfWork):
    """Runs REDRIVE for one session."""

    async def run(self, plan: Redrive) -> Outcome:
        """Put dead letters back; affected rows are those that went.

        Raises:
            BackendError: the database refused a part of it; then nothing of it is applied.
        """
        async with self.unit():
            marked = await self.do(plan.mark)
            if marked.affected_rows:
                copied = await self._copied(plan, marked.affected_rows)
                deleted = await self.do(plan.delete)
                all_copied = plan.partly or copied == marked.affected_rows
                if not all_copied or deleted.affected_rows != marked.affected_rows:
                    raise BackendError(
                        f"REDRIVE marked {marked.affected_rows}, copied {copied} and deleted"
                        f" {deleted.affected_rows} messages; nothing was changed"
                    )
        return self.now(marked)

    async def _copied(self, plan: Redrive, marked: int) -> int:
        """Copy what is marked; how many. Those whose ids other messages of the queue have get new ones."""
        try:
            copied = (await self.do(plan.copy)).affected_rows
        except BackendError as error:
            if error.errno != _DUPLICATE or not plan.renumber:
                raise
            await self.do(plan.renumber)
            copied = (await self.do(plan.copy)).affected_rows
        if plan.renumbered and copied < marked:
            copied += (await self.do(plan.renumbered)).affected_rows
        return copied
