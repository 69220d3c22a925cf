"""From a statement's text to its plan, through a bounded cache keyed by the text's shape.

Statements that are not queries or changes (SET, SHOW, definitions, transactions) are cheap to read and never cached.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from embedded.compile.budget import CompileBudget, check_tokens
from embedded.compile.changes.insert import compile_insert
from embedded.compile.changes.update_delete import compile_delete, compile_update
from embedded.compile.compilation import Compilation, ValueNeeded
from embedded.compile.errors import unsupported
from embedded.compile.expressions.typed import Typed
from embedded.compile.functions import registry
from embedded.compile.plan import Compiled, Insert, Modify, Query, ResultColumn
from embedded.compile.queries.query import Queries
from embedded.compile.queries.user_variables import resolve
from embedded.compile.schema import Schema
from embedded.compile.text.column_names import ItemText, select_items
from embedded.compile.text.literal_lifting import LexicalModes, Lifted, slot_kinds
from embedded.compile.text.modes import Modes
from embedded.compile.text.parse import parse
from embedded.compile.values.types import BINARY_CHARSET, BINARY_FLAG, NOT_NULL_FLAG, meta

_FUNCTIONS = registry  # imported so that every function is known by what it makes
Plan = Query | Insert | Modify
PLANS_MAX = 2000  # plans cached; an application has some hundred shapes of statements
PLAN_BYTES_MAX = 12 << 20  # of memory for all of them: plans of 20,000 characters each take 300 kB
SHAPE_MAX = 20_000  # characters of a statement whose plan is cached: longer ones seldom come twice

_BYTES_EACH, _BYTES_PER_CHARACTER = 1000, 16  # what a plan takes, about, with its statement, columns and values

_FIRST_WORD = re.compile(r"[\s(]*([A-Za-z]+)")
_CHANGES = frozenset(("INSERT", "REPLACE", "UPDATE", "DELETE"))
_QUERIES = _CHANGES | {"SELECT", "WITH"}


def first_word(text: str) -> str:
    """The statement's first word in capitals, parentheses passed over."""
    match = _FIRST_WORD.match(text)
    return match[1].upper() if match else ""


def is_planned(word: str) -> bool:
    """Whether statements that begin so are compiled to plans."""
    return word in _QUERIES


def lexical(modes: Modes) -> LexicalModes:
    return LexicalModes(modes.ansi_quotes, modes.no_backslash_escapes)


_Key = tuple[str, Modes]
_Pinned = tuple[Any, ...]


@dataclass(eq=False, slots=True)
class _Shape:
    """The slots whose values the plans of a shape depend on, and how many plans it has."""

    pins: tuple[int, ...] = ()
    plans: int = 0


@dataclass(eq=False, slots=True)
class PlanCache:
    """Plans by shape and modes, for the newest version of the schema. The least recently used go first.

    A shape whose plan depends on some values has one plan for each of them. Long statements are planned in threads.
    """

    limit: int = PLANS_MAX
    bytes_max: int = PLAN_BYTES_MAX
    hits: int = 0
    misses: int = 0
    bytes: int = 0
    _version: int = -1
    _shapes: dict[_Key, _Shape] = field(default_factory=dict)
    _plans: OrderedDict[tuple[_Key, _Pinned], tuple[Plan, int]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __len__(self) -> int:
        return len(self._plans)

    def plan(
        self, shape: str, values: Sequence[Any], schema: Schema, modes: Modes, budget: CompileBudget | None = None
    ) -> Plan:
        """The plan of a statement. `budget`: the limits of compiling it, by which it can also be stopped.

        Raises:
            RewriteError: the statement is wrong, or not supported.
        """
        key = (shape, modes)
        with self._lock:
            cached = self._cached(key, values, schema.version)
        if cached is not None:
            return cached
        compiled = compile_statement(shape, values, schema, modes, budget)
        if schema.version >= 0 and len(shape) <= SHAPE_MAX:
            with self._lock:
                self._cache(key, compiled, values, schema.version)
        return compiled.plan

    def _cached(self, key: _Key, values: Sequence[Any], version: int) -> Plan | None:
        shape = self._shapes.get(key) if version == self._version else None
        place = (key, _pinned(shape.pins, values)) if shape is not None else None
        if place is None or place not in self._plans:
            self.misses += 1
            return None
        self._plans.move_to_end(place)
        self.hits += 1
        return self._plans[place][0]

    def _cache(self, key: _Key, compiled: Compiled, values: Sequence[Any], version: int) -> None:
        if version < self._version:
            return  # the schema has changed since
        if version > self._version:
            self._version, self.bytes = version, 0
            self._shapes.clear()
            self._plans.clear()
        shape = self._shapes.setdefault(key, _Shape())
        # Another value may lead down another path of the compiler and pin more: the union holds for all.
        shape.pins = tuple(sorted({*compiled.pins, *shape.pins}))
        place = (key, _pinned(shape.pins, values))
        if place not in self._plans:
            shape.plans += 1
            size = _size(*place)
            self._plans[place] = (compiled.plan, size)
            self.bytes += size
        while len(self._plans) > self.limit or self.bytes > self.bytes_max:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        (key, _), (_, size) = self._plans.popitem(last=False)
        self.bytes -= size
        shape = self._shapes[key]
        shape.plans -= 1
        if not shape.plans:
            del self._shapes[key]


def _pinned(pins: tuple[int, ...], values: Sequence[Any]) -> _Pinned:
    return tuple((type(values[slot]), values[slot]) for slot in pins)


def _size(key: _Key, pinned: _Pinned) -> int:
    """The bytes that a plan takes, about. Values that it depends on are in its statement too."""
    characters = len(key[0]) + sum(len(value) for _, value in pinned if isinstance(value, str | bytes))
    return _BYTES_EACH + _BYTES_PER_CHARACTER * characters


def compile_statement(
    shape: str, values: Sequence[Any], schema: Schema, modes: Modes, budget: CompileBudget | None = None
) -> Compiled:
    """Compile a SELECT, INSERT, REPLACE, UPDATE or DELETE of one row's values."""
    check_tokens(shape)
    try:
        return _compile(shape, values, schema, modes, budget or CompileBudget())
    except RecursionError:
        raise unsupported("an expression nested this deeply", "simplify it") from None


def _compile(shape: str, values: Sequence[Any], schema: Schema, modes: Modes, budget: CompileBudget) -> Compiled:
    verb = first_word(shape)
    parsed = parse(shape, values, verb, pipes_as_concat=modes.pipes_as_concat)
    strict = verb in _CHANGES and modes.strict and not parsed.ignore
    compilation = Compilation(schema, modes, list(slot_kinds(shape)), list(values), strict=strict, budget=budget)
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


def query_columns(lifted: Lifted, schema: Schema, modes: Modes, budget: CompileBudget | None = None) -> tuple[Any, ...]:
    """The result columns of a statement whose parameters are not known yet; () when they depend on them."""
    try:
        plan = compile_statement(lifted.shape, lifted.values, schema, modes, budget).plan
    except ValueNeeded:
        return ()
    return plan.columns if isinstance(plan, Query) else ()


def compile_select(compilation: Compilation, tree: exp.Expression, shape: str) -> Query:
    """The plan of a query whose text is `shape`."""
    items = select_items(shape)
    assigned = resolve(tree, shape).names
    selected = Queries(compilation).query(tree, None, [*items, *(ItemText("", 0) for _ in assigned)])
    columns = tuple(result_column(name, value) for name, value in selected.columns)
    visible = len(columns) - len(assigned)
    count = None
    if selected.unlimited is not None:
        count = compilation.finish(f"SELECT COUNT(*) FROM ({selected.unlimited})")
    statement = compilation.finish(selected.sql)
    reads = tree.find(exp.Table) is not None
    return Query(
        statement, columns[:visible], selected.lock, count, compilation.temporary, _is_limited(tree), reads,
        tuple(zip(assigned, columns[visible:], strict=True)),
    )  # fmt: skip


def _is_limited(tree: exp.Expression) -> bool:
    """Whether the query as a whole has a LIMIT."""
    while isinstance(tree, exp.Subquery | exp.Paren) and tree.args.get("limit") is None:
        tree = tree.this
    return tree.args.get("limit") is not None


def result_column(name: str, value: Typed) -> ResultColumn:
    """What a client is sent of a column of the result."""
    origin = value.origin
    flags = origin.flags if origin is not None else 0 if value.nullable else NOT_NULL_FLAG
    described = meta(value.type, name, flags)
    if origin is None and described.charset == BINARY_CHARSET:  # a number is marked so where it is computed, not stored
        described = replace(described, flags=described.flags | BINARY_FLAG)
    elif origin is not None:
        described = replace(
            described,
            org_name=origin.column.name,
            table=origin.alias,
            org_table=origin.table,
            schema="main" if origin.table and not origin.table.isupper() else "",
        )
    return ResultColumn(described, value.type)
