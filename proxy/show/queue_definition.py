"""What SHOW CREATE QUEUE and SHOW QUEUE q OPTIONS tell of a queue: the statement that makes it again, from its table's
definition in the database, and every option."""

from __future__ import annotations

from engine.engine import Engine
from engine.model.errors import QueueNotFound
from engine.model.option_values import OptionValue
from engine.model.options import GROUPS_ONLY, OF_GROUPS, OPTIONS, QueueOptions, option_items
from engine.model.queue import QueueName
from proxy.session.session import ClientSession
from proxy.show.status_tables import Values
from proxy.upstream.base import definition
from rewriter.plans.queue_table import back_quoted, show_create_queue


async def create_queue_values(session: ClientSession, engine: Engine, queue: QueueName) -> Values:
    """The one row.

    Raises:
        QueueNotFound: there is no such queue.
        BackendError: the database does not show the table to this account.
    """
    spec = engine.catalog.get(queue) or engine.catalog.unfit.get(queue)
    if spec is None:
        raise QueueNotFound(f"Table '{queue}' doesn't exist or is not a queue")
    text = (await definition(session.upstream, queue)).decode("utf-8", "replace")
    escapes = not session.no_backslash_escapes
    if "ANSI_QUOTES" in session.reading_modes():
        text = back_quoted(text, backslash_escapes=escapes)
    shown = show_create_queue(text, spec, backslash_escapes=escapes)
    return (queue.table, shown)


def option_values(options: QueueOptions, defaults: QueueOptions) -> list[Values]:
    """The options, as WITH takes them, in the order of their names. NULL: the queue is without it. `defaults`: of a new
    queue at this proxy."""
    items, default_items = option_items(options), option_items(defaults)
    of_groups = () if options.topic is not None else (*OF_GROUPS, *GROUPS_ONLY)
    return [
        (name, _text(items.get(name)), _text(default_items.get(name)))
        for name in sorted(OPTIONS)
        if name not in of_groups
    ]


def _text(value: OptionValue | None) -> str | None:
    return None if value is None else str(value)
