"""Every error number that the product says of its own accord has its SQLSTATE in the one table."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from mysql_server import unpacked

from engine.model.errors import BackendError, NotAQueue
from engine.model.sqlstates import SQLSTATES, sqlstate_of

ROOT = Path(__file__).resolve().parents[3]
NUMBERS = range(1000, 5000)  # of MySQL's errors; 2000 to 2999 are client libraries' own
ERRORS = ("Error", "Fault", "Refused", "Failed", "Lost", "Unavailable", "Unreachable", "unsupported", "refused")


def _numbers(tree: ast.AST) -> Iterator[int]:
    """Literals that are an error's first or second argument, or its `errno`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name.endswith(ERRORS):
                yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant) and type(arg.value) is int)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(getattr(target, "id", getattr(target, "attr", "")) == "errno" for target in targets):
                yield from (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and type(n.value) is int)


def test_every_number_has_its_state() -> None:
    used = {
        number
        for package in ("engine", "mysql_wire", "rewriter", "embedded", "proxy", "console", "queuegate")
        for path in (ROOT / package).rglob("*.py")
        for number in _numbers(ast.parse(path.read_text()))
        if number in NUMBERS and not 2000 <= number < 3000
    }
    assert len(used) > 80  # what looks for them still finds them
    assert sorted(used - SQLSTATES.keys()) == []


def test_a_number_of_the_database_keeps_what_came_with_it() -> None:
    assert BackendError("Duplicate entry", 1062, "23000").sqlstate == "23000"
    assert BackendError("a number of a newer server", 9999).sqlstate == sqlstate_of(9999) == "HY000"
    assert NotAQueue("'t' is not a queue").sqlstate == "HY000"


def test_every_state_is_mysqls() -> None:
    """By the list from which MySQL itself is made, which lies beside its programs."""
    number, states = 0, {}
    for line in (unpacked() / "share" / "messages_to_clients.txt").read_text(errors="replace").splitlines():
        if start := re.match(r"start-error-number (\d+)", line):
            number = int(start[1])
        elif name := re.match(r"(?:OBSOLETE_)?((?:ER|WARN)_\w+)(?:\s+(\w{5}))?", line):
            states[number] = name[2] or "HY000"
            number += 1
    assert {errno: state for errno, state in SQLSTATES.items() if states[errno] != state} == {}
