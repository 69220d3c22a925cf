"""Everything that the fuzzer has found and that has been mended, played again."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz_input import load
from fuzz_run import play_all

FINDINGS = sorted((Path(__file__).parent / "findings").glob("*.txt"))


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.stem)
def test_nothing_is_wrong_with_it_any_more(path: Path) -> None:
    assert play_all(load(path)) == []
