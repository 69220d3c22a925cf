"""A server that is too old is refused at start, with the version that is needed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from servers import ROOT, MariaDb, private


@pytest.fixture
def old_server(mariadb):
    """A server that says it is MySQL 5.7, which is all that the proxy goes by."""
    with private(MariaDb(["--version=5.7.22-log"])) as server:
        yield server


@pytest.mark.parametrize("auth", ["backend", "proxy"])
def test_a_server_that_is_too_old_is_refused_at_start(old_server, tmp_path, auth):
    users = "users: [{name: root, password: ''}]\n" if auth == "proxy" else ""
    (tmp_path / "config.yaml").write_text(
        f"backend: {old_server.url()}\nlisten: 127.0.0.1:0\nauth: {auth}\n{users}workers: 1\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "queuegate", "serve"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    (line,) = [x for x in done.stderr.splitlines() if x.startswith("queuegate: ")]
    assert "the server is MySQL 5.7.22-log, and queuegate needs MySQL 8.0.13 or later, or MariaDB 10.6 or later" in line
    assert "Traceback" not in done.stderr
