"""The first pipeline of docs/spark.md, word for word but for the port, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from servers import ROOT, Sql


def test_the_example_runs(gate, tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/spark.md").read_text(), re.MULTILINE | re.DOTALL)
    text = next(block for block in blocks if "readStream" in block)
    assert text.count("3307") == 2
    done = subprocess.run(
        [sys.executable, "-c", text.replace("3307", str(gate.port))],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    client = Sql(gate.connect())
    try:
        assert done.returncode == 0, done.stderr[-4000:]
        assert done.stdout.splitlines()[-1] == "100 messages received"
        assert re.search(r"\|\s+4\|\s+20\|", done.stdout)
        assert client.rows("SELECT state, COUNT(*) FROM readings GROUP BY state") == [("acked", 100)]
    finally:
        client("DROP QUEUE IF EXISTS readings")
        client.close()
