"""What the tests in a real browser share: whether there is one, how it is started, and the login."""

from __future__ import annotations

import os
from typing import Any, NoReturn

import pytest

SECONDS = 20.0
"""For a page to do what a test waits for."""

OPTIONS = [
    "--disable-dev-shm-usage",  # a container's may have no more than 64 MB
    *(["--no-sandbox"] if os.geteuid() == 0 else []),  # its sandbox refuses root
]


def missing(what: str) -> NoReturn:
    """A skip at a desk, a failure in CI."""
    reason = f"{what} is not installed: the console is NOT tested in a browser"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def log_in(page: Any) -> None:
    """Fill in the form that is shown."""
    page.get_by_label("Account").fill("root")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Overview").wait_for()
