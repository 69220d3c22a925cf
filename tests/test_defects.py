"""docs/defects.md is complete: every row says what was wrong, and names tests that exist, or a reason."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from over import over
from test_promises import functions_of, rows_of

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "defects.md").read_text()
NODE = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
WITHOUT_A_TEST = ("Refused: ", "Kept: ", "Open: ")
ROWS = [row for part in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:] for row in rows_of(part)]


@over(ROWS, lambda row: row[0])
def test_a_defect_names_its_tests_or_a_reason(row):
    assert len(row) == 3 and all(row), row
    named = NODE.findall(row[2])
    assert named or (row[2].startswith(WITHOUT_A_TEST) and len(row[2]) > 40), "neither a test nor a reason"
    assert row[2].count("::") == len(named), "a test is not written as `tests/file.py::name`"
    for path, name in named:
        assert name.startswith("test_") and name in functions_of(path), f"there is no {path}::{name}"


def test_each_defect_has_one_row():
    numbers = [row[0] for row in ROWS]
    assert len(numbers) == len(set(numbers)) > 50


@pytest.mark.skipif(shutil.which("git") is None, reason="git is what applies them")
def test_the_planted_defects_still_apply():
    """`make planted` runs seldom; the code that a patch changes moves often."""
    patches = sorted((ROOT / "tests/planted").glob("*.patch"))
    assert patches
    for patch in patches:
        done = subprocess.run(["git", "apply", "--check", patch], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{patch.name}: {done.stderr}"
