"""The WHERE of a stream, made ready for the engine on the embedded backend: compiled as an ordinary statement's is."""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.errors import BackendError
from engine.model.queue import Condition, QueueName
from proxy.embedded.upstream import EmbeddedUpstream
from proxy.session.guard import GuardedUpstream
from proxy.session.session import ClientSession
from proxy.statements.stream_condition import check_sql, filter_sql
from proxy.wire.outcome import Outcome
from rewriter.plan import StreamFilter


async def embedded_condition(
    session: ClientSession, queue: QueueName, chosen: StreamFilter, values: Sequence[object]
) -> Condition:
    """See proxy.session.traits.MakeCondition."""
    upstream = _upstream(session)
    checked = await upstream.collect(check_sql(queue, chosen, values))
    if isinstance(checked, Outcome):
        raise BackendError(checked.message or "no result", checked.errno or 1105, checked.sqlstate)
    compiled, zone = await upstream.session.condition(queue.table, filter_sql(chosen.parts, values))
    return Condition(compiled, (("time_zone", zone),), chosen.text)


def check_stream(session: ClientSession) -> None:
    """Raises SqlError where the client's own transaction would keep its deliveries from being written."""
    _upstream(session).session.check_stream()


def _upstream(session: ClientSession) -> EmbeddedUpstream:
    upstream = session.upstream
    if isinstance(upstream, GuardedUpstream):
        upstream = upstream.behind
    assert isinstance(upstream, EmbeddedUpstream)
    return upstream
