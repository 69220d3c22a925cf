"""docs/call-paths.md is what runs: which functions five things go through, in order, however fast the machine is."""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path

import pytest
from servers import SERVER, MariaDb

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/call-paths.md"


@pytest.mark.skipif(SERVER != "mariadb", reason="the page is of MariaDB")
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the page is of one version of asyncio")
def test_the_page_has_the_functions_that_run(mariadb: MariaDb) -> None:
    url = mariadb.fresh_database("call_paths")
    command = [sys.executable, "-m", "benchmarks.call_path", "--server", url]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    changed = list(difflib.unified_diff(PAGE.read_text().splitlines(), done.stdout.splitlines(), lineterm="", n=0))
    hint = "docs/call-paths.md is not what runs; `python -m benchmarks.call_path --write` writes it again:"
    assert not changed, "\n".join((hint, *changed))
