"""An operand that an expression needs more than once is evaluated and written once.

`CASE qg_keep(1, operand) WHEN 0 THEN ... qg_kept(1) ... qg_kept(1) ... END`: qg_keep stores the operand, qg_kept loads
it. SQLite evaluates the subject of a CASE before its branches. Otherwise nested expressions would double their text at
each level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from embedded.compile.expressions.compiler import Expressions
from embedded.compile.expressions.typed import Typed

_CHANGING = ("qg_rand(", "qg_uuid(", "qg_random_bytes(")
SHORT = 100
"""Characters of an operand that may be written several times: a column or a literal, which costs less than 2 calls."""


def with_stored_operands(x: Expressions, operands: Sequence[Typed], build: Callable[[Sequence[Typed]], Typed]) -> Typed:
    """The expression that `build` returns for these operands; `build` may write each of them as often as it needs.

    A table's definition cannot call our functions; there only the length of the text is limited.
    """
    if x.compilation.inline or not any(map(_is_stored, operands)):
        return build(operands)
    arguments: list[str] = []
    known: list[Typed] = []
    for operand in operands:
        if _is_stored(operand):
            number = x.compilation.next_operand()
            arguments += [str(number), operand.sql]
            known.append(_in_place(operand, f"qg_kept({number})"))
        else:
            known.append(operand)
    value = build(known)
    return replace(value, sql=f"(CASE qg_keep({', '.join(arguments)}) WHEN 0 THEN {value.sql} END)", unquoted=None)


def is_changing(sql: str) -> bool:
    """Whether an expression or query has another value each time that it is evaluated, and so may be written once."""
    return any(call in sql for call in _CHANGING)


def _is_stored(operand: Typed) -> bool:
    return len(operand.sql) > SHORT or is_changing(operand.sql)


def _in_place(operand: Typed, sql: str) -> Typed:
    unquoted = f"qg_json_scalar({sql})" if operand.unquoted is not None else None
    return replace(operand, sql=sql, slot=None, origin=None, collated=False, windowed=None, unquoted=unquoted)
