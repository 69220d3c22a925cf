"""Which version of queuegate this is, and what of it runs."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType


def is_compiled(module: ModuleType) -> bool:
    """Whether a library is what was loaded of a module (docs/releases.md, The wheel with compiled parts)."""
    return (module.__file__ or "").endswith(tuple(EXTENSION_SUFFIXES))


def release() -> str:
    """This distribution's version."""
    try:
        return version("queuegate")
    except PackageNotFoundError:
        return "unknown (not installed)"
