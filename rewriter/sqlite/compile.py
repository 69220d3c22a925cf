"""From a statement's text to its plan, by way of a bounded cache keyed by the text's shape.

Statements that are not queries or changes (SET, SHOW, definitions, transactions) are cheap to read and never cached.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rewriter.sqlite.calls import known
from rewriter.sqlite.compilation import Compilation
from rewriter.sqlite.compiled import Compiled, Insert, Modes, Modify, Query
from rewriter.sqlite.errors import unsupported
from rewriter.sqlite.insert import compile_insert
from rewriter.sqlite.literals import LexicalModes, Lifted, slot_kinds
from rewriter.sqlite.modify import compile_delete, compile_update
from rewriter.sqlite.parse import parse
from rewriter.sqlite.schema import Schema
from rewriter.sqlite.select import compile_select

Plan = Query | Insert | Modify
PLANS_MAX = 2000  # plans kept; a few kB each, and an application has some hundred shapes of statement
SHAPE_MAX = 20_000  # characters of a statement whose plan is kept: longer ones are one of a kind

_FIRST_WORD = re.compile(r"[\s(]*([A-Za-z]+)")
_QUERIES = frozenset(("SELECT", "WITH", "INSERT", "REPLACE", "UPDATE", "DELETE"))


def first_word(text: str) -> str:
    """The statement's first word in capitals, parentheses passed over."""
    match = _FIRST_WORD.match(text)
    return match[1].upper() if match else ""


def is_planned(word: str) -> bool:
    """Whether statements that begin so are compiled to plans."""
    return word in _QUERIES


def lexical(modes: Modes) -> LexicalModes:
    return LexicalModes(modes.ansi_quotes, modes.no_backslash_escapes)


@dataclass(eq=False, slots=True)
class PlanCache:
    """Plans by shape, schema version and modes.

    A shape whose plan depends on some values has one plan for each of them.
    """

    limit: int = PLANS_MAX
    hits: int = 0
    misses: int = 0
    _pins: OrderedDict[tuple[str, int, Modes], tuple[int, ...]] = field(default_factory=OrderedDict)
    _plans: OrderedDict[tuple[str, int, Modes, tuple[Any, ...]], Plan] = field(default_factory=OrderedDict)

    def plan(self, shape: str, values: Sequence[Any], schema: Schema, modes: Modes) -> Plan:
        """The plan of a statement.

        Raises:
            RewriteError: the statement is wrong, or not supported.
        """
        key = (shape, schema.version, modes)
        pins = self._pins.get(key)
        if pins is not None:
            plan = self._plans.get((*key, _pinned(pins, values)))
            if plan is not None:
                self.hits += 1
                return plan
        self.misses += 1
        compiled = compile_statement(shape, values, schema, modes)
        if schema.version >= 0 and len(shape) <= SHAPE_MAX:
            self._keep(key, compiled, values)
        return compiled.plan

    def _keep(self, key: tuple[str, int, Modes], compiled: Compiled, values: Sequence[Any]) -> None:
        # Another value may lead down another path of the compiler and pin more: the union holds for all.
        pins = tuple(sorted({*compiled.pins, *self._pins.get(key, ())}))
        self._pins[key] = pins
        self._plans[(*key, _pinned(pins, values))] = compiled.plan
        for kept in (self._pins, self._plans):
            while len(kept) > self.limit:
                kept.popitem(last=False)


def _pinned(pins: tuple[int, ...], values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple((type(values[slot]), values[slot]) for slot in pins)


def compile_statement(shape: str, values: Sequence[Any], schema: Schema, modes: Modes) -> Compiled:
    """Compile a SELECT, INSERT, REPLACE, UPDATE or DELETE of one row's values."""
    try:
        return _compile(shape, values, schema, modes)
    except RecursionError:
        raise unsupported("an expression nested this deeply", "simplify it") from None


def _compile(shape: str, values: Sequence[Any], schema: Schema, modes: Modes) -> Compiled:
    verb = first_word(shape)
    compilation = Compilation(schema, modes, list(slot_kinds(shape)), list(values))
    parsed = parse(shape, values, known(), verb)
    plan: Plan
    match verb:
        case "INSERT" | "REPLACE":
            plan = compile_insert(compilation, parsed)
        case "UPDATE":
            plan = compile_update(compilation, parsed)
        case "DELETE":
            plan = compile_delete(compilation, parsed)
        case _:
            plan = compile_select(compilation, parsed.tree, shape)
    return Compiled(plan, tuple(sorted(compilation.pins)))


def query_columns(lifted: Lifted, schema: Schema, modes: Modes) -> tuple[Any, ...]:
    """The result columns of a statement whose parameters are not known yet; () when they depend on them."""
    from rewriter.sqlite.compilation import ValueNeeded

    try:
        plan = compile_statement(lifted.shape, lifted.values, schema, modes).plan
    except ValueNeeded:
        return ()
    return plan.columns if isinstance(plan, Query) else ()
