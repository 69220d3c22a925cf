"""Who enqueued a message of a topic, from the answer to an INSERT. Pure.

Only of topics whose history is stored, and of an INSERT of rows that the database numbers in one go. Of INSERT ...
SELECT, LOAD DATA, REPLACE, IGNORE, ON DUPLICATE KEY and RETURNING the answer does not contain the ids.
"""

from __future__ import annotations

from engine.model.commit_report import Settlement
from engine.model.queue import SubscribeRequest
from engine.model.trace_event import ENQUEUED
from engine.traces import Traces
from proxy.session.session import Identity
from proxy.wire.outcome import Outcome
from rewriter.plan import Effects

ENQUEUED_MAX = 10_000
"""Messages of one statement that are reported."""


def enqueued(outcome: Outcome, effects: Effects, identity: Identity, traces: Traces) -> Settlement | None:
    """What a statement has added to a topic, to be reported once it is committed; None where nothing is."""
    first, rows = outcome.last_insert_id, outcome.affected_rows
    if effects.tally is None or not outcome.ok or not first or not rows or not traces.persists(effects.tally[0]):
        return None
    topic = effects.tally[0]
    by = SubscribeRequest(
        topic,
        connection_id=identity.connection_id,
        user=identity.user,
        host=identity.host,
        consumer=identity.program,
        pid=identity.pid,
    )
    count = min(rows, ENQUEUED_MAX) if traces.ids_follow else 1
    return Settlement(topic, ENQUEUED, tuple(range(first, first + count)), True, by=by)
