"""A server that is too old, or that does not lock, is refused at start, with the version that is needed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest
from servers import ROOT, MariaDb, private


@pytest.fixture
def server_of(mariadb):
    """A server that says it has this version, which is all that the proxy goes by."""
    with contextlib.ExitStack() as servers:
        yield lambda version: servers.enter_context(private(MariaDb([f"--version={version}"])))


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("5.7.22-log", "the server is MySQL 5.7.22-log, and "),
        (
            "8.0.11-TiDB-v8.5.0",
            "the server is TiDB (8.0.11-TiDB-v8.5.0), which accepts FOR UPDATE SKIP LOCKED and locks no",
        ),
    ],
    ids=["too old", "TiDB"],
)
@pytest.mark.parametrize("auth", ["backend", "proxy"])
def test_a_server_that_cannot_serve_is_refused_at_start(server_of, tmp_path, version, said, auth):
    users = "users: [{name: root, password: ''}]\n" if auth == "proxy" else ""
    (tmp_path / "config.yaml").write_text(
        f"backend: {server_of(version).url()}\nlisten: 127.0.0.1:0\nauth: {auth}\n{users}workers: 1\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "queuegate", "serve"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    (line,) = [x for x in done.stderr.splitlines() if x.startswith("queuegate: ")]
    assert said in line and "queuegate needs MySQL 8.0.13 or later, or MariaDB 10.6 or later" in line
    assert "Traceback" not in done.stderr
