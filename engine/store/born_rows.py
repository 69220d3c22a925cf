"""BornRows: reads of messages that their INSERT has leased (engine.delivery.births). Outside any transaction."""

from __future__ import annotations

from collections.abc import Sequence

from engine.backend.base import Statement, StorePool
from engine.model.identity import from_text, id_kind
from engine.model.queue import MessageId, QueueSpec
from engine.store.base import Claim, Release
from engine.store.known_queues import PreparedQueues
from engine.store.operations import lease
from engine.store.operations.due_messages import INTEGER, id_column, not_null


class BornRows:
    """See the module. The methods are those of BirthStore."""

    def __init__(self, pool: StorePool, prepared: PreparedQueues) -> None:
        self._pool, self._prepared = pool, prepared

    async def read(self, queue: QueueSpec, leases: Sequence[Release]) -> Claim | None:
        assert leases
        if self._pool.replicates:
            return None
        prepared = self._prepared.of(queue)
        (read,) = await self._pool.ask((lease.reading_born(prepared.statements, queue, leases),))
        if not read.rows:
            (now,) = await self._pool.ask((Statement(prepared.statements.now, (), (INTEGER,)),))
            return Claim(int(not_null(now.rows[0][0])), ())
        claim = prepared.first_deliveries.born(leases, read.rows)
        prepared.next_ids.record([message.id for message in claim.messages])
        return claim

    async def find(self, queue: QueueSpec, until_ns: int, token: int) -> MessageId | None:
        id_, sql = id_column(queue), self._prepared.of(queue).statements.added.born_until
        rows = await self._pool.read(lambda connection: connection.query_text(sql, (until_ns, token), (id_,)))
        return from_text(id_kind(id_), not_null(rows[0][0])) if rows else None
