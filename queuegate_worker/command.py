"""`queuegate-work 'app.tasks:handle' --queue orders --concurrency 8`: the worker as a command.

Exit codes: 0 stopped in order; 1 it could not begin or go on; 2 a mistake in the command line. One line says why.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from queuegate_worker.errors import WorkerError
from queuegate_worker.hooks import Hooks
from queuegate_worker.worker import Worker

_URL = "mysql://root@127.0.0.1:3307"
_EPILOG = """\
HANDLER is module:function, found from the current folder. The function takes the message, or the message and the
transaction. The URL has the form mysql://USER:PASSWORD@HOST:PORT/DATABASE. Give it, or at least the password, in the
environment (QUEUEGATE_URL, MYSQL_PWD), for other users of the machine may see a command line.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    parser.add_argument("handler", metavar="HANDLER", help="what handles a message, such as app.tasks:handle")
    parser.add_argument("--queue", required=True, metavar="QUEUE", help="`queue` or `database.queue`")
    parser.add_argument("--url", metavar="URL", help=f"the proxy (default: QUEUEGATE_URL, else {_URL})")
    parser.add_argument("--concurrency", type=int, default=1, metavar="N", help="handlers at a time (default: 1)")
    parser.add_argument("--batch", type=int, metavar="N", help="give the handler lists of up to N messages")
    parser.add_argument(
        "--ack-wait",
        type=float,
        metavar="SECONDS",
        help="the length of a lease, which is renewed (default: the queue's)",
    )
    parser.add_argument(
        "--lease",
        choices=["connection", "time"],
        default="connection",
        help="when a worker is killed its messages go to others at once (default), or when their leases end",
    )
    parser.add_argument(
        "--consumer", metavar="NAME", help="the worker's name in SHOW SUBSCRIPTIONS (default: HOST:PID)"
    )
    parser.add_argument(
        "--grace", type=float, default=25.0, metavar="SECONDS", help="for running handlers at SIGTERM (default: 25)"
    )
    parser.add_argument("--hooks", metavar="CLASS", help="module:class of hooks for metrics and traces")
    parser.add_argument("--drain", action="store_true", help="end when nothing is due")
    parser.add_argument(
        "--log-level", choices=["debug", "info", "warning", "error"], default="info", help="least severe log records"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="queuegate-work",
        description="Handle messages of a queue until SIGTERM or Ctrl-C.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_options(parser)
    return run(parser.parse_args(arguments))


def run(options: argparse.Namespace) -> int:
    """Run with these options; returns the exit code."""
    logging.basicConfig(
        level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    sys.path.insert(0, str(Path.cwd()))
    try:
        handle = found(options.handler)
        hooks = found(options.hooks)() if options.hooks else Hooks()
        worker = Worker(
            options.url or os.environ.get("QUEUEGATE_URL") or _URL,
            options.queue,
            concurrency=options.concurrency,
            batch=options.batch,
            ack_wait=options.ack_wait,
            lease=options.lease,
            consumer=options.consumer,
            grace=options.grace,
            hooks=hooks,
        )
    except WorkerError as error:
        sys.stderr.write(f"queuegate-work: {error}\n")
        return 2
    try:
        worker.run(handle, drain=options.drain)
    except WorkerError as error:
        sys.stderr.write(f"queuegate-work: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130  # a second Ctrl-C
    return 0


def found(name: str) -> Callable[..., Any]:
    """What `module:function` names. Raises WorkerError; an error inside the module is shown as it is."""
    module_name, colon, path = name.partition(":")
    if not colon or not module_name or not path:
        raise WorkerError(f"{name!r} is no name of a function; it is module:function, such as app.tasks:handle")
    try:
        value: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise WorkerError(f"there is no module {error.name!r}, looked for from {Path.cwd()}") from None
    for part in path.split("."):
        if not hasattr(value, part):
            raise WorkerError(f"the module {module_name!r} has no {path!r}")
        value = getattr(value, part)
    return value  # type: ignore[no-any-return]
