"""`queuegate work` finds its proxy by ~/.my.cnf and the options of the mysql client, on both backends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from certificates import Authority
from servers import ROOT, Gate, Sql

HANDLER = """\
def handle(message, transaction):
    transaction.execute("INSERT INTO seen VALUES (%s)", (message.n,))
"""


@pytest.fixture
def work(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Handles what is due, with a home directory of its own."""
    (tmp_path / "app.py").write_text(HANDLER)
    kept = {key: value for key, value in os.environ.items() if key not in ("MYSQL_PWD", "QUEUEGATE_URL")}
    path = os.pathsep.join([str(ROOT), *sys.path])

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "queuegate", "work", "app:handle", "--queue", "jobs", "--drain", *arguments],
            cwd=tmp_path, env={**kept, "HOME": str(tmp_path), "PYTHONPATH": path, **environment},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    return run


def prepared(gate: Gate) -> Sql:
    client = Sql(gate.connect())
    client("CREATE QUEUE jobs (n INT)")
    client("CREATE TABLE seen (n INT)")
    client("INSERT INTO jobs (n) VALUES (1)")
    return client


def test_option_files_and_options(new_gate, work, tmp_path):
    gate = new_gate().start()
    client = prepared(gate)
    (tmp_path / ".my.cnf").write_text(
        f"[client]\nport = 1\nuser = root\n[queuegate]\nport={gate.port}\ndatabase={gate.database}\n"
    )
    done = work("--json")
    assert done.returncode == 0, done
    assert client.column("SELECT n FROM seen") == [1]
    assert all(json.loads(line)["logger"].startswith("queuegate") for line in done.stderr.splitlines())
    client("INSERT INTO jobs (n) VALUES (2)")
    (tmp_path / ".my.cnf").unlink()
    done = work("-h127.0.0.1", f"-P{gate.port}", "-uroot", "-D", gate.database, QUEUEGATE_URL="mysql://nobody@none:1")
    assert done.returncode == 0, done
    assert client.column("SELECT n FROM seen ORDER BY n") == [1, 2]
    refused = work(f"-P{gate.port}", "-pwrong", "-D", gate.database)
    assert refused.returncode == 1 and "wrong'" not in refused.stderr and "Traceback" not in refused.stderr
    client.close()


def test_a_certificate_is_verified_where_a_ca_is_named(new_gate, work, tmp_path):
    authority = Authority(tmp_path)
    certificate, key = map(str, authority.issue("server", "127.0.0.1"))
    gate = new_gate(tls={"certificate": certificate, "key": key, "mode": "required"}).start()
    client = prepared(gate)
    there = (f"-P{gate.port}", "-D", gate.database, "--ssl-ca", str(authority.ca))
    done = work(*there)
    assert done.returncode == 0, done
    assert client.column("SELECT n FROM seen") == [1]
    client.close()
