"""Who else may read what serving writes and reads: a new database file is its owner's; what is open to all is told."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from servers import Gate, Sql


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def gate_at(tmp_path: Path):
    """Makes a gate on a database file there; the umask is the usual one."""
    before = os.umask(0o022)
    gates: list[Gate] = []

    def make(**config) -> Gate:
        gates.append(Gate(f"sqlite:///{tmp_path}/queue.db", tmp_path, **config))
        return gates[-1]

    yield make
    for gate in gates:
        gate.stop()
    os.umask(before)


def warnings(gate: Gate) -> list[str]:
    return [line for line in gate.log.splitlines() if "everybody may read" in line]


def test_a_new_database_is_its_owners_alone(gate_at, tmp_path):
    gate = gate_at().start()
    sql = Sql(gate.connect())
    sql("CREATE QUEUE orders (body TEXT)")
    sql("INSERT INTO orders (body) VALUES ('a secret')")
    files = {path.name: mode(path) for path in tmp_path.glob("queue.db*")}
    assert {"queue.db", "queue.db-wal", "queue.db-shm", "queue.db.lock"} <= files.keys()
    assert set(files.values()) == {0o600}
    assert warnings(gate) == []  # the file of the configuration is open, and has no secret in it
    sql.close()


def test_a_database_that_is_open_keeps_its_mode_and_is_told(gate_at, tmp_path):
    gate_at().start().stop()
    (tmp_path / "queue.db").chmod(0o644)
    gate = gate_at().start()
    (told,) = warnings(gate)
    assert "queue.db: chmod o= " in told
    assert mode(tmp_path / "queue.db") == 0o644


@pytest.mark.parametrize(
    "config",
    [
        {"users": [{"name": "root", "password": "hunter2"}]},
        {"users": [{"name": "root", "password_hash": "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19"}]},
        {"peers": {"enabled": False, "secret": "a secret of twenty characters"}},
    ],
)
def test_a_configuration_with_passwords_that_all_may_read_is_told_once(gate_at, config):
    gate = gate_at(**config).start()
    (told,) = warnings(gate)
    assert "config.yaml, which has passwords" in told and "chmod o=" in told
    assert "hunter2" not in gate.log and "twenty" not in gate.log


def test_what_only_its_group_may_read_is_not_told(gate_at, tmp_path):
    gate = gate_at(users=[{"name": "root", "password": "hunter2"}])
    os.umask(0o027)
    gate.start()
    assert mode(tmp_path / "config.yaml") == 0o640
    assert warnings(gate) == []
