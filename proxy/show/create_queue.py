"""SHOW CREATE QUEUE: the statement that makes a queue again, from its table's definition in the database."""

from __future__ import annotations

from engine.engine import Engine
from engine.model.errors import QueueNotFound
from engine.model.queue import ColumnMeta, QueueName
from proxy.session.session import ClientSession
from proxy.show.columns import Row, text_column
from proxy.upstream.base import collected
from rewriter.plans.queue_table import back_quoted, show_create_queue


async def show_create(
    session: ClientSession, engine: Engine, queue: QueueName
) -> tuple[tuple[ColumnMeta, ...], list[Row]]:
    """Columns and the one row.

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
    return (text_column("Queue"), text_column("Create Queue", 16_384)), [(queue.table.encode(), shown.encode())]
