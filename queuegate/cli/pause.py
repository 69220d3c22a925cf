"""`queuegate pause` and `queuegate resume`."""

from __future__ import annotations

import argparse
import sys

from queuegate.cli.connecting import Link, Target
from queuegate.cli.names import outcome_object

_DONE = {
    "pause": "is paused: it accepts messages and delivers none",
    "resume": "delivers",
}


def run(options: argparse.Namespace, target: Target) -> int:
    """Send the statement that the command is named after."""
    with Link(target, options.command) as link:
        name = link.named(options.names[0])
        link.change(f"ALTER QUEUE {name.sql} {options.command.upper()}")
    text = outcome_object(options.command, name) if options.json else f"{name} {_DONE[options.command]}\n"
    sys.stdout.write(text)
    return 0
