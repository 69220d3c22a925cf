"""The command line: `queuegate serve`, `check-config`, `hash-password`, and the operator's commands of `queuegate.cli`.

Exit codes: 0 done; 1 could not start or go on (one line on standard error); 2 a mistake in the command line or the
configuration (every mistake on a line of its own).

Only argparse is loaded here, and what a command needs once it is known (`queuegate.process`, `queuegate.cli`):
shells and scripts ask for `--version` and `--help` often, and the libraries take ten times as long as the answer.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from queuegate.cli.arguments import (
    LOG_FORMATS,
    LOG_LEVELS,
    PLUGINS,
    add_commands,
    add_completion,
    with_password_prompt,
    with_worker_apart,
)

_EPILOG = """\
The environment goes over both file and flags, for secrets:
  QUEUEGATE_BACKEND           the backend URL with its password
  QUEUEGATE_PEERS_SECRET      what proves one proxy to another, besides the table queuegate_proxies
  QUEUEGATE_PASSWORD_<USER>   the password of a user of the list (app-1: QUEUEGATE_PASSWORD_APP_1)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    argv = with_worker_apart(with_password_prompt(sys.argv[1:] if arguments is None else arguments))
    options = parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = options.run
    from queuegate import process

    return process.guarded(lambda: command(options))


class _Version(argparse.Action):
    """`--version`: the version is looked up only where it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from proxy.release import release

        sys.stdout.write(f"queuegate {release()}\n")
        parser.exit()


class _Parser(argparse.ArgumentParser):
    """One that asks whether another word was meant."""

    def error(self, message: str) -> NoReturn:
        if wrong := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
            import difflib

            near = difflib.get_close_matches(wrong[1], re.findall(r"[\w-]+", wrong[2]), 1)
            message += f"; did you mean '{near[0]}'?" if near else ""
        super().error(message)


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    whole = _Parser(
        prog="queuegate", description="A durable, transactional message queue in plain SQL, for any MySQL client."
    )
    whole.add_argument("--version", action=_Version, nargs=0, help="show the version and end")
    commands = whole.add_subparsers(title="commands", required=True, metavar="COMMAND")

    serve = _command(commands, "serve", _serve, "accept MySQL clients until SIGTERM or Ctrl-C")
    _add_config_flags(serve)
    serve.add_argument(
        "--json", action="store_const", const="json", dest="log_format", help="the same as --log-format json"
    )
    serve.add_argument(
        "--console", metavar="HOST:PORT", help="open the web console there, such as 127.0.0.1:8307, if the port is free"
    )

    check = _command(commands, "check-config", _check_config, "validate the configuration and name every mistake")
    _add_config_flags(check)
    check.add_argument("--json", action="store_true", help="print an object, with every mistake, for programs")

    hashing = _command(
        commands, "hash-password", _hash_password, "print the password_hash of a password read from standard input"
    )
    hashing.add_argument(
        "--plugin",
        choices=PLUGINS,
        default=PLUGINS[0],
        help="how the account logs in: every client but those of MySQL 9 knows the default, mysql_native_password",
    )
    hashing.add_argument("--json", action="store_true", help="print an object, for programs")
    add_commands(commands, _operate)
    add_completion(commands, _completion)
    return whole


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], description: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=description,
        description=description[0].upper() + description[1:] + ".",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def _add_config_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration file (default: config.yaml here, where there is one)"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="address to listen on (default: 127.0.0.1:3307)")
    parser.add_argument(
        "--backend",
        metavar="URL",
        help="sqlite:///path/queue.db or mysql://user@host:3306/db; give passwords in QUEUEGATE_BACKEND",
    )
    parser.add_argument(
        "--wait-for-backend",
        metavar="DURATION",
        help="how long to wait for a database server that is not there yet, such as 60s (default: the start fails)",
    )
    parser.add_argument("--log-level", choices=LOG_LEVELS, help="least severe log records")
    parser.add_argument("--log-format", choices=LOG_FORMATS, help="form of log records")


def _serve(options: argparse.Namespace) -> int:
    from queuegate import process

    return process.serve(options)


def _check_config(options: argparse.Namespace) -> int:
    from queuegate import process

    return process.check_config(options)


def _hash_password(options: argparse.Namespace) -> int:
    from queuegate import process

    return process.hash_password(options)


def _operate(options: argparse.Namespace) -> int:
    """One of the operator's commands, or the console."""
    if options.command == "console":
        from queuegate.cli import console  # by itself, because it loads a web server

        return console.run(options)
    from queuegate.cli import commands  # here, because it loads a client, which serving does without

    return commands.run(options)


def _completion(options: argparse.Namespace) -> int:
    from queuegate.cli import commands

    return commands.run_completion(parser(), options)


if __name__ == "__main__":
    sys.exit(main())
