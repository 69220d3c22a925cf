"""DatabaseCommands: what goes to a client's database for it, and what the engine is told of the answers.

Invariant: of every answer the status flags and the effects are noted once, and an ended transaction is reported to the
engine before the client's next statement.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from mysql_mimic.types import Commands

from engine.backend.servers import ALL_SHARDS
from engine.delivery.births import Birth
from engine.engine import Engine
from engine.model.commit_report import Settlement
from engine.model.errors import BackendError
from engine.model.keyspaces import at_shard
from engine.model.marked_name import renamed
from engine.model.pins import Pins
from engine.model.queue import QueueCatalog, QueueName, QueueSpec, TopicSpec, quoted
from engine.model.trace_event import ENQUEUED
from engine.traces import Traces
from mysql_wire import requests
from mysql_wire.errors import ProxyError
from mysql_wire.outcome import Outcome
from proxy.session.open_transactions import OpenTransactions, SessionTransactions
from proxy.session.session import ClientSession, Identity, Reach
from proxy.session.transaction_scope import doubted, report_single
from proxy.upstream.base import accepted, collected
from proxy.upstream.large_command import LargeCommand
from proxy.upstream.repeats import stands_alone
from rewriter.plan import NO_EFFECTS, Effects, Execute, TransactionVerb
from rewriter.plans.alter_queue import own_mark_sql
from rewriter.text.queue_names import SYSTEM_DATABASE

log = logging.getLogger("proxy.statements.executor")  # under which operators know it

CONNECTION_LOST = "08"
"""How the SQLSTATE begins of an outcome that is not known."""

_NOT_SUPPORTED = 1235
ENQUEUED_MAX = 10_000
"""Messages of one statement that are reported."""


class DatabaseCommands:
    """See the module. For one session."""

    def __init__(self, session: ClientSession, engine: Engine, transactions: OpenTransactions | None) -> None:
        self.transactions = SessionTransactions(transactions or OpenTransactions(0))
        self.excess: ProxyError | None = None
        """Why the session must end: it has begun one transaction too many."""
        self.session = session
        self.engine = engine
        self._renamed: list[QueueSpec | TopicSpec] = []

    def query(self, text: bytes) -> bytes:
        """COM_QUERY with this text, in the form that was agreed with the database."""
        return requests.query_payload(text, self.session.identity.capabilities)

    async def forward(
        self,
        payload: bytes,
        effects: Effects = NO_EFFECTS,
        verb: TransactionVerb | None = None,
        *,
        more: bool = False,
        repeatable: bool = False,
        plain: bytes | None = None,
    ) -> Outcome:
        """Have the database answer a command, and take note of what it did. `repeatable`, `plain`: see Upstream."""
        await self.limit(effects, verb)
        sent_at, before = self.session.sending(effects), self.engine.catalog
        answering = self.session.upstream.command(
            payload, more=more, buffered=bool(effects.catalog), repeatable=repeatable, plain=plain
        )
        outcome = await self._answered(answering, effects)
        self.note(outcome, effects, verb, sent_at)
        if effects.catalog:
            await self._follow_renames(before, payload, more=more)
        return outcome

    @asynccontextmanager
    async def at_tablet(self) -> AsyncIterator[None]:
        """What is sent within goes to a tablet as it is, where the server is a vtgate of Vitess; elsewhere nothing is
        done.

        The planner of a vtgate (24.0.4) applies a WHERE around a UNION of values to the last of them only, so a read of
        the system tables would lose rows without an error. A session without a current database has one afterwards.

        Raises:
            BackendError: the keyspace does not answer.
        """
        keyspaces = self.engine.catalog.keyspaces
        if not keyspaces.whole or SYSTEM_DATABASE in keyspaces:
            yield
            return
        own = self.session.database_at_server
        keyspace = own if own in keyspaces.whole else keyspaces.whole[0]
        async with self._using(keyspace + ALL_SHARDS, keyspace):
            yield

    def at_shard(self, keyspace: str, shard: str) -> AbstractAsyncContextManager[None]:
        """What is sent within goes to this shard as it is. Raises as `at_tablet`."""
        return self._using(at_shard(keyspace, shard), keyspace)

    @asynccontextmanager
    async def _using(self, target: str, keyspace: str) -> AsyncIterator[None]:
        session = self.session
        own = session.database_at_server
        await accepted(session.upstream, f"USE {quoted(target)}")
        try:
            yield
        finally:
            if session.upstream.alive:
                await accepted(session.upstream, f"USE {quoted(own or keyspace)}")
                if own is None:
                    session.set_database(keyspace)

    def routes(self, plan: Execute) -> Mapping[str, str] | None:
        """By which conditions a statement on messages of several shards finds these; None where it is not known."""
        queue = None if plan.at_shards is None else self.engine.catalog.get(plan.at_shards)
        if queue is None or plan.named is None or plan.pins is not Pins.VERB:
            return None
        return self.engine.queues.placement.routes(queue, plan.named)

    @property
    def unlimited(self) -> bool:
        """Whether there are queues over several shards, and a transaction of the session may span several."""
        return bool(self.engine.catalog.sharded) and self.session.settings.reach is not Reach.ONE

    def may_span_shards(self, effects: Effects = NO_EFFECTS, verb: TransactionVerb | None = None) -> bool:
        """Whether `limit` has something to do before a statement: where it concerns a queue of several shards, or a
        transaction begins, which may do so later."""
        if not self.unlimited:
            return False
        unknown, alone = self.session.settings.reach is Reach.UNKNOWN, stands_alone(self.session.upstream.status)
        if self._at_shards(effects):
            return unknown or not alone
        begins = verb not in (None, TransactionVerb.AUTOCOMMIT) or not alone
        return unknown and begins and not self.session.in_transaction

    def _at_shards(self, effects: Effects) -> bool:
        named = {queue for queue, _ in effects.settled + effects.changed}
        return not self.engine.catalog.sharded.isdisjoint(
            named | effects.touched | effects.uncertain | effects.rejected
        )

    async def limit(self, effects: Effects, verb: TransactionVerb | None = None) -> None:
        """Before a statement: have transactions of the session change one shard at most, unless the client has asked
        for two phases. vtgate checks it as a shard is changed, so what a transaction has done before stays unchecked.

        A vtgate commits to one shard after the other, so an ack in one would hold without the business row in another.
        Source: https://vitess.io/docs/reference/features/distributed-transaction/

        Raises:
            BackendError: the server refuses it, or it is too late for the open transaction.
        """
        if not self.may_span_shards(effects, verb):
            return
        settings, upstream = self.session.settings, self.session.upstream
        alone = stands_alone(upstream.status)
        if settings.reach is Reach.UNKNOWN and not self.session.in_transaction:
            ((mode,),) = (await collected(upstream, "SELECT @@transaction_mode")).each(1)
            whole = (mode or b"").upper() in (b"SINGLE", b"TWOPC")
            if not whole and not settings.sets_reach:
                await accepted(upstream, "SET transaction_mode = 'SINGLE'")
            settings.reach = Reach.ONE if whole or not settings.sets_reach else Reach.SEVERAL
        if settings.reach is not Reach.ONE and not alone and self._at_shards(effects):
            raise BackendError(
                "a transaction with messages of a queue over several shards changes one shard, and this one may change"
                " several: end it, and SET transaction_mode = 'SINGLE' before the next",
                _NOT_SUPPORTED,
            )

    async def pass_on(self, large: LargeCommand, effects: Effects = NO_EFFECTS) -> Outcome:
        """As `forward`, for a command that the client is still sending. The caller records the effects: they may
        be known only now."""
        await self.limit(effects, TransactionVerb.OPAQUE)
        return await self._answered(self.session.upstream.pass_on(large, buffered=bool(effects.catalog)), effects)

    async def _answered(self, answering: Awaitable[Outcome], effects: Effects) -> Outcome:
        outcome = await answering
        if effects.names is not None and outcome.ok:
            await self.engine.dead_letter_names.add(*effects.names)
        if effects.catalog and (outcome.ok or effects.several):
            await self.refresh_catalog(effects.catalog)
        catalog = self.engine.catalog
        for dropped in effects.drops - catalog.queues.keys() - catalog.topics.keys() if outcome.ok else ():
            await self.engine.schedules.queue_dropped(dropped)
            await self.engine.dead_letter_names.forget(dropped)
        if effects.catalog:
            await self.session.upstream.deliver()
        return outcome

    def note(
        self,
        outcome: Outcome,
        effects: Effects = NO_EFFECTS,
        verb: TransactionVerb | None = None,
        sent_at: float | None = None,
        birth: Birth | None = None,
    ) -> None:
        """After an answer: store the status flags and report an ended transaction to the engine. `birth`: with which
        it has added a message."""
        session = self.session
        if session.settings.temporary:
            effects = doubted(effects)
        session.writer.status = session.upstream.status
        in_transaction, user = session.in_transaction, session.identity.user
        self.excess = self.transactions.follow(user, in_transaction, free=session.admin) or self.excess
        alone = outcome.ok and not (in_transaction or verb) and session.scope.empty
        if birth is not None and alone and outcome.affected_rows == 1 and outcome.last_insert_id:
            self.engine.queues.born(birth, outcome.last_insert_id)
            return
        if birth is not None:
            known = not outcome.ok and not outcome.sqlstate.startswith(CONNECTION_LOST)
            (self.engine.queues.unborn if known else self.engine.queues.lost)(birth)
        if alone and report_single(self.engine, effects, outcome.affected_rows, outcome.last_insert_id):
            return
        report = session.scope.record(
            effects,
            verb,
            ok=outcome.ok,
            in_transaction=in_transaction,
            affected=outcome.affected_rows,
            first_id=outcome.last_insert_id,
            enqueued=enqueued(outcome, effects, session.identity, self.engine.traces) if effects.numbered else None,
            sent_at=sent_at,
        )
        if report:
            self.engine.committed(report)

    async def _follow_renames(self, before: QueueCatalog, payload: bytes, *, more: bool) -> None:
        """Where the client has renamed a queue, its mark follows, as far as the client may write it; behind the last
        answer to what the client sent as one, whose packets are counted through. Another's rename is none of its own:
        its text has the new name."""
        text = payload.decode(self.session.identity.codec, "replace").lower()
        self._renamed += [
            spec
            for spec in renamed(before, self.engine.catalog)
            if payload[0] != Commands.COM_QUERY or spec.name.table.replace("`", "``").lower() in text
        ]
        if more or not self._renamed:
            return
        specs, self._renamed = self._renamed, []
        for spec in specs:
            try:
                await accepted(self.session.upstream, own_mark_sql(spec))
            except (BackendError, ProxyError) as error:
                log.warning("%s is renamed and keeps the mark of its old name: %s", spec.name, error)
        await self.refresh_catalog()

    async def refresh_catalog(self, changed: bool | Collection[QueueName] = True) -> None:
        """The client has changed which tables are queues, any or these."""
        try:
            await self.engine.catalog_changed(None if isinstance(changed, bool) else changed)
        except BackendError as error:
            # The statement itself succeeded; the safety scan will find the change.
            log.warning("catalog not refreshed after DDL: %s", error)


def enqueued(outcome: Outcome, effects: Effects, identity: Identity, traces: Traces) -> Settlement | None:
    """What a statement has added to a topic, to be reported once it is committed; None where nothing is.

    Only of topics whose history is stored, and of an INSERT of rows that the database numbers in one go. Of INSERT ...
    SELECT, LOAD DATA, REPLACE, IGNORE, ON DUPLICATE KEY and RETURNING the answer does not contain the ids.
    """
    first, rows = outcome.last_insert_id, outcome.affected_rows
    if effects.tally is None or not outcome.ok or not first or not rows or not traces.persists(effects.tally[0]):
        return None
    topic = effects.tally[0]
    count = min(rows, ENQUEUED_MAX) if traces.ids_follow else 1
    return Settlement(topic, ENQUEUED, tuple(range(first, first + count)), True, by=identity.receiver())
