"""NamedDeadLetters: which dead-letter queues were named by an account that may add to them, stored in a table of the
backend's database.

A queue's comment names its dead-letter queue, and any account that may alter the queue may write it directly. So it is
not enough where the other queue may belong to another account. The statements that name one check the account's
privilege and add a row here.
Every method is one thread hop and raises BackendError.
"""

from __future__ import annotations

from collections.abc import Collection

from engine.backend.base import StoreConnection, StorePool
from engine.model.errors import NO_SUCH_TABLE, BackendError, MissingTableAllowed
from engine.model.queue import QueueName
from engine.store.statements import named_dead_letters as statements

Pair = tuple[QueueName, QueueName]
"""A queue and its dead-letter queue, in the same database."""

_TAKEN_OVER = ("", "", "")


class NamedDeadLetters:
    """See the module."""

    def __init__(self, pool: StorePool) -> None:
        self._pool = pool

    async def take_over(self, pairs: Collection[Pair]) -> int:
        """Add the pairs from comments, once for this table: they are older than it. Returns how many were added."""
        return await self._pool.write(lambda connection: _take_over(connection, pairs))

    async def add(self, queue: QueueName, dead: QueueName) -> None:
        """An account that may add to it has named it."""
        await self._pool.write(lambda connection: _add(connection, [(queue, dead)]))

    async def has(self, queue: QueueName, dead: QueueName) -> bool:
        """Whether one has."""
        return bool(await self._pool.read(lambda connection: connection.query(statements.HAS, _row((queue, dead)))))

    async def all(self) -> set[Pair]:
        """All that were named."""
        rows = await self._pool.read(lambda connection: connection.query(statements.ALL))
        return {(QueueName(str(db), str(queue)), QueueName(str(db), str(dead))) for db, queue, dead in rows if db}

    async def forget(self, queue: QueueName) -> None:
        """The queue was dropped: a later one with its name is another queue."""
        names = (queue.database, queue.table)
        await self._pool.write(lambda connection: connection.execute(statements.FORGET, names))


def _row(pair: Pair) -> tuple[str, str, str]:
    queue, dead = pair
    return queue.database, queue.table, dead.table


def _take_over(connection: StoreConnection, pairs: Collection[Pair]) -> int:
    with MissingTableAllowed():
        if connection.query(statements.HAS, _TAKEN_OVER):
            return 0
    _add(connection, pairs)
    connection.execute(statements.ADD, _TAKEN_OVER)
    return len(pairs)


def _add(connection: StoreConnection, pairs: Collection[Pair]) -> None:
    try:
        connection.query(statements.PROOF)
    except BackendError as error:
        if error.errno != NO_SUCH_TABLE:
            raise
        connection.execute(statements.MAKE_TABLE)  # ends the transaction, in which nothing has been done
        connection.query(statements.PROOF)
    for pair in pairs:
        connection.execute(statements.ADD, _row(pair))
