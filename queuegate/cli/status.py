"""`queuegate status`: one line for each queue."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from engine.model.queue import quoted
from queuegate.cli.connecting import Link, Target
from queuegate.cli.names import QueueRef
from queuegate.cli.queue_figures import Figures, chosen, figures, status_object, status_table
from queuegate.cli.tables import table


def run(options: argparse.Namespace, target: Target) -> int:
    """Print the table, or JSON."""
    with Link(target, "status") as link:
        queues = fetch_figures(link, options.names)
    if options.json:
        sys.stdout.write(json.dumps([status_object(queue) for queue in queues], indent=2, ensure_ascii=False) + "\n")
    elif not queues:
        sys.stdout.write("There are no queues.\n")
    else:
        titles, rows, right = status_table(queues)
        sys.stdout.write(table(titles, rows, right=right))
    return 0


def fetch_figures(link: Link, names: Sequence[QueueRef], *, strict: bool = True) -> list[Figures]:
    """The queues that are wanted, counted now; all of the session's database, or of all, where none is named. `strict`:
    one that is not there is an error, not left out."""
    databases = dict.fromkeys(name.database for name in names) or {None: None}
    by_name: dict[QueueRef, Figures] = {}
    for database in databases:
        of_one = "" if database is None else f" FROM {quoted(database)}"
        rows = link.rows(f"SHOW QUEUE STATUS{of_one}")
        by_name |= {queue.name: queue for queue in map(figures, rows)}
    return chosen(by_name.values(), names, strict=strict)
