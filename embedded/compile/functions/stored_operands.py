"""Operands stored while one expression is evaluated: see embedded/compile/expressions/stored_operands.py."""

from __future__ import annotations

from sys import getsizeof
from typing import Any

from embedded.compile.functions.context import CallContext
from embedded.compile.functions.scalar import scalar

_COPIES = 2  # of an operand: the stored one, and SQLite's own where it is loaded


@scalar("keep", null_aware=True, deterministic=False)
def store_operands(context: CallContext, *pairs: Any) -> int:
    """Store values, each after its number; 0."""
    for number, value in zip(pairs[::2], pairs[1::2], strict=True):
        context.stored_operands[number] = value
        context.allocate(-number, _COPIES * getsizeof(value))
    return 0


@scalar("kept", deterministic=False)
def load_operand(context: CallContext, number: int) -> Any:
    """The value that was stored last under this number."""
    return context.stored_operands[number]
