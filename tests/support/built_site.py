"""The documentation as a site, built once for those who look at it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def needed() -> None:
    """The site's builder. Missing: a skip at a desk, a failure in CI."""
    for name in ("mkdocs", "material"):
        try:
            importlib.import_module(name)
        except ImportError:
            if os.environ.get("CI", "").lower() == "true":
                raise
            pytest.skip(f"{name} is not installed (make docs installs mkdocs); the site is NOT tested")


def build(folder: Path) -> Path:
    """Build it into the folder, which is returned. A warning of the builder fails the test."""
    needed()
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=200,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder
