"""Drivers' own suites pass exactly the tests through the proxy that they pass directly. `make suites` runs more.

PyMySQL's suite, and SQLAlchemy's compliance suite for dialects by PyMySQL: the others take longer than a test run may.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from servers import ROOT, MariaDb

pytestmark = pytest.mark.long

SUITE_SECONDS = 1500  # together half a minute where nothing else runs; what is fetched the first time comes on top


@pytest.mark.timeout(SUITE_SECONDS + 60)
@pytest.mark.parametrize("suite", ["pymysql", "sqlalchemy-compliance"])
def test_same_through_the_proxy(mariadb: MariaDb, tmp_path: Path, suite: str) -> None:
    done = subprocess.run(
        [sys.executable, "tests/driver_suites/compare.py", "--json", str(tmp_path / "found.json"), suite],
        cwd=ROOT, capture_output=True, text=True, timeout=SUITE_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode == 2 and os.environ.get("CI", "").lower() != "true":
        pytest.skip(f"the suite of {suite} cannot be had here: it is NOT compared\n{done.stdout}")
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    (found,) = json.loads((tmp_path / "found.json").read_text())
    assert found["differences"] == [] and found["direct"]["passed"] > 100
