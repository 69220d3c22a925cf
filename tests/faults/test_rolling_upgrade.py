"""Two proxies of version 0.1.0 are exchanged one by one for today's, back, and again, under load.

The old version is taken from this repository's history: the last commit without `lease_token`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import pytest
from rolling_clients import Clients, at_work
from servers import ROOT, Gate, Sql, find_binary, wait_until

pytestmark = pytest.mark.long

VERSION_0_1_0 = "20f8637eeb6935b5cff7e21c0b7094d27d1d9ef7"
STEP = 150  # messages that are done between two exchanges


@pytest.fixture(scope="module")
def old_tree(tmp_path_factory) -> Path:
    """The source of version 0.1.0."""
    folder: Path = tmp_path_factory.mktemp("v0_1_0")
    if find_binary("git") is None or not (ROOT / ".git").exists():
        pytest.skip("the history of the repository is not here")
    known = ["git", "-C", str(ROOT), "cat-file", "-e", f"{VERSION_0_1_0}^{{commit}}"]
    if subprocess.run(known, capture_output=True, timeout=60, check=False).returncode:
        pytest.skip("a shallow clone, without the commit of version 0.1.0")
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", VERSION_0_1_0], capture_output=True, timeout=60, check=True
    )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, timeout=60, check=True)
    return folder


def of_version(tree: Path | None) -> Callable[..., Any]:
    """How a proxy of that source is started; None: today's."""
    if tree is None:
        return Gate.launch

    def launch(arguments: list[str], log: IO[bytes], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "queuegate", *arguments], cwd=tree, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**environment, "PYTHONPATH": str(tree)},
        )  # fmt: skip

    return launch


class Ledger(Clients):
    """And what they know. A business row is written in the transaction of the ack."""

    prefetch = 5

    def __init__(self, gates: list[Gate]) -> None:
        super().__init__(gates)
        self.deliveries: list[tuple[int, float]] = []
        self.acked: dict[int, float] = {}

    def handle(self, client: Sql, id_: int, n: int, *, received: float) -> None:
        with self.lock:
            self.deliveries.append((n, received))
        client("BEGIN")
        client("INSERT INTO done (n) VALUES (%s)", n)
        if client("ACK q %s", id_) != 1:
            client("ROLLBACK")
            return
        client("COMMIT")
        with self.lock:
            self.acked[n] = time.time()

    def progress(self) -> None:
        reached = len(self.acked) + STEP
        wait_until(lambda: len(self.acked) >= reached, 60, f"{STEP} more messages to be done")


def exchange(gate: Gate, tree: Path | None) -> None:
    """Stop a proxy in order, and start another version in its place."""
    assert gate.terminate() == 0
    gate.launch = of_version(tree)  # type: ignore[misc]
    links = gate.log.count("linked to another proxy")
    gate.start()
    wait_until(lambda: gate.log.count("linked to another proxy") > links, 60, "the newcomer's link")


def has_tokens(check: Sql) -> bool:
    return "lease_token" in check.column("DESCRIBE q")


def test_versions_are_exchanged_one_by_one(mariadb, old_tree, tmp_path):
    url, gates = mariadb.fresh_database("upgraded"), []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        gate = Gate(url, tmp_path / name, database="upgraded")
        gate.launch = of_version(old_tree)  # type: ignore[misc]
        gates.append(gate.start())
    check, setup = Sql(mariadb.connect(database="upgraded")), Sql(gates[0].connect())
    setup("CREATE QUEUE q (n INT) WITH (ack_wait = '10s', min_backoff = '100ms', max_attempts = 20)")
    setup("CREATE TABLE done (n INT NOT NULL)")
    setup.connection._force_close()
    assert not has_tokens(check)
    ledger = Ledger(gates)
    with at_work(ledger):
        ledger.progress()
        exchange(gates[0], None)
        ledger.progress()
        assert not has_tokens(check), "while a proxy of 0.1.0 serves"
        exchange(gates[1], None)
        ledger.progress()
        wait_until(lambda: has_tokens(check), 120, "the column, once all are new")
        ledger.progress()
        exchange(gates[0], old_tree)
        ledger.progress()
        exchange(gates[0], None)
        ledger.progress()
        ledger.stop.wait(0.2)
        everything = "SELECT COUNT(*) FROM q WHERE time_acked IS NULL AND n < %s"
        wait_until(lambda: not check.value(everything, next(ledger.numbers) - 50), 60, "all but the latest to be acked")
    in_table = set(check.column("SELECT n FROM q"))
    acked = set(check.column("SELECT n FROM q WHERE time_acked IS NOT NULL"))
    done = check.column("SELECT n FROM done")
    check.close()
    assert ledger.inserted <= in_table, "lost"
    assert len(done) == len(set(done)), "done twice"
    assert set(done) == acked
    assert set(ledger.acked) <= acked, "an ack that was undone"
    again = [n for n, at in ledger.deliveries if at > ledger.acked.get(n, at)]
    assert not again, "handed out after their ack"
