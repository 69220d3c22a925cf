"""docs/reference-errors.md is whole: every number that queuegate sends is there, with its SQLSTATE and what to do."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from over import over

from engine.model.sqlstates import SQLSTATES

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "reference-errors.md").read_text()
EXPLAINED, _, EMBEDDED = PAGE.partition("## Ordinary SQL on SQLite")
ROWS = re.findall(r"^\| (\d+) \| (\w+) \| (.+) \| (.+) \|$", EXPLAINED, re.MULTILINE)
LISTED = re.findall(r"(\d{4}) \| `(\w+)`", EMBEDDED)
NAMES = dict(
    re.findall(r"^    (\d+): \"\w+\",  # (?:ER_)?(\w+)", (ROOT / "engine/model/sqlstates.py").read_text(), re.MULTILINE)
)
NOT_SENT = {1021, 1030, 1037, 1048, 1109, 1193, 1232, 1238, 1265, 1364, 1406, 1792, 3024, 3572}
"""Numbers that the code recognizes when a server says them, and passes on at most; it never says them itself."""
OF_SERVERS = {4025: "23000"}
"""Numbers of a server that mean something here, and that queuegate does not send."""


def sent() -> set[int]:
    """Numbers of the table of SQLSTATEs that stand in the code, but for that of the embedded database."""
    found: set[int] = set()
    for package in ("queuegate", "console", "proxy", "rewriter", "mysql_wire", "engine"):
        for path in (ROOT / package).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if "sqlite" in name or name.startswith("proxy/upstream/embedded") or name == "engine/model/sqlstates.py":
                continue
            nodes = ast.walk(ast.parse(path.read_text()))
            found |= {node.value for node in nodes if isinstance(node, ast.Constant) and type(node.value) is int}
    return found & SQLSTATES.keys()


def test_every_number_that_queuegate_sends_is_explained():
    explained = {int(row[0]) for row in ROWS}
    assert len(explained) > 50
    missing = sent() - explained - NOT_SENT
    assert not missing, f"say in docs/reference-errors.md when these come, and what to do: {sorted(missing)}"


def test_every_other_number_is_listed_with_its_name():
    explained = {int(row[0]) for row in ROWS}
    rest = {str(number): NAMES[str(number)] for number in SQLSTATES.keys() - explained}
    assert dict(LISTED) == rest


@over(ROWS, lambda row: row[0])
def test_a_number_has_its_sqlstate_and_says_what_to_do(row):
    number, sqlstate, when, what_to_do = row
    assert sqlstate == {**SQLSTATES, **OF_SERVERS}[int(number)]
    assert len(when) > 7 and len(what_to_do) > 5


def test_a_number_stands_once():
    numbers = [row[0] for row in ROWS] + [number for number, _ in LISTED]
    assert len(numbers) == len(set(numbers))
