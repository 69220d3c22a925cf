"""`queuegate`, the command, and `python -m queuegate`: the server's packages are found, and its command line runs."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

_INSTALLED = Path(__file__).resolve().parent / "_server"


def main() -> int:
    """Run the command line; see queuegate.command_line."""
    if _INSTALLED.is_dir():
        sys.path.insert(0, str(_INSTALLED))  # first: another distribution may have a package of the same name
    status: int = import_module("queuegate.command_line").main()
    return status


if __name__ == "__main__":
    sys.exit(main())
