"""`queuegate purge`: all messages of a queue are deleted, once its name has been typed."""

from __future__ import annotations

import argparse
import sys

from queuegate.cli.connecting import Link, Target
from queuegate.cli.failures import ConsoleError
from queuegate.cli.names import QueueRef, outcome_object
from queuegate.cli.status import fetch_figures


def run(options: argparse.Namespace, target: Target) -> int:
    """Ask, unless --yes is given, and send TRUNCATE QUEUE."""
    with Link(target, "purge") as link:
        name = link.named(options.names[0])
        if not options.yes:
            _confirm(link, name)
        link.change(f"TRUNCATE QUEUE {name.sql}")
    sys.stdout.write(outcome_object("purge", name) if options.json else f"{name} is empty\n")
    return 0


def _confirm(link: Link, name: QueueRef) -> None:
    (queue,) = fetch_figures(link, [name])
    counts = ", ".join(
        f"{queue.count(kind)} {label}"
        for kind, label in (("ready", "ready"), ("in_flight", "in flight"), ("scheduled", "scheduled"),
                            ("retrying", "waiting for a retry"), ("acked", "acked"))
    )  # fmt: skip
    sys.stderr.write(f"{name} holds {counts}. All of it is deleted, for good.\n")
    sys.stderr.write(f"Type {str(QueueRef(name.table))!r} to go on: ")
    sys.stderr.flush()
    typed = sys.stdin.readline().rstrip("\r\n")
    if typed not in (name.table, str(QueueRef(name.table)), str(name)):
        if not sys.stdin.isatty():
            sys.stderr.write("\n")
        raise ConsoleError("that is not its name: nothing was deleted (--yes does not ask)")
