"""Every function that compiled statements call: importing the modules in which they are written registers them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC
from functools import lru_cache
from sys import getsizeof
from typing import Any

from embedded.compile.functions import (  # noqa: F401 - each registers its functions
    calendar_days,
    date_formats,
    dates,
    exact_numbers,
    json_keys,
    locks,
    numbers,
    patterns,
    text,
)
from embedded.compile.functions import json as json_values  # noqa: F401
from embedded.compile.functions.context import CallContext
from embedded.compile.functions.scalar import SCALARS, scalar
from embedded.compile.values.store import StoreAs
from embedded.compile.values.types import Kind, SqlType


@lru_cache(maxsize=1024)
def _target(description: str, utc: bool) -> StoreAs:
    document, column = json.loads(description)
    sql_type = SqlType(**{**document, "kind": Kind(document["kind"]), "values": tuple(document["values"])})
    return StoreAs(sql_type, column, utc)


@scalar()
def store(context: CallContext, value: Any, description: str) -> Any:
    """A value to be stored in a column, where it is not a literal."""
    return _target(description, context.zone is UTC)(value)


def scalars() -> tuple[tuple[str, int, Callable[..., Any], bool], ...]:
    """Of each: name, number of arguments (any), function, whether equal arguments give equal results."""
    return tuple((one.name, -1, one.function, one.deterministic) for one in SCALARS.values())


# Operands stored while one expression is evaluated: see embedded/compile/expressions/stored_operands.py.

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
