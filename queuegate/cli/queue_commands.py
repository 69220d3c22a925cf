"""Commands on queues that are one statement each: status, pause, resume, purge and redrive."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from engine.model.queue import quoted
from queuegate.cli.connecting import Link, Target
from queuegate.cli.failures import ConsoleError
from queuegate.cli.names import QueueRef, outcome_object
from queuegate.cli.queue_figures import Figures, chosen, status_object, status_table
from queuegate.cli.tables import table

_DONE = {
    "pause": "is paused: it accepts messages and delivers none",
    "resume": "delivers",
}


def status(options: argparse.Namespace, target: Target) -> int:
    """One line for each queue, as a table or JSON."""
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
        by_name |= {queue.name: queue for queue in map(Figures.of_row, rows)}
    return chosen(by_name.values(), names, strict=strict)


def pause_or_resume(options: argparse.Namespace, target: Target) -> int:
    """Send the statement that the command is named after."""
    with Link(target, options.command) as link:
        name = link.named(options.names[0])
        link.change(f"ALTER QUEUE {name.sql} {options.command.upper()}")
    text = outcome_object(options.command, name) if options.json else f"{name} {_DONE[options.command]}\n"
    sys.stdout.write(text)
    return 0


def purge(options: argparse.Namespace, target: Target) -> int:
    """Delete all messages of a queue, once its name has been typed, or with --yes at once."""
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
                            ("retrying", "waiting for a retry"), ("parked", "parked"), ("acked", "acked"))
    )  # fmt: skip
    sys.stderr.write(f"{name} holds {counts}. All of it is deleted, for good.\n")
    sys.stderr.write(f"Type {str(QueueRef(name.table))!r} to go on: ")
    sys.stderr.flush()
    typed = sys.stdin.readline().rstrip("\r\n")
    if typed not in (name.table, str(QueueRef(name.table)), str(name)):
        if not sys.stdin.isatty():
            sys.stderr.write("\n")
        raise ConsoleError("that is not its name: nothing was deleted (--yes does not ask)")


def redrive(options: argparse.Namespace, target: Target) -> int:
    """Put dead letters back into their queue, and print how many. The condition is the operator's own SQL, with the
    rights of the account."""
    where = "" if options.where is None else f" WHERE {options.where}"
    if where and not options.where.strip():
        raise ConsoleError("--where is empty; without it all dead letters are put back", status=2)
    limit = "" if options.limit is None else f"\nLIMIT {options.limit}"  # the condition may end with a comment
    with Link(target, "redrive") as link:
        name = link.named(options.names[0])
        moved = link.change(f"REDRIVE {name.sql}{where}{limit}", of_user=bool(where))
    if options.json:
        sys.stdout.write(outcome_object("redrive", name, moved=moved))
    else:
        sys.stdout.write(f"{moved} {'message was' if moved == 1 else 'messages were'} put back from {name}\n")
    return 0
