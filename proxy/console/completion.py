"""`queuegate completion`: the script by which a shell completes the command line, made of its parser by shtab."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from proxy.console.failures import ConsoleError

_complete: Callable[..., str] | None
try:
    import shtab

    _complete = shtab.complete
except ImportError:
    _complete = None  # an extra: nobody needs it to serve


def run(parser: argparse.ArgumentParser, shell: str) -> int:
    """Print it."""
    if _complete is None:
        raise ConsoleError("completion needs the extra `completion`: pip install 'queuegate[completion]'")
    sys.stdout.write(_complete(parser, shell) + "\n")
    return 0
