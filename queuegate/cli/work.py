"""`queuegate work`: the command of the worker, which is a distribution of its own, in this process's place.

The worker runs an application's code. It gets a process without the server's packages, whose names (`proxy`, `engine`)
the application may use, too.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec

from queuegate.cli.failures import ConsoleError

_WORKER = "queuegate_worker"


def run(options: argparse.Namespace) -> int:
    """Does not return where the worker is installed."""
    if find_spec(_WORKER) is None:
        raise ConsoleError("the worker is not installed here: pip install queuegate-worker")
    arguments = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", _WORKER, *arguments])
