"""SHOW CREATE QUEUE: the statement that makes a queue again, from its table's definition in the database."""

from __future__ import annotations

from engine.engine import Engine
from engine.model.errors import QueueNotFound
from engine.model.queue import QueueName
from proxy.session.session import ClientSession
from proxy.show.status_tables import Values
from proxy.upstream.base import collected
from rewriter.plans.queue_table import back_quoted, show_create_queue


async def create_queue_values(session: ClientSession, engine: Engine, queue: QueueName) -> Values:
    """The one row.

    Raises:
        QueueNotFound: there is no such queue.
        BackendError: the database does not show the table to this account.
    """
    spec = engine.catalog.get(queue)
    if spec is None:
        raise QueueNotFound(f"Table '{queue}' doesn't exist or is not a queue")
    listed = await collected(session.upstream, f"SHOW CREATE TABLE {queue.sql}")
    _, definition = listed.row(2)
    escapes = not session.no_backslash_escapes
    text = (definition or b"").decode("utf-8", "replace")
    if "ANSI_QUOTES" in session.reading_modes():
        text = back_quoted(text, backslash_escapes=escapes)
    shown = show_create_queue(text, spec, backslash_escapes=escapes)
    return (queue.table, shown)
