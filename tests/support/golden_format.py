"""Golden files: blocks of `-- title`, a statement, and `--> ` lines that say what becomes of it.

A `-- database: name` or `-- modes: A,B` line in a block changes the context; `none` means no current database.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from engine.model.errors import EngineError
from rewriter.errors import RewriteError, UnknownQueue
from rewriter.plan import Plan, PlanContext
from rewriter.planner import Planner

NOW = "(NOW_NS())"


@dataclass
class Case:
    title: str
    sql: str
    expected: list[str]
    database: str | None = "shop"
    modes: frozenset[str] = field(default_factory=frozenset)
    head: list[str] = field(default_factory=list)


def read_cases(path: Path) -> list[Case]:
    return [_case(block) for block in path.read_text().split("\n\n") if block.strip()]


def _case(block: str) -> Case:
    lines = block.strip("\n").split("\n")
    head = []
    while lines[0].startswith("-- "):
        head.append(lines.pop(0))
    case = Case(head[0][3:], "", [line for line in lines if line.startswith("--> ")], head=head)
    case.sql = "\n".join(line for line in lines if not line.startswith("--> "))
    for line in head[1:]:
        key, _, value = line[3:].partition(": ")
        if key == "database":
            case.database = None if value == "none" else value
        elif key == "modes":
            case.modes = frozenset(value.split(","))
    return case


def outcome(planner: Planner, case: Case) -> list[str]:
    """What the planner makes of the case, as `--> ` lines."""
    try:
        plan = planner.plan(case.sql, PlanContext(case.database, NOW, case.modes))
    except (RewriteError, EngineError) as error:
        note = " [perhaps an alias]" if isinstance(error, UnknownQueue) and error.perhaps_alias else ""
        return [f"--> error {error.errno} ({error.sqlstate}): {error.message}{note}".replace("\n", "\\n")]
    return [f"--> {line}" for line in rendered(plan)]


def rendered(plan: Plan) -> list[str]:
    """The plan's class, and each of its fields that has not its default."""
    return [type(plan).__name__, *(f"{name}: {text}".replace("\n", "\\n") for name, text in _fields(plan, ""))]


def _fields(value: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """The names and values of a dataclass; of one inside it, by names with a dot."""
    for each in fields(value):
        content, name = getattr(value, each.name), prefix + each.name
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if content == default and type(content) is type(default):
            continue
        if is_dataclass(content) and type(content).__str__ is object.__str__:
            yield from _fields(content, f"{name}.")
        else:
            yield name, content if isinstance(content, str) else _text(content)


def _text(value: object) -> str:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, frozenset):
        return ", ".join(sorted(map(_text, value)))
    if type(value) is tuple:
        return f"({', '.join(map(_text, value))})"
    if is_dataclass(value) and type(value).__str__ is object.__str__:
        return f"{type(value).__name__}({', '.join(f'{name}={text}' for name, text in _fields(value, ''))})"
    return repr(value) if isinstance(value, str | bytes) else str(value)
