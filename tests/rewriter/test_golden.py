"""The golden files: SQL in, plan out. Run as a program, this rewrites the expected lines for review."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_format import Case, outcome, read_cases
from rewriter_catalog import CATALOG

from rewriter.planner import Planner

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
FILES = sorted(GOLDEN.glob("*.sql"))
CASES = [(path.stem, case) for path in FILES for case in read_cases(path)]


@pytest.mark.parametrize(("feature", "case"), CASES, ids=[f"{feature}: {case.title}" for feature, case in CASES])
def test_plan(feature: str, case: Case) -> None:
    assert case.expected, "the case expects nothing"
    assert outcome(Planner(CATALOG), case) == case.expected


def test_every_case_has_a_title_of_its_own() -> None:
    titles = [(feature, case.title) for feature, case in CASES]
    assert len(set(titles)) == len(titles)
    assert len(FILES) >= 6


def rewrite() -> None:
    planner = Planner(CATALOG)
    for path in FILES:
        blocks = ["\n".join([*case.head, case.sql, *outcome(planner, case)]) for case in read_cases(path)]
        path.write_text("\n\n".join(blocks) + "\n")


if __name__ == "__main__":
    rewrite()
