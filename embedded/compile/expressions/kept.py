"""An operand that an expression needs more than once, worked out and written once.

`CASE qg_keep(1, operand) WHEN 0 THEN ... qg_kept(1) ... qg_kept(1) ... END`: SQLite evaluates the subject of a CASE
before its branches. Without it, an expression in itself would double its text at each level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from embedded.compile.expressions.compiler import Expressions
from embedded.compile.expressions.typed import Typed

SHORT = 100
"""Characters of an operand that may be written again: a column or a literal, which costs less than two calls."""


def kept(x: Expressions, operands: Sequence[Typed], build: Callable[[Sequence[Typed]], Typed]) -> Typed:
    """What `build` makes of the operands, each of which it may write as often as it needs.

    A table's own definition cannot call our functions; there the text is bounded by its length alone.
    """
    if x.compilation.inline or all(len(operand.sql) <= SHORT for operand in operands):
        return build(operands)
    arguments: list[str] = []
    known: list[Typed] = []
    for operand in operands:
        if len(operand.sql) > SHORT:
            place = x.compilation.place()
            arguments += [str(place), operand.sql]
            known.append(_in_place(operand, f"qg_kept({place})"))
        else:
            known.append(operand)
    value = build(known)
    return replace(value, sql=f"(CASE qg_keep({', '.join(arguments)}) WHEN 0 THEN {value.sql} END)", unquoted=None)


def _in_place(operand: Typed, sql: str) -> Typed:
    unquoted = f"qg_json_scalar({sql})" if operand.unquoted is not None else None
    return replace(operand, sql=sql, slot=None, origin=None, collated=False, windowed=None, unquoted=unquoted)
