"""CREATE GROUP and ALTER GROUP ... SEEK TO, carried out for one client; whether a topic can have partitions.

The group's queue is made by the client's own account, in its session; where the group begins, and how far it has read,
is written by the engine's. A group is made paused, so that nothing is fed before its beginning is known: a
failure in between leaves a paused group, or none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from engine.engine import Engine
from engine.model.commit_report import CommitReport
from engine.model.errors import EngineError, GroupNotNew, QueueNotFound
from engine.model.options import to_comment
from engine.model.pins import Pins
from engine.model.queue import StartAt, quoted
from engine.model.topic_partitions import by_hand
from mysql_wire.errors import ProxyError
from mysql_wire.outcome import Outcome, number
from proxy.session.session import BackendTraits, ClientSession
from proxy.statements.reader import DENIED
from proxy.upstream.base import accepted, check_own_table, collected, definition
from rewriter.errors import UnsupportedSql
from rewriter.plan import CreateConsumerGroup, Partitioned, PlanContext, SeekConsumerGroup
from rewriter.plans.queue_table import comment_literal
from rewriter.plans.topics import group_queue
from rewriter.text.literals import hex_literal, plain_literal

_NOW = PlanContext().now_sql


class TopicStatements:
    """See the module. For one session."""

    def __init__(self, session: ClientSession, engine: Engine) -> None:
        self._session = session
        self._engine = engine

    async def start(self, start: StartAt, moment: str) -> StartAt:
        """Where a reader begins, with its time read in the session's time zone."""
        if not moment:
            return start
        # TIMESTAMP(), since a vtgate computes UNIX_TIMESTAMP() of a text itself, and otherwise than the database.
        sql = f"SELECT CAST(UNIX_TIMESTAMP(TIMESTAMP({plain_literal(moment)})) * 1000000000 AS SIGNED)"
        (value,) = (await collected(self._session.upstream, sql)).row(1)
        nanoseconds = 0 if value is None else number(value)
        if nanoseconds <= 0:
            raise ProxyError(1292, f"Incorrect DATETIME value: '{moment}'")
        return replace(start, value=nanoseconds)

    async def create(self, plan: CreateConsumerGroup) -> Outcome:
        """Make a group.

        Raises:
            InvalidOption: it would begin beyond the topic's end.
            UnsupportedSql: the server's ids become visible in an order that a group cannot follow.
            GroupNotNew: another session has dropped the group meanwhile and made it anew.
            BackendError: the database refused a part of it.
        """
        engine, upstream = self._engine, self._session.upstream
        start = await self.start(plan.start, plan.moment)
        topic = engine.catalog.topics.get(plan.topic)
        if topic is None or not topic.sequenced:
            await self._check_ids()
        if plan.check:
            await self._do(plan.check)
        columns = [] if topic is None else [column.name for column in topic.columns]
        await self._do(f"SELECT 1 FROM {plan.topic.sql} WHERE {reading(columns)}")  # whether the account may
        text = (await definition(upstream, plan.topic)).decode("utf-8", "replace")
        await engine.topics.check_start(plan.topic, start)
        if not plan.options.paused:
            await self._check_right_to_alter(plan)
        escapes = not self._session.no_backslash_escapes
        await self._do(group_queue(text, plan.group, replace(plan.options, paused=True), _NOW, escapes=escapes))
        try:
            # Before it has a place: what retention deletes from there on it has lost.
            await engine.catalog_changed((plan.group,))
            await engine.topics.begin(plan.group, plan.topic, start)
            if not plan.options.paused:
                comment = comment_literal(to_comment(plan.options), plan.group.table)
                await self._do(f"ALTER TABLE {plan.group.sql} COMMENT={comment}")
        except GroupNotNew:
            raise  # the table is another session's
        except EngineError as error:
            dropped = await upstream.collect(f"DROP TABLE {plan.group.sql}")
            if isinstance(dropped, Outcome) and dropped.errno in DENIED:
                left = f"'{plan.group}' is left paused, and an account with the right DROP has to drop it"
                raise ProxyError(error.errno, f"{error.message}; {left}") from error
            raise
        finally:
            await engine.catalog_changed((plan.group,))
        return Outcome(status=upstream.status)

    async def _check_right_to_alter(self, plan: CreateConsumerGroup) -> None:
        """Before the group is made: without the right it would stay paused, and perhaps could not be dropped. A server
        looks at the right first, and then for the table, of which this changes nothing."""
        answer = await self._session.upstream.collect(f"ALTER TABLE {plan.group.sql}")
        if isinstance(answer, Outcome) and answer.errno in DENIED:
            raise answer.failure()

    async def _do(self, sql: str) -> None:
        await accepted(self._session.upstream, sql)

    async def _check_ids(self) -> None:
        (step,) = (await collected(self._session.upstream, "SELECT @@auto_increment_increment")).row(1)
        if number(step) != 1:
            raise UnsupportedSql(
                f"several servers give ids in turn here (auto_increment_increment is {number(step)}, as on a Galera"
                " cluster), so that they tell no order: a topic with consumer groups needs its messages numbered, ALTER"
                " TOPIC ... SET (sequence = 'on')"
            )

    async def seek(self, plan: SeekConsumerGroup) -> tuple[Outcome, str]:
        """Move a group; its affected rows are the messages that it had and drops. And a note on it.

        Raises:
            InvalidOption: beyond the topic's end.
            BackendError: the account may not, or a client's open transaction has locked a message of the group.
        """
        spec = self._engine.catalog.get(plan.group)
        if spec is None:
            raise QueueNotFound(f"Table '{plan.group}' doesn't exist or is not a consumer group")
        start = await self.start(plan.start, plan.moment)
        probe = f"DELETE FROM {plan.group.sql} WHERE 1 = 0"  # whether the account may
        await self._do(self._session.pinned(probe, Pins.VERB))
        if self._session.rights is None:
            await check_own_table(self._session.upstream, plan.group)
        await self._engine.queues.move_rejected(plan.group)  # what stays in the group's queue does not come again
        sought = await self._engine.topics.seek(spec, start)
        concerned = frozenset((plan.group,))
        self._engine.committed(CommitReport(touched=concerned, uncertain=concerned))
        note = f"consumer group '{spec.options.consumer_group}' reads on from offset {sought.position + 1}; it had " + (
            f"{sought.dropped} messages that were not done, which it drops" if sought.dropped else "nothing to drop"
        )
        return Outcome(status=self._session.upstream.status, affected_rows=sought.dropped), note


def reading(columns: Iterable[str]) -> str:
    """A condition that no row fits, and that takes the right to read each of these columns."""
    read = " OR ".join(f"{quoted(name)} IS NULL" for name in columns) or "1 = 1"
    return f"1 = 0 AND ({read})"


async def check_partitions(session: ClientSession, traits: BackendTraits, plan: Partitioned) -> None:
    """CREATE TOPIC and ALTER TOPIC with the option `partition`: ask the database, as the client, whether it and this
    table can have partitions.

    Raises:
        UnsupportedSql: the backend has no partitions, or the table is not partitioned.
        BackendError: the database refused the query.
    """
    if not traits.partitions:
        raise UnsupportedSql("partition: the embedded database has no partitions; leave the option out")
    upstream = session.upstream
    cluster = await collected(upstream, "SHOW VARIABLES LIKE 'wsrep_on'")
    if any((value or b"").upper() in (b"ON", b"1") for _, value in cluster.rows):
        raise UnsupportedSql("partition: not supported on a Galera cluster; leave the option out")
    if plan.create:
        return
    topic = plan.topic
    of_table = f"TABLE_SCHEMA = {hex_literal(topic.database)} AND TABLE_NAME = {hex_literal(topic.table)}"
    by_id = (
        "SELECT COUNT(*) FROM information_schema.PARTITIONS WHERE PARTITION_METHOD IN ('RANGE', 'RANGE COLUMNS')"
        " AND SUBPARTITION_METHOD IS NULL AND LOWER(REPLACE(PARTITION_EXPRESSION, '`', '')) = 'id'"
    )
    (count,) = (await collected(upstream, f"{by_id} AND {of_table}")).row(1)
    if number(count) == 0:
        (last,) = (await collected(upstream, f"SELECT MAX(id) FROM {topic.sql}")).row(1)
        statement = by_hand(topic, 1 if last is None else number(last) + 1)
        raise UnsupportedSql(
            f"partition: the table has no partitions by its id; this makes them, and copies it: {statement}"
        )
