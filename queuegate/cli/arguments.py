"""The options of the operator's commands, as argparse has them. It imports nothing else: `queuegate serve` loads it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

STATES = ("any", "ready", "scheduled", "in-flight", "dead")
SORTS = ("ready", "name", "flight", "later", "dead", "lag", "receivers", "oldest", "enqueued", "acked")
# Repeated here, because the modules that define them load what `--help` need not wait for.
SSL_MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")
PLUGINS = ("mysql_native_password", "caching_sha2_password")
SHELLS = ("bash", "zsh", "fish")
CONNECTING = ("status", "top", "peek", "redrive", "pause", "resume", "purge", "bench", "console")
"""The commands that talk to a proxy."""

_EPILOG = """\
QUEUE is `queue` or `database.queue`; a part with a point in it stands in back-quotes.
Options may stand in ~/.my.cnf, in the groups [client] and [queuegate]; MYSQL_PWD may bring the password.
"""

_OBJECT = "an object"

CLIENTS_MAX = 256
"""Of a kind in a benchmark: each is a process of some ten megabytes."""
BATCH_MAX = 10_000
"""The most that the option `batch_size` of a queue takes."""
SIZE_MAX = 8 << 20
SECONDS_MAX = 600
"""Of a part of a benchmark, which remembers each of its messages: some hundred megabytes by then."""
RATE_MAX = 100_000

Run = Callable[[argparse.Namespace], int]


def add_commands(commands: Any, run: Run) -> None:
    """Add the operator's commands to the subparsers of `queuegate`. `run` gets the options of each."""
    status = _connecting(commands, run, "status", "one line for each queue: what waits, what is out, what has failed")
    status.add_argument("queues", nargs="*", metavar="QUEUE", help="only these (default: all of the database)")
    _add_json(status)

    _add_top(_connecting(commands, run, "top", "watch the queues, with rates, until q is pressed"))
    _add_peek(_connecting(commands, run, "peek", "show messages without receiving them"))

    redrive = _connecting(commands, run, "redrive", "put dead letters back into the queue that they come from")
    redrive.add_argument("queue", metavar="QUEUE_DEAD", help="the dead-letter queue")
    redrive.add_argument("--limit", type=_count, metavar="N", help="at most so many, the oldest first (default: all)")
    redrive.add_argument(
        "--where", metavar="SQL", help="only those for which it is true: \"last_error LIKE 'HTTP 5%%'\""
    )
    _add_json(redrive, _OBJECT)

    for name, what in (
        ("pause", "have a queue accept messages and deliver none"),
        ("resume", "have a paused queue deliver again"),
    ):
        changing = _connecting(commands, run, name, what)
        changing.add_argument("queue", metavar="QUEUE", help="the queue")
        _add_json(changing, _OBJECT)

    purge = _connecting(commands, run, "purge", "delete all messages of a queue; asks for its name first")
    purge.add_argument("queue", metavar="QUEUE", help="the queue")
    purge.add_argument("--yes", action="store_true", help="do not ask")
    _add_json(purge, _OBJECT)

    _add_bench(_connecting(commands, run, "bench", "measure messages a second and latency, with a queue of its own"))
    _add_console(_connecting(commands, run, "console", "open the web console, a client of a proxy that runs"))

    work = _command(
        commands,
        run,
        "work",
        "handle messages with a function in Python (pip install queuegate-worker)",
        add_help=False,
    )
    work.add_argument("arguments", nargs=argparse.REMAINDER, help="as for queuegate-work; --help lists them")

    init = _command(commands, run, "init", "write a configuration file with every key, its default and what it does")
    init.add_argument(
        "file", nargs="?", default="config.yaml", metavar="FILE", help="default: config.yaml; -: print it"
    )
    init.add_argument("--force", action="store_true", help="overwrite the file if it is there")
    _add_json(init, _OBJECT)


def add_completion(commands: Any, run: Run) -> None:
    """Add `completion`, which needs the whole parser and is therefore run by its owner."""
    completion = _command(commands, run, "completion", "print the script by which a shell completes this command line")
    completion.add_argument("shell", choices=SHELLS, help="the shell")
    _add_json(completion, _OBJECT)


def with_worker_apart(arguments: Sequence[str]) -> list[str]:
    """What follows `work` is read by the worker, options included."""
    listed = list(arguments)
    return ["work", "--", *listed[1:]] if listed[:1] == ["work"] else listed


def with_password_prompt(arguments: Sequence[str]) -> list[str]:
    """As the mysql client has it: `-p` without a value attached asks, and what follows is no password."""
    listed = list(arguments)
    if not listed or listed[0] not in CONNECTING:
        return listed
    end = listed.index("--") if "--" in listed else len(listed)
    return ["--ask-password" if a in ("-p", "--password") and i < end else a for i, a in enumerate(listed)]


def _command(commands: Any, run: Run, name: str, description: str, **options: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=description,
        description=description[0].upper() + description[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        **options,
    )
    parser.set_defaults(run=run, command=name)
    return parser


def _connecting(commands: Any, run: Run, name: str, description: str) -> argparse.ArgumentParser:
    """A command that logs in; -h is its host, as in the mysql client."""
    parser = _command(commands, run, name, description, add_help=False, epilog=_EPILOG)
    group = parser.add_argument_group("where it connects, as the mysql client has it")
    group.add_argument("-h", "--host", metavar="HOST", help="default: 127.0.0.1")
    group.add_argument("-P", "--port", type=_port, metavar="PORT", help="default: 3307")
    group.add_argument("-u", "--user", metavar="USER", help="default: root")
    group.add_argument(
        "-p", "--password", metavar="SECRET", help="attached (-pSECRET), where others can see it; -p alone asks"
    )
    group.add_argument("--ask-password", action="store_true", help=argparse.SUPPRESS)
    group.add_argument("-D", "--database", metavar="DB", help="the database that queues without one are in")
    group.add_argument("-S", "--socket", metavar="FILE", help="a Unix socket in place of host and port")
    group.add_argument(
        "--ssl-ca", metavar="FILE", help="encrypt, and accept a certificate for that host signed by these CAs only"
    )
    group.add_argument("--ssl-cert", metavar="FILE", help="the client's own certificate")
    group.add_argument("--ssl-key", metavar="FILE", help="its private key, if it is not in the same file")
    group.add_argument(
        "--ssl-mode",
        type=str.lower,
        choices=SSL_MODES,
        help="default: verify_identity with --ssl-ca, required with --ssl-cert, else preferred",
    )
    group.add_argument("--defaults-file", metavar="FILE", help="read this file in place of ~/.my.cnf")
    parser.add_argument("--help", action="help", help="show this help and end")
    return parser


def _add_json(parser: argparse.ArgumentParser, what: str = "a list of objects") -> None:
    parser.add_argument("--json", action="store_true", help=f"print {what}, for programs")


def _add_top(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queues", nargs="*", metavar="QUEUE", help="only these (default: all of the database)")
    parser.add_argument(
        "--interval", type=_interval, default=2.0, metavar="SECONDS", help="how often it looks (default: 2)"
    )
    parser.add_argument("--sort", choices=SORTS, default="ready", help="what comes first (default: ready)")
    parser.add_argument(
        "--count", type=_whole("frames"), metavar="N", help="print N frames, one each interval, and end"
    )
    parser.add_argument("--once", action="store_const", const=1, dest="count", help="the same as --count 1")
    parser.add_argument("--json", action="store_true", help="print an object for each frame, one per line")


def _add_bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="for inserting, for receiving, and for latency, each (default: 10)",
    )
    clients = _whole("clients", below=CLIENTS_MAX + 1)
    parser.add_argument("--producers", type=clients, default=4, metavar="N", help="who insert (default: 4)")
    parser.add_argument("--consumers", type=clients, default=4, metavar="N", help="who receive and ack (default: 4)")
    parser.add_argument(
        "--batch",
        type=_whole("messages of a batch", below=BATCH_MAX + 1),
        default=10,
        metavar="N",
        help="messages of one INSERT, and at most of one ACK (default: 10)",
    )
    parser.add_argument(
        "--size",
        type=_whole("bytes", below=SIZE_MAX + 1),
        default=200,
        metavar="BYTES",
        help="of a body (default: 200)",
    )
    parser.add_argument(
        "--rate", type=_rate, default=50.0, metavar="N", help="messages a second for the latency (default: 50)"
    )
    _add_json(parser, _OBJECT)


def _add_console(parser: argparse.ArgumentParser) -> None:
    """The pages ask for the login, so --user and --password have no effect."""
    group = parser.add_argument_group("the console")
    group.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:8307", help="where browsers connect (default: %(default)s)"
    )
    group.add_argument("--metrics-url", metavar="URL", help="the proxy's counters: http://host:9307/counters")
    group.add_argument("--certificate", metavar="FILE", help="TLS towards browsers: a PEM file")
    group.add_argument("--key", metavar="FILE", help="its private key, if it is not in the same file")
    group.add_argument("--public-url", metavar="URL", help="where browsers reach it, if not as it listens")
    group.add_argument("--behind-proxy", action="store_true", help="a proxy with TLS stands before it")
    group.add_argument(
        "--login-failures",
        type=int,
        default=100,
        metavar="N",
        help="limits.login_failures of the proxy; fewer are allowed here (default: %(default)s)",
    )
    group.add_argument("--log-level", choices=LOG_LEVELS, default="info", help="least severe log records")
    group.add_argument("--log-format", choices=LOG_FORMATS, default="text", help="form of log records")
    group.add_argument(
        "--json", action="store_const", const="json", dest="log_format", help="the same as --log-format json"
    )
    for name in ("--descriptors", "--parent"):  # of `queuegate serve`, which starts it
        group.add_argument(name, type=int if name == "--parent" else str, help=argparse.SUPPRESS)


def _add_peek(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queue", metavar="QUEUE", help="the queue")
    parser.add_argument("--limit", type=_count, default=10, metavar="N", help="at most so many (default: 10)")
    parser.add_argument(
        "--state",
        choices=STATES,
        default="any",
        help="any: all that are not acked (default); scheduled: also those that wait for a retry;"
        " dead: those of its dead-letter queue",
    )
    _add_json(parser)


def is_number(text: str, below: int) -> bool:
    """Whether it is a whole number from 1 on, below that."""
    return text.isascii() and text.isdigit() and 0 < int(text) < below


def is_port(text: str) -> bool:
    """Whether it is the number of a TCP port."""
    return is_number(text, 1 << 16)


def _port(text: str) -> int:
    if not is_port(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no port; it is a number from 1 to 65535")
    return int(text)


def _count(text: str) -> int:
    return _whole("messages")(text)


def _whole(what: str, below: int = 1 << 31) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not is_number(text, below):
            most = f" to {below - 1}" if below < 1 << 31 else ""
            raise argparse.ArgumentTypeError(f"{text!r} is no number of {what}; it is a whole number from 1{most}")
        return int(text)

    return read


def _interval(text: str) -> float:
    return _within(text, 0.1, 3600, "interval; it is 0.1 to 3600 seconds")


def _seconds(text: str) -> float:
    return _within(text, 0.1, SECONDS_MAX, f"time; it is 0.1 to {SECONDS_MAX} seconds")


def _rate(text: str) -> float:
    return _within(text, 0.1, RATE_MAX, f"rate; it is 0.1 to {RATE_MAX} messages a second")


def _within(text: str, least: float, most: float, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is no {what}")
    return number
