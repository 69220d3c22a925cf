"""The WHERE of a stream, made ready for the engine on the embedded backend: compiled as an ordinary statement's is."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import BackendError
from engine.model import Condition, QueueName
from proxy.embedded_upstream import EmbeddedUpstream
from proxy.filters import check_sql, filter_sql
from proxy.session import ClientSession
from proxy.upstream import Outcome
from rewriter.plan import StreamFilter


async def embedded_condition(
    session: ClientSession, queue: QueueName, chosen: StreamFilter, values: Sequence[object]
) -> Condition:
    """See proxy.filters.MakeCondition."""
    upstream = session.upstream
    assert isinstance(upstream, EmbeddedUpstream)
    checked = await upstream.collect(check_sql(queue, chosen, values))
    if isinstance(checked, Outcome):
        raise BackendError(checked.message or "no result", checked.errno or 1105, checked.sqlstate)
    compiled, zone = await upstream.session.condition(queue.table, filter_sql(chosen.parts, values))
    return Condition(compiled, (("time_zone", zone),), chosen.text)
