"""Operands that are kept while one expression is worked out: see embedded/compile/expressions/kept.py."""

from __future__ import annotations

from sys import getsizeof
from typing import Any

from embedded.compile.functions.context import CallContext
from embedded.compile.functions.scalar import scalar

_COPIES = 2  # of an operand: the one that is kept, and what SQLite has where it is read


@scalar(null_aware=True, deterministic=False)
def keep(context: CallContext, *pairs: Any) -> int:
    """Keep values, each after the number of its place; 0."""
    for place, value in zip(pairs[::2], pairs[1::2], strict=True):
        context.kept[place] = value
        context.hold(-place, _COPIES * getsizeof(value))
    return 0


@scalar("kept", deterministic=False)
def kept_value(context: CallContext, place: int) -> Any:
    """What was kept there last."""
    return context.kept[place]
