"""The example pipeline, as `make example-spark` runs it, on each backend; it checks its own sums."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from servers import ROOT

SECONDS = 280


@pytest.mark.timeout(SECONDS + 20)
def test_it_ends_by_itself_and_its_sums_are_right(new_gate, tmp_path):
    pytest.importorskip("pyspark")
    gate = new_gate().start()
    url = f"mysql://root@127.0.0.1:{gate.port}/{gate.database}"
    done = subprocess.run(
        [sys.executable, "-m", "examples.pipeline", "--orders", "3000", "--folder", str(tmp_path), "--url", url],
        cwd=ROOT, timeout=SECONDS, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "All sums are right" in done.stdout
    assert "<svg" in (tmp_path / "report.html").read_text()
