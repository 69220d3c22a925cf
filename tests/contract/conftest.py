"""The contract holds in a third place, too: before a server whose accounts are the proxy's own."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", params=["embedded", "mariadb", "proxy_accounts"])
def place(request: pytest.FixtureRequest) -> str:
    """Where a test is run."""
    return str(request.param)
