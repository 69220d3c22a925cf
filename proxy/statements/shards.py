"""ShardedStatements: statements on queues over several shards of a Vitess, on a client's own connection.

Messages. A vtgate sends an UPDATE that names messages by their ids alone to all shards, and a transaction would then be
one over several. So a verb goes to the shards that have its messages, one after the other; within a transaction, to one
at most. Where the sharding keys of its messages are known, a condition on them has vtgate find the shard; else it is
sent after ``USE `ks:-80` ``, in which a vtgate passes a text on as it is.

Tables. What a vtgate has to know of a table (its VSchema) is written before the table is made: by what its messages are
placed, and where their ids come from. `ALTER VSCHEMA` may be refused to an account; then the error contains what an
administrator has to apply.
Source: https://vitess.io/docs/reference/features/vschema/
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from engine.engine import Engine
from engine.model.errors import NO_SUCH_TABLE, BackendError, MissingTableAllowed
from engine.model.key_range import VINDEX
from engine.model.pins import Pins
from engine.model.queue import QueueCatalog, QueueName, QueueSpec, quoted
from engine.model.sharded import Vindex
from mysql_wire.outcome import Collected, Outcome
from proxy.session.guard import judge_own
from proxy.session.session import ClientSession
from proxy.statements.database_commands import DatabaseCommands
from proxy.upstream.repeats import repeated, stands_alone
from rewriter.plan import Effects, Execute, ShardedTable

log = logging.getLogger(__name__)

_CACHED_IDS = 1000  # that a tablet reserves of a sequence at once
_NOT_SUPPORTED = 1235
_DENIED = 1142
_MANY_SHARDS = 1317
_ROWS_MAX = 10_000  # that a tablet changes by one statement, by default
_ALREADY = 1815  # "already defined", "already contains"

Run = Callable[[str], Awaitable[Sequence[tuple[Any, ...]]]]
"""Runs a statement; its rows as text. Raises BackendError."""


class ShardedStatements:
    """See the module. For one session."""

    def __init__(self, session: ClientSession, engine: Engine, database: DatabaseCommands) -> None:
        self._session, self._engine, self._database = session, engine, database

    async def run(self, plan: Execute) -> Outcome:
        """Run a statement that goes to `at_tablets`, and report it; the rows that have changed.

        Raises:
            BackendError: a shard has refused it. Outside of a transaction, what other shards have done stays done.
        """
        await judge_own(self._session, plan.sql)
        done = 0
        try:
            if plan.at_shards is None:
                done = await self._emptied(plan)
            else:
                async for changed in self._at_each(self._queue(plan.at_shards), plan):
                    done += changed
        except BackendError as error:
            self._database.note(Outcome.of(error), plan.effects)
            if done or empties(plan):
                self._database.note(Outcome(status=self._session.upstream.status), _of_some(plan))
            raise
        outcome = Outcome(status=self._session.upstream.status, affected_rows=done)
        self._database.note(outcome, plan.effects)
        return outcome

    async def _at_each(self, queue: QueueSpec, plan: Execute) -> AsyncIterator[int]:
        """Run it at the shards that have its messages; how many rows have changed, for each. Raises BackendError."""
        await self._database.limit(plan.effects)
        routes = self._database.routes(plan)
        if routes is None:
            for shard in await self._shards(queue, plan):
                yield await self._at(shard, plan)
        else:
            await self._check_alone(tuple(routes))
            for condition in routes.values():
                yield await self._repeated(plan.routed(condition), plan.pins)

    async def each(self, name: QueueName, run: Callable[[], Awaitable[Outcome]], effects: Effects) -> Outcome:
        """Do something at every shard of a queue; the rows that have changed. Raises BackendError."""
        queue = self._queue(name)
        await self._database.limit(effects)
        await self._check_alone(queue.shards)
        done = 0
        for shard in queue.shards:
            async with self._database.at_shard(name.database, shard):
                done += (await run()).affected_rows
        return Outcome(status=self._session.upstream.status, affected_rows=done)

    def _queue(self, name: QueueName | None) -> QueueSpec:
        queue = None if name is None else self._engine.catalog.get(name)
        if queue is None:
            raise BackendError(f"Table '{name}' doesn't exist", NO_SUCH_TABLE)
        return queue

    async def _shards(self, queue: QueueSpec, plan: Execute) -> Sequence[str]:
        named = plan.named
        if named is None:
            shards = queue.shards
        else:
            places = await self._engine.queues.placement.places(queue, named)
            shards = tuple(shard for shard in queue.shards if shard in places.values())
        await self._check_alone(shards)
        return shards

    async def _check_alone(self, shards: Sequence[str]) -> None:
        """Raises BackendError where a transaction would span these shards."""
        if len(shards) > 1 and not stands_alone(self._session.upstream.status):
            raise BackendError(
                f"the messages may be in {len(shards)} shards ({', '.join(shards)}), and a transaction changes"
                " one: name the messages of one shard by their ids, or do it outside of the transaction",
                _NOT_SUPPORTED,
            )

    async def _at(self, shard: str, plan: Execute) -> int:
        assert plan.at_shards is not None
        async with self._database.at_shard(plan.at_shards.database, shard):
            return await (self._emptied(plan) if empties(plan) else self._repeated(plan.sql, plan.pins))

    async def _emptied(self, plan: Execute) -> int:
        """By as many statements as it takes: a tablet refuses one that changes more rows."""
        done, changed = 0, _ROWS_MAX
        while changed == _ROWS_MAX:
            changed = await self._repeated(f"{plan.sql} LIMIT {_ROWS_MAX}", plan.pins)
            done += changed
        return done

    async def _repeated(self, sql: str, pins: Pins) -> int:
        return await repeated(self._session.upstream.status, partial(self._changed, sql, pins))

    async def _changed(self, sql: str, pins: Pins) -> int:
        result = await self._session.upstream.collect(self._session.pinned(sql, pins))
        if isinstance(result, Collected):
            return 0
        if not result.ok:
            raise _explained(result.failure())
        return result.affected_rows


def empties(plan: Execute) -> bool:
    """Whether it is TRUNCATE QUEUE: the only verb after which the catalog is read again."""
    return plan.pins is Pins.VERB and plan.effects.catalog is True


def at_tablets(plan: Execute, catalog: QueueCatalog) -> bool:
    """Whether it is more than one statement at a Vitess: at each shard, or in pieces."""
    return plan.at_shards is not None or (bool(catalog.keyspaces) and empties(plan))


def _of_some(plan: Execute) -> Effects:
    """Of a statement that some shards have carried out: which messages it has changed is not known."""
    queue = frozenset((plan.at_shards,)) if plan.at_shards is not None else plan.effects.uncertain
    return replace(plan.effects, settled=(), changed=(), touched=queue, uncertain=queue, tally=None)


def _explained(error: BackendError) -> BackendError:
    """A vtgate's error for a second shard in a transaction, or for too many rows, as a client can understand it."""
    if error.errno == _MANY_SHARDS and "row count exceeded" in error.message:
        return BackendError(
            f"{error.message}: a tablet changes no more messages by one statement. Nothing is changed in this shard;"
            " repeat the statement for a part of the messages at a time, as in WHERE id BETWEEN 1 AND 5000",
            error.errno,
            error.sqlstate,
        )
    if error.errno != _MANY_SHARDS or "multi-db transaction" not in error.message:
        return error
    return BackendError(
        "the transaction has changed another shard than that of the message: what is to be committed together needs"
        " the same sharding key",
        error.errno,
        error.sqlstate,
    )


# --- tables


async def run_on(session: ClientSession, sql: str) -> Sequence[tuple[Any, ...]]:
    """Run, of a client's own connection. Raises BackendError."""
    result = await session.upstream.collect(sql)
    if isinstance(result, Collected):
        return [tuple((value or b"").decode("utf-8", "replace") for value in row) for row in result.rows]
    if not result.ok:
        raise result.failure()
    return ()


async def prepare_table(table: ShardedTable, run: Run) -> None:
    """Have vtgate know a queue's table before it is made. Does nothing a second time.

    Raises:
        BackendError: it is refused; or vtgate places the rows of a table of that name by something else.
    """
    known = await _vindex(table.name, run)
    if known is not None and known != Vindex(table.key.lower(), VINDEX):
        raise BackendError(
            f"the VSchema of the keyspace '{table.name.database}' has the vindex {known} for a table"
            f" '{table.name.table}', and this queue needs {VINDEX}({table.key}): ALTER VSCHEMA DROP TABLE"
            f" {table.name.sql}",
            _NOT_SUPPORTED,
        )
    if table.sequence is not None:
        await _make_sequence(table.sequence, run)
    if known is not None:
        return
    statements = [f"ALTER VSCHEMA ON {table.name.sql} ADD VINDEX {VINDEX} ({quoted(table.key)}) USING {VINDEX}"]
    if table.sequence is not None:
        statements.insert(0, f"ALTER VSCHEMA ADD SEQUENCE {table.sequence.sql}")
        statements.append(f"ALTER VSCHEMA ON {table.name.sql} ADD AUTO_INCREMENT id USING {table.sequence.sql}")
    try:
        for sql in statements:
            await _once(sql, run)
    except BackendError as error:
        raise BackendError(
            f"{error.message}; have this applied to the VSchema of '{table.name.database}', and create the queue then:"
            f" {json.dumps(_vschema(table))}",
            _DENIED,
        ) from error


async def forget_table(table: ShardedTable, run: Run) -> None:
    """The table is dropped: have vtgate forget it. The sequence stays, so no id comes twice."""
    try:
        if await _vindex(table.name, run) is not None:
            await run(f"ALTER VSCHEMA DROP TABLE {table.name.sql}")
    except BackendError as error:
        log.warning("the VSchema still has the dropped table %s: %s", table.name, error)


async def _vindex(name: QueueName, run: Run) -> Vindex | None:
    """By what vtgate places a table's rows; None where it knows nothing of it."""
    with MissingTableAllowed():
        return Vindex.of(await run(f"SHOW VSCHEMA VINDEXES ON {name.sql}"))
    return None


async def _make_sequence(name: QueueName, run: Run) -> None:
    table = "(id BIGINT NOT NULL PRIMARY KEY, next_id BIGINT NOT NULL, cache BIGINT NOT NULL)"
    await run(f"CREATE TABLE IF NOT EXISTS {name.sql} {table} ENGINE=InnoDB COMMENT='vitess_sequence'")
    if not await run(f"SELECT next_id FROM {name.sql} WHERE id = 0"):
        await run(f"INSERT IGNORE INTO {name.sql} (id, next_id, cache) VALUES (0, 1, {_CACHED_IDS})")


async def _once(sql: str, run: Run) -> None:
    try:
        await run(sql)
    except BackendError as error:
        if error.errno != _ALREADY or "already" not in error.message:
            raise


def _vschema(table: ShardedTable) -> dict[str, Any]:
    described: dict[str, Any] = {"column_vindexes": [{"column": table.key, "name": VINDEX}]}
    if table.sequence is not None:
        described["auto_increment"] = {"column": "id", "sequence": str(table.sequence)}
    return {"sharded": True, "vindexes": {VINDEX: {"type": VINDEX}}, "tables": {table.name.table: described}}
