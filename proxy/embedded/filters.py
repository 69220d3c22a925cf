"""The WHERE of a stream, made ready for the engine on the embedded backend: compiled as an ordinary statement's is."""

from __future__ import annotations

from engine.errors import BackendError
from engine.model import Condition, QueueName
from proxy.embedded_upstream import EmbeddedUpstream
from proxy.filters import check_sql
from proxy.session import ClientSession
from proxy.upstream import Outcome


async def embedded_condition(session: ClientSession, queue: QueueName, sql: str, text: str) -> Condition:
    """See proxy.filters.MakeCondition."""
    upstream = session.upstream
    assert isinstance(upstream, EmbeddedUpstream)
    checked = await upstream.collect(check_sql(queue, sql))
    if isinstance(checked, Outcome):
        raise BackendError(checked.message or "no result", checked.errno or 1105, checked.sqlstate)
    compiled, zone = await upstream.session.condition(queue.table, sql)
    return Condition(compiled, (("time_zone", zone),), text)
