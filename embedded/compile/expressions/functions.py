"""The functions this dialect knows, by MySQL name. Each has the number of its arguments and how it is built.

Where SQLite has the same function it is used; else one of ours (`qg_...`, in embedded.compile.functions) is called.
Arguments are converted to the form a function takes by one letter each: t text, d text of a date and time, n number,
i whole number, b bytes, x as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from embedded.compile.errors import SqlError
from embedded.compile.expressions.compiler import Expressions
from embedded.compile.expressions.typed import Typed, dated, to_bytes, to_integer, to_number, to_text
from embedded.compile.values.types import BLOB, TEXT, TEXTUAL, Kind, SqlType, joint_collation, text_type, text_width

_SHORT_TEXT = 16_383  # characters of a column that need not be counted: what VARCHAR has

Build = Callable[[Expressions, list[Typed]], Typed]
TypeRule = SqlType | Callable[[Sequence[Typed]], SqlType]


@dataclass(frozen=True, slots=True)
class Function:
    """A function: fewest and most arguments (None: any number), and its builder."""

    fewest: int
    most: int | None
    build: Build


FUNCTIONS: dict[str, Function] = {}


def define(names: str, fewest: int, most: int | None, build: Build) -> None:
    """Register a function under its names."""
    for name in names.split():
        FUNCTIONS[name] = Function(fewest, most, build)


def simple(
    names: str, spec: str, result: TypeRule, template: str = "", *, optional: int = 0, nullable: bool = True
) -> None:
    """A function whose arguments are converted by `spec` and put into `template`, or passed to our function.

    The last letter of `spec` applies to all further arguments where it ends in '*'. `optional` last arguments may be
    missing.
    """
    variadic = spec.endswith("*")
    letters = spec.rstrip("*")

    def build(x: Expressions, values: list[Typed]) -> Typed:
        argument_letters = letters + letters[-1:] * (len(values) - len(letters)) if variadic else letters
        arguments = [argument(x, letter, value) for letter, value in zip(argument_letters, values, strict=False)]
        if template:
            sql = template.format(*arguments, all=", ".join(arguments))
        else:
            sql = x.compilation.function(f"qg_{names.split()[0]}({', '.join(arguments)})")
        known = result if isinstance(result, SqlType) else result(values)
        return Typed(sql, known, nullable and (not values or any(value.nullable for value in values) or not template))

    define(names, len(letters) - optional, None if variadic else len(letters), build)


def argument(x: Expressions, letter: str, value: Typed) -> str:
    """One argument in the form of the letter."""
    match letter:
        case "t":
            return to_text(x.compilation, value)
        case "d":
            return to_text(x.compilation, dated(x.compilation, value))
        case "n":
            return to_number(x.compilation, value).sql
        case "i":
            return to_integer(x.compilation, value)
        case "b":
            return to_bytes(x.compilation, value)
        case _:
            return value.sql


def call(x: Expressions, name: str, values: list[Typed]) -> Typed:
    """The call of a known function.

    Raises:
        SqlError: 1305 no such function, 1582 wrong number of arguments.
    """
    function = FUNCTIONS.get(name)
    if function is None:
        raise SqlError(1305, f"FUNCTION main.{name} does not exist")
    if len(values) < function.fewest or (function.most is not None and len(values) > function.most):
        raise SqlError(1582, f"Incorrect parameter count in the call to native function '{name}'")
    return function.build(x, values)


def is_plain(value: Typed) -> bool:
    """Whether it is a value that existed before: a literal, a number, a moment, or a column of short texts."""
    if value.slot is not None or value.type.kind not in TEXTUAL | {Kind.JSON, Kind.BINARY}:
        return True
    return value.origin is not None and text_width(value.type) <= _SHORT_TEXT


def counted(x: Expressions, sql: str, values: Sequence[Typed]) -> str:
    """A call of one of SQLite's own functions on these values, whose result is counted like that of ours."""
    if x.compilation.inline or all(map(is_plain, values)):
        return sql
    return x.compilation.function(f"qg_held({sql})")


def has_bytes(values: Sequence[Typed]) -> bool:
    """Whether one of them is bytes, as BIT is where it is no number."""
    return any(value.type.kind in (Kind.BINARY, Kind.BIT) for value in values)


def like_text(values: Sequence[Typed]) -> SqlType:
    """Text as long as the first argument may be; bytes where that is bytes."""
    if has_bytes(values[:1]):
        return BLOB
    return text_type(text_width(values[0].type), values[0].type.collation)


def long_text(values: Sequence[Typed]) -> SqlType:
    """Text of any length, compared as the arguments are; bytes where one is bytes."""
    if has_bytes(values):
        return BLOB
    return replace(TEXT, collation=joint_collation(*(value.type for value in values)))


def joined_text(values: Sequence[Typed]) -> SqlType:
    """Text as long as all arguments together; bytes where one is bytes."""
    if has_bytes(values):
        return BLOB
    types = [value.type for value in values]
    return text_type(sum(map(text_width, types)), joint_collation(*types))
