"""DeadLetterNames: whether a queue's dead letters may go to the queue that its comment names.

They may go into a queue that the engine created for them. Any other may belong to another account: it has to be named
by an account that may add to it, in CREATE QUEUE or ALTER QUEUE, which is stored in a table
(engine.store.named_dead_letters). Names in comments from before that table was created count as named, for tables of
earlier versions.

Where there is no such table every comment is trusted: on the embedded backend, whose accounts may alter all queues or
none, and where the URL names no database for it.
"""

from __future__ import annotations

import logging

from engine.model.errors import BackendError
from engine.model.queue import QueueCatalog, QueueName, QueueSpec, may_belong_to_another, quoted
from engine.store.named_dead_letters import NamedDeadLetters, Pair


class DeadLetterNames:
    """See the module. `table` None: there is none."""

    def __init__(self, table: NamedDeadLetters | None = None, logger: logging.Logger | None = None) -> None:
        self._table = table
        self._logger = logger or logging.getLogger("queuegate.engine")
        self._taken_over = table is None

    async def begin(self, catalog: QueueCatalog) -> None:
        """Take over the names in comments, if that is not done yet. If it fails, it is tried again when needed."""
        try:
            await self._take_over(catalog)
        except BackendError as error:
            text = (
                "dead letters of queues that name another's wait, set aside: the table of these names cannot be had: %s"
            )
            self._logger.log(logging.WARNING if _pairs(catalog) else logging.INFO, text, error)

    async def allows(self, queue: QueueSpec, catalog: QueueCatalog) -> bool:
        """Whether dead letters of the queue may go to its dead-letter queue. Raises BackendError."""
        if self._table is None or not _may_be_anothers(queue, catalog):
            return True
        await self._take_over(catalog)
        return await self._table.has(queue.name, queue.dead_letter)

    async def add(self, queue: QueueName, dead: QueueName) -> None:
        """An account that may add to the dead-letter queue has named it."""
        if self._table is None:
            return
        try:
            await self._table.add(queue, dead)
        except BackendError as error:  # the statement itself has succeeded; SHOW QUEUES says what to do
            self._logger.warning("that %s is the dead-letter queue of %s could not be kept: %s", dead, queue, error)

    async def forget(self, queue: QueueName) -> None:
        """A queue was dropped."""
        if self._table is None:
            return
        try:
            await self._table.forget(queue)
        except BackendError as error:
            self._logger.warning("%s was dropped; the name of its dead-letter queue is still kept: %s", queue, error)

    async def problems(self, catalog: QueueCatalog) -> dict[QueueName, str]:
        """By queue whose dead letters may not go to their queue, what the user can do. One statement, if any comment
        names another queue. Raises BackendError."""
        pairs = _pairs(catalog)
        if self._table is None or not pairs:
            return {}
        await self._take_over(catalog)
        named = await self._table.all()
        waits = "its dead letters wait, set aside: "
        return {queue: waits + not_named(queue, dead) for queue, dead in pairs if (queue, dead) not in named}

    async def _take_over(self, catalog: QueueCatalog) -> None:
        if self._table is None or self._taken_over:
            return
        count = await self._table.take_over(_pairs(catalog))
        self._taken_over = True
        if count:
            self._logger.info("took over %d names of dead-letter queues from tables' comments", count)


def not_named(queue: QueueName, dead: QueueName) -> str:
    """The problem, and what the user can do."""
    return (
        f"'{dead.table}' was named in its comment by hand, or is another's; let an account that may INSERT there name"
        f" it: ALTER QUEUE {quoted(queue.table)} SET (dead_letter = ...)"
    )


def _pairs(catalog: QueueCatalog) -> list[Pair]:
    return [(q.name, q.dead_letter) for q in catalog if _may_be_anothers(q, catalog)]


def _may_be_anothers(queue: QueueSpec, catalog: QueueCatalog) -> bool:
    return may_belong_to_another(queue.name, queue.dead_letter, catalog.get(queue.dead_letter))
