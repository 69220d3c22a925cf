"""The state of compiling one statement: its slots, the placeholders handed out, the values built in.

While a statement is compiled, placeholders are written as marks; `finish` numbers those that are left in the final
text. In a table definition there are no placeholders: values are written into the text (`inline`). In a change of a
strict session a conversion that loses something is an error (`strict`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from embedded.compile.budget import CompileBudget, check_text
from embedded.compile.errors import SqlError
from embedded.compile.functions.scalar import SCALARS
from embedded.compile.plan import Bind, Statement
from embedded.compile.schema import IndexPart, Schema, Table
from embedded.compile.text.literal_lifting import slot_of
from embedded.compile.text.modes import Modes
from embedded.compile.values.types import Kind

_IN_DEFINITIONS = frozenset(("qg_conv", "qg_md5"))
"""Our own functions that a table definition may call: those of a queue's slots (engine.model.key_range). The file can
then be read without them, and not written."""

_PLACE = re.compile("\x01(\\d+)\x02")


class ValueNeeded(Exception):
    """A statement is being prepared and its plan depends on a parameter that has no value yet."""


@dataclass(eq=False, slots=True)
class Compilation:
    """See the module."""

    schema: Schema
    modes: Modes
    kinds: list[str]
    values: list[Any]
    inline: bool = False
    strict: bool = False
    pins: set[int] = field(default_factory=set)
    temporary: bool = False
    budget: CompileBudget = field(default_factory=CompileBudget)
    binds: list[Bind] = field(default_factory=list)
    _positions: dict[Bind, int] = field(default_factory=dict)
    _aliases: int = 0
    _operands: int = 0
    _places: dict[str, int] = field(default_factory=dict)
    _own_slots: int = -1

    def __post_init__(self) -> None:
        self._own_slots = len(self.kinds)

    def extend(self, kinds: Sequence[str], values: Sequence[Any]) -> int:
        """Slots of another text (a view's), whose values are constants; returns the number of the first."""
        first = len(self.kinds)
        self.kinds += kinds
        self.values += values
        return first

    def slot(self, slot: int, convert: Callable[[Any], Any] | None = None, negative: bool = False) -> str:
        """A placeholder for a slot's value."""
        return self._place(Bind(slot=slot, convert=convert, negative=negative))

    def dynamic(self, name: str, *arguments: Any) -> str:
        """A placeholder for a value that the session supplies when the statement runs."""
        if self.inline:
            raise SqlError(3770, f"An expression of a table definition contains a disallowed function: {name}.")
        return self._place(Bind(dynamic=name, arguments=arguments))

    def pin(self, slot: int) -> Any:
        """The slot's value, which thereby becomes part of the plan."""
        if self.kinds[slot] == "q":
            raise ValueNeeded
        if slot < self._own_slots:
            self.pins.add(slot)
        return self.values[slot]

    def name(self, text: str) -> str:
        """An identifier's text, which may have been written as a string literal."""
        slot = slot_of(text)
        return text if slot is None else str(self.pin(slot))

    def function(self, call: str) -> str:
        """A call of one of our own functions; few are allowed in a definition that SQLite stores.

        A function whose result may be large gets its place in the statement as first argument: the same for the same
        text, because SQLite compares texts.
        """
        name, _, arguments = call.partition("(")
        if self.inline and name not in _IN_DEFINITIONS:
            raise SqlError(
                1235,
                "The embedded backend does not support the function or conversion"
                f" '{name.removeprefix('qg_')}' in a table definition",
            )
        known = SCALARS.get(name)
        if known is None or not known.large_result:
            return call
        place = self._places.setdefault(call, len(self._places) + 1)
        return f"{name}({place}{'' if arguments == ')' else ', '}{arguments}"

    def counted(self, sql: str) -> str:
        """The value unchanged; its size is counted each time that the statement contains it."""
        place = len(self._places) + 1
        self._places[f"{place} {sql}"] = place
        return f"qg_held({place}, {sql})"

    def alias(self) -> str:
        """A name that is not used anywhere else in the statement."""
        self._aliases += 1
        return f"qg_{self._aliases}"

    def next_operand(self) -> int:
        """The number of a new operand that is stored while one expression is evaluated."""
        self._operands += 1
        return self._operands

    def finish(self, sql: str) -> Statement:
        """The statement with its placeholders numbered."""
        numbers: dict[int, int] = {}
        uses: Counter[int] = Counter()

        def number(match: re.Match[str]) -> str:
            position = int(match[1])
            uses[position] += 1
            if self.inline or self.binds[position].slot >= self._own_slots:
                return sql_literal(self._inline_value(self.binds[position]))
            return f"?{numbers.setdefault(position, len(numbers) + 1)}"

        check_text(sql)
        text = _PLACE.sub(number, sql)
        return Statement(text, tuple(replace(self.binds[position], uses=uses[position]) for position in numbers))

    def _inline_value(self, bind: Bind) -> Any:
        value = self.values[bind.slot]
        value = negated(value) if bind.negative else value
        return bind.convert(value) if bind.convert else value

    def _place(self, bind: Bind) -> str:
        position = self._positions.get(bind)
        if position is None:
            position = self._positions[bind] = len(self.binds)
            self.binds.append(bind)
        return f"\x01{position}\x02"


def negated(value: Any) -> Any:
    """-value, with every digit of a Decimal."""
    return value.copy_negate() if isinstance(value, Decimal) else -value


def sql_literal(value: Any) -> str:
    """A value as SQLite writes it."""
    match value:
        case None:
            return "NULL"
        case bool() | int():
            return str(int(value))
        case bytes():
            return f"x'{value.hex()}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case _:
            return repr(float(value))


def quote(name: str) -> str:
    """An identifier in back quotes, which SQLite never takes for a string."""
    return "`" + name.replace("`", "``").replace("\0", "") + "`"


def key_part(table: Table, part: IndexPart, unique: bool) -> str:
    """A part of a key in SQLite's words. The first characters of a text compare as the whole."""
    text, column = quote(part.column), table.column(part.column)
    if part.length is None or not unique:
        return text
    folded = column is not None and column.type.kind is Kind.STRING and not column.type.case_sensitive
    return f"substr({text}, 1, {part.length})" + " COLLATE NOCASE" * folded
