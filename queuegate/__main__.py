"""`queuegate`, the command, and `python -m queuegate`: the server's packages are found, and its command line runs."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path

COMPILED = "QUEUEGATE_COMPILED"
"""The environment variable that says, with 0, that the modules are to run and not the libraries beside them."""

_INSTALLED = Path(__file__).resolve().parent / "_server"


def main() -> int:
    """Run the command line; see queuegate.command_line."""
    if _INSTALLED.is_dir():
        sys.path.insert(0, str(_INSTALLED))  # first: another distribution may have a package of the same name
        if os.environ.get(COMPILED) == "0":
            sys.path_hooks.insert(0, _modules_alone)
    status: int = import_module("queuegate.command_line").main()
    return status


def _modules_alone(path: str) -> FileFinder:
    """A path hook for the server's packages that finds modules, and no libraries. Raises ImportError for others."""
    if not Path(path).is_relative_to(_INSTALLED):
        raise ImportError(path)
    return FileFinder(path, (SourceFileLoader, SOURCE_SUFFIXES))


if __name__ == "__main__":
    sys.exit(main())
