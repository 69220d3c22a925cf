"""Which servers may serve, by the version that they tell."""

from __future__ import annotations

import pytest

from engine.backend.environment import Environment
from engine.backend.servers import is_without_primary, unsupported


@pytest.mark.parametrize(
    "version",
    [
        "8.0.13", "8.0.31", "8.0.42-0ubuntu0.24.04.1", "8.4.3", "9.1.0-commercial", "8.0.35-27",
        "8.0.30-Vitess", "8.0.40-azure", "8.0.39",
        "10.6.0-MariaDB", "10.11.19-MariaDB-0+deb12u1", "11.8.6-MariaDB-log", "12.0.2-MariaDB",
        "", "unknown",
    ],
)  # fmt: skip
def test_servers_that_can_serve(version):
    assert unsupported(version) is None


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("5.7.22", "MySQL"), ("5.7.44-log", "MySQL"), ("5.6.51", "MySQL"), ("8.0.12", "MySQL"), ("8.0.4-rc", "MySQL"),
        ("10.5.28-MariaDB", "MariaDB"), ("10.3.39-MariaDB-0+deb10u2", "MariaDB"), ("5.5.68-MariaDB", "MariaDB"),
    ],
)  # fmt: skip
def test_servers_that_cannot_are_named_with_what_is_needed(version, kind):
    reason = unsupported(version)
    assert reason is not None
    assert reason.startswith(f"the server is {kind} {version}")
    assert "MySQL 8.0.13 or later, or MariaDB 10.6 or later" in reason


@pytest.mark.parametrize("version", ["8.0.11-TiDB-v8.5.0", "5.7.25-TiDB-v6.5.12", "8.0.11-TiDB-None"])
def test_tidb_is_refused_for_what_it_does_not_lock(version):
    reason = unsupported(version)
    assert reason is not None
    assert reason.startswith(f"the server is TiDB ({version}), which accepts FOR UPDATE SKIP LOCKED and locks no row")
    assert "MySQL 8.0.13 or later, or MariaDB 10.6 or later" in reason


@pytest.mark.parametrize(
    ("group", "single", "refused"),
    [
        ("aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", "OFF", True),
        ("aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", "ON", False),
        ("", "OFF", False),
        (None, None, False),
    ],
    ids=["several primaries", "one primary", "in no group", "without the plugin"],
)
def test_a_group_of_several_primaries_is_refused(group, single, refused):
    names = {"group_replication_group_name": group, "group_replication_single_primary_mode": single}
    rows = [("version", "8.4.3"), *((name, value) for name, value in names.items() if value is not None)]
    reason = Environment.of(rows).refusal
    assert (reason is not None) is refused
    assert reason is None or "use a group with a single primary" in reason


@pytest.mark.parametrize(
    ("errno", "message", "without"),
    [
        (1105, "target: t.-80.primary: no healthy tablet available for 'shard:\"-80\" tablet_type:PRIMARY'", True),
        (1105, "target: t.-80.primary: rpc error: Code(17) desc = operation not allowed in state NOT_SERVING", True),
        (1105, "target: t.-80.primary: vttablet: rpc error: code = Unavailable desc = error reading from server", True),
        (1105, "failed to automatically buffer and retry failed request during failover: primary buffer is full", True),
        (1105, "VT13001: [BUG] table q not found", False),
        (1064, "You have an error in your SQL syntax near 'no healthy tablet available'", False),
    ],
)  # fmt: skip
def test_a_shard_without_a_primary_is_known_by_what_the_vtgate_says(errno, message, without):
    assert is_without_primary(errno, message) is without
