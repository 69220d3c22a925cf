"""The rows of SHOW QUEUE q OPTIONS: every option of a queue, as WITH takes it, beside the default. Pure."""

from __future__ import annotations

from engine.model.option_values import OptionValue
from engine.model.options import GROUPS_ONLY, OF_GROUPS, OPTIONS, QueueOptions, option_items
from proxy.show.status_tables import Values


def option_values(options: QueueOptions, defaults: QueueOptions) -> list[Values]:
    """In the order of their names. NULL: the queue is without it. `defaults`: of a new queue at this proxy."""
    items, default_items = option_items(options), option_items(defaults)
    of_groups = () if options.topic is not None else (*OF_GROUPS, *GROUPS_ONLY)
    return [
        (name, _text(items.get(name)), _text(default_items.get(name)))
        for name in sorted(OPTIONS)
        if name not in of_groups
    ]


def _text(value: OptionValue | None) -> str | None:
    return None if value is None else str(value)
