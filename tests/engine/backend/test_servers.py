"""Which servers may serve, by the version that they tell."""

from __future__ import annotations

import pytest

from engine.backend.servers import unsupported


@pytest.mark.parametrize(
    "version",
    [
        "8.0.13", "8.0.31", "8.0.42-0ubuntu0.24.04.1", "8.4.3", "9.1.0-commercial", "8.0.35-27",
        "8.0.30-Vitess", "8.0.40-azure", "8.0.39",
        "10.6.0-MariaDB", "10.11.19-MariaDB-0+deb12u1", "11.8.6-MariaDB-log", "12.0.2-MariaDB",
        "8.0.11-TiDB-v8.5.0", "", "unknown",
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
