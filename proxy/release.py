"""Which version of queuegate this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def release() -> str:
    """This distribution's version."""
    try:
        return version("queuegate")
    except PackageNotFoundError:
        return "unknown (not installed)"
