"""`queuegate redrive`: dead letters go back into their queue."""

from __future__ import annotations

import argparse
import sys

from queuegate.cli.connecting import Link, Target
from queuegate.cli.names import outcome_object


def run(options: argparse.Namespace, target: Target) -> int:
    """Send REDRIVE, and print how many were moved. The condition is the operator's own SQL, with the rights of the
    account."""
    where = "" if options.where is None else f" WHERE {options.where}"
    limit = "" if options.limit is None else f" LIMIT {options.limit}"
    with Link(target, "redrive") as link:
        name = link.named(options.names[0])
        moved = link.change(f"REDRIVE {name.sql}{where}{limit}", of_user=bool(where))
    if options.json:
        sys.stdout.write(outcome_object("redrive", name, moved=moved))
    else:
        sys.stdout.write(f"{moved} {'message was' if moved == 1 else 'messages were'} put back from {name}\n")
    return 0
