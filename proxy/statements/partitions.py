"""CREATE TOPIC and ALTER TOPIC with the option `partition`: whether this backend and this table can have partitions."""

from __future__ import annotations

from engine.model.topic_partitions import by_hand
from proxy.session.backend_traits import BackendTraits
from proxy.session.session import ClientSession
from proxy.upstream.base import collected
from proxy.wire.outcome import number
from rewriter.errors import UnsupportedSql
from rewriter.plan import Partitioned
from rewriter.text.literals import hex_literal


async def check_partitions(session: ClientSession, traits: BackendTraits, plan: Partitioned) -> None:
    """Ask the database, as the client.

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
