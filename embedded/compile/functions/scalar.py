"""`scalar` registers a function where it is written, under the name by which compiled statements call it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from sys import getsizeof
from typing import Any, TypeVar

from embedded.compile.errors import unsupported
from embedded.compile.functions.context import CallContext

ARGUMENTS_MAX = 32 << 20
"""Characters or bytes of all arguments of a function. To copy more takes longer than others may wait for."""

SPLIT_MAX = 4 << 20
"""The same for a function that splits its text, or does more for each character than to copy it."""

Written = TypeVar("Written", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Scalar:
    """A function as SQLite calls it. `deterministic`: equal arguments give equal results. `large_result`: its first
    argument is the number of its place in the statement, under which the size of its result is counted."""

    name: str
    function: Callable[..., Any]
    deterministic: bool
    large_result: bool = False


SCALARS: dict[str, Scalar] = {}
"""By the name in compiled SQL."""


def scalar(
    *names: str, null_aware: bool = False, splits: bool = False, deterministic: bool = True, large_result: bool = False
) -> Callable[[Written], Written]:
    """Register a function of a CallContext and SQL values; it stays callable as it is.

    Args:
        names: its names in SQL, after `qg_`; its own name where there is none.
        null_aware: it is called with NULLs, too; else one NULL makes the result NULL.
        splits: it does more for each character than to copy it, so it takes SPLIT_MAX only.
        deterministic: equal arguments give equal results.
        large_result: it returns a text or bytes that may be large, which are counted; compiled calls pass their place
            first.
    """

    def register(function: Written) -> Written:
        for name in names or (function.__name__,):
            called = _bounded(name, function if null_aware else _strict(function), splits)
            SCALARS[f"qg_{name}"] = Scalar(
                f"qg_{name}", _counted(called) if large_result else called, deterministic, large_result
            )
        return function

    return register


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """NULL in, NULL out."""

    def strict(context: CallContext, *args: Any) -> Any:
        if None in args:
            return None
        return function(context, *args)

    return strict


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    def counted(context: CallContext, place: int, *args: Any) -> Any:
        value = function(context, *args)
        if value.__class__ is str or value.__class__ is bytes:
            context.allocate(place, getsizeof(value))
        return value

    return counted


def _bounded(name: str, function: Callable[..., Any], splits: bool) -> Callable[..., Any]:
    most = SPLIT_MAX if splits else ARGUMENTS_MAX

    def bounded(context: CallContext, *args: Any) -> Any:
        size = 0
        for arg in args:
            if arg.__class__ is str or arg.__class__ is bytes:
                size += len(arg)
        if size > most:
            what = f"arguments of {name.upper()} of more than {most} characters or bytes together"
            raise unsupported(what, "do it in the application")
        return function(context, *args)

    return bounded
