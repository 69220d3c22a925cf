"""`queuegate-work 'app.tasks:handle' --queue orders --concurrency 8`: the worker as a command.

Exit codes: 0 stopped in order; 1 it could not start or continue, or handlers did not end in the grace time; 2 a mistake
in the command line. The reason is one line on stderr.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from queuegate_worker.address import Address
from queuegate_worker.errors import WorkerError
from queuegate_worker.hooks import Hooks
from queuegate_worker.mysql_client.option_files import (
    OPTIONS,
    SSL_MODES,
    OptionFileError,
    connection_values,
    encryption,
    port_of,
    prompt_password,
)
from queuegate_worker.processes.child import Parent, StateHooks
from queuegate_worker.processes.health import PATH, parse_listen, served
from queuegate_worker.processes.supervisor import Supervisor, Wanted, watched
from queuegate_worker.statements import KEYS, SHARED_KEYS, seconds_of
from queuegate_worker.tasks.task import tasks_in
from queuegate_worker.tasks.work import TaskWork, create, queues_of
from queuegate_worker.worker import Worker, leave_process

logger = logging.getLogger("queuegate_worker")

_PROCESSES_MAX = 256
_NO_SUCH_QUEUE = "ERROR 1146"
_DISTRIBUTIONS = ("queuegate-worker", "queuegate")  # the worker is in both

_EPILOG = """\
HANDLER is module:function, found from the current folder: the function takes the message, or the message and the
transaction. Or it is a module with functions that are tasks (@task). The URL has the form
mysql://USER:PASSWORD@HOST:PORT/DATABASE. Give it, or at least the password, in the environment (QUEUEGATE_URL,
MYSQL_PWD), for other users of the machine may see a command line. Without a URL the options of the mysql client say
where to connect; they may stand in ~/.my.cnf, in the groups [client] and [queuegate].
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "handler", metavar="HANDLER", help="a function (app.tasks:handle), or a module of tasks (app.tasks)"
    )
    parser.add_argument(
        "--queue", metavar="QUEUE", help="`queue` or `database.queue`; of tasks also several, by commas (default: all)"
    )
    parser.add_argument("--create", action="store_true", help="make what the tasks need in the database, and end")
    parser.add_argument("--url", metavar="URL", help="the proxy and the account (default: QUEUEGATE_URL)")
    _add_connecting(parser)
    parser.add_argument("--concurrency", type=int, default=1, metavar="N", help="handlers at a time (default: 1)")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument("--health", metavar="HOST:PORT", help="serve /healthz: 200 while every process receives")
    parser.add_argument("--autoreload", action="store_true", help="restart when a Python file here changes")
    parser.add_argument("--batch", type=int, metavar="N", help="give the handler lists of up to N messages")
    parser.add_argument(
        "--ack-wait",
        type=_seconds,
        metavar="SECONDS",
        help="the length of a lease, which is renewed, such as 90 or 5m (default: the queue's)",
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
        "--grace", type=_seconds, default=25.0, metavar="SECONDS", help="for running handlers at SIGTERM (default: 25)"
    )
    parser.add_argument(
        "--key-range", metavar="RANGE", help="receive this part of the queue's ring, such as -80 (default: everything)"
    )
    parser.add_argument(
        "--keys",
        choices=KEYS,
        default=SHARED_KEYS,
        help="sticky: this worker gets the messages of its keys, and others if they wait; exclusive: of its keys alone",
    )
    parser.add_argument("--hooks", metavar="CLASS", help="module:class of hooks for metrics and traces")
    parser.add_argument("--drain", action="store_true", help="end when nothing is due")
    parser.add_argument(
        "--log-level", choices=["debug", "info", "warning", "error"], default="info", help="least severe log records"
    )
    parser.add_argument("--json", action="store_true", help="log records as objects, one per line")


def _add_connecting(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where it connects without a URL, as the mysql client has it")
    group.add_argument("-h", "--host", metavar="HOST", help="default: 127.0.0.1")
    group.add_argument("-P", "--port", type=_port, metavar="PORT", help="default: 3307")
    group.add_argument("-u", "--user", metavar="USER", help="default: root")
    group.add_argument(
        "-p", "--password", metavar="SECRET", help="attached (-pSECRET), where others can see it; -p alone asks"
    )
    group.add_argument("--ask-password", action="store_true", help=argparse.SUPPRESS)
    group.add_argument("-D", "--database", metavar="DB", help="the database of a queue that is named without one")
    group.add_argument("-S", "--socket", metavar="FILE", help="a Unix socket in place of host and port")
    group.add_argument("--ssl-ca", metavar="FILE", help="encrypt, and accept only a certificate signed by these CAs")
    group.add_argument("--ssl-cert", metavar="FILE", help="the worker's own certificate")
    group.add_argument("--ssl-key", metavar="FILE", help="its private key, if it is not in the same file")
    group.add_argument("--ssl-mode", type=str.lower, choices=SSL_MODES, help="as the mysql client has it")
    group.add_argument("--defaults-file", metavar="FILE", help="read this file in place of ~/.my.cnf")
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and end")
    parser.add_argument("--help", action="help", help="show this help and end")


class _Version(argparse.Action):
    """`--version`: the version of the installed wheel."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        name = next((name for name in _DISTRIBUTIONS if _installed(name)), None)
        sys.stdout.write(f"queuegate-work {'of no installed package' if name is None else metadata.version(name)}\n")
        parser.exit()


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _seconds(text: str) -> float:
    try:
        return seconds_of(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration, such as 90, 30s, 5m or 1h") from None


def _port(text: str) -> int:
    try:
        return port_of(text, "--port")
    except OptionFileError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def connection_target(options: argparse.Namespace, environment: Mapping[str, str], home: Path) -> str | Address:
    """A URL, or an address from the options and option files. Raises WorkerError; OSError for a file that cannot be
    read."""
    keys = (*OPTIONS, "defaults-file")
    if options.ask_password or any(getattr(options, key.replace("-", "_")) is not None for key in keys):
        if options.url:
            raise WorkerError("--url says where to connect: leave out the other options, or the URL")
    elif url := options.url or environment.get("QUEUEGATE_URL"):
        return str(url)
    return _address_of_options(options, environment, home)


def _address_of_options(options: argparse.Namespace, environment: Mapping[str, str], home: Path) -> Address:
    try:
        values = connection_values(options, environment, home)
        password = prompt_password() if values["password"] is None else values["password"]
        secure = encryption(values)
    except OptionFileError as error:
        raise WorkerError(str(error)) from error
    fields = {key: values[key] for key in ("host", "port", "user", "database") if key in values}
    socket = {"unix_socket": values["socket"]} if values.get("socket") else {}
    return Address(**fields, password=password, options={**socket, **secure})


class JsonLines(logging.Formatter):
    """One JSON object for each record, with the field names of the proxy's log."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as a line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def _log(options: argparse.Namespace) -> None:
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if options.json else text)
    logging.basicConfig(level=options.log_level.upper(), handlers=[handler])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="queuegate-work",
        description="Handle messages of a queue until SIGTERM or Ctrl-C.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,  # -h is the host
    )
    add_options(parser)
    words = sys.argv[1:] if arguments is None else list(arguments)
    # As in the mysql client: `-p` without an attached value prompts; the next word is not the password.
    options = parser.parse_args(["--ask-password" if each in ("-p", "--password") else each for each in words])
    options.words, options.own_process = words, arguments is None
    return run(options)


def run(options: argparse.Namespace) -> int:
    """Run with these options; returns the exit code."""
    _log(options)
    sys.path.insert(0, str(Path.cwd()))
    try:
        if not 1 <= options.processes <= _PROCESSES_MAX:
            raise WorkerError(f"--processes is {options.processes}; it is a number from 1 to {_PROCESSES_MAX}")
        parent = Parent.of_environment(os.environ)
        if parent is None and _is_supervised(options):
            return _supervise(options)
        return _work(options, parent)
    except WorkerError as error:
        sys.stderr.write(f"queuegate-work: {error}\n")
        return 2
    except OSError as error:
        if error.filename is None:
            raise
        sys.stderr.write(f"queuegate-work: {error.filename}: {error.strerror}\n")
        return 1


def _is_supervised(options: argparse.Namespace) -> bool:
    """Whether the handlers run in processes of their own: always for tasks, whose time limits may end a process."""
    if options.create:
        return False
    of_tasks = ":" not in options.handler
    return bool(of_tasks or options.processes > 1 or options.health or options.autoreload)


def _supervise(options: argparse.Namespace) -> int:
    """Run the same command in child processes. Raises WorkerError, OSError."""
    listen = parse_listen(options.health) if options.health else None
    if options.ask_password:
        raise WorkerError("-p asks for a password, which several processes cannot: give it in MYSQL_PWD or ~/.my.cnf")
    wanted = Wanted(
        [sys.executable, "-m", "queuegate_worker", *options.words],
        os.environ,
        options.processes,
        options.grace,
        drain=options.drain,
        reload=options.autoreload,
    )
    supervisor = Supervisor(wanted)
    with ExitStack() as around:
        if listen is not None:
            try:
                port = around.enter_context(served(listen, supervisor.report))
            except OSError as error:
                raise WorkerError(f"--health {options.health}: {error.strerror}") from None
            logger.info("health page on port %d: %s", port, PATH)
        if options.autoreload:
            around.enter_context(watched(Path.cwd(), supervisor.program_changed))
        return supervisor.run()


def _work(options: argparse.Namespace, parent: Parent | None) -> int:
    """Work in this process. Raises WorkerError for a mistake in the command line, OSError."""
    target = connection_target(options, os.environ, Path.home())
    hooks = import_object(options.hooks)() if options.hooks else Hooks()

    def new_worker(queue: str) -> Worker:
        return Worker(
            target,
            queue,
            concurrency=options.concurrency,
            batch=options.batch,
            ack_wait=options.ack_wait,
            lease=options.lease,
            consumer=options.consumer,
            grace=options.grace,
            hooks=hooks if parent is None else StateHooks(parent, queue, hooks),
            key_range=options.key_range,
            keys=options.keys,
        )

    if ":" not in options.handler:
        module = import_module(options.handler)
        tasks = tasks_in(module)
        if options.create:
            return _ended(lambda: create(target, tasks.values(), sys.stdout.write))
        if options.batch is not None:
            raise WorkerError("a task takes one message: leave out --batch")
        work = TaskWork(target, tasks, queues_of(options.queue, tasks), new_worker, parent)
        return _left(options, _ended(lambda: work.run(drain=options.drain), "; --create makes it"))
    if options.create:
        raise WorkerError("--create makes the queues of tasks: give the module of the tasks, such as app.tasks")
    if not options.queue or "," in options.queue:
        raise WorkerError("a handler has one queue: give --queue")
    worker, handle = new_worker(options.queue), import_object(options.handler)
    if parent is not None:
        parent.on_gone(worker.stop)
    return _left(options, _ended(lambda: worker.run(handle, drain=options.drain)))


def _left(options: argparse.Namespace, code: int) -> int:
    """The exit code. A process of the command's own in which handlers may still run ends here."""
    if options.own_process and code != 0:
        leave_process(code)
    return code


def _ended(work: Callable[[], int | None], no_queue: str = "") -> int:
    """The exit code of a worker that has run. `no_queue`: what to do where the queue is missing."""
    try:
        return work() or 0
    except WorkerError as error:
        hint = no_queue if _NO_SUCH_QUEUE in str(error) else ""
        sys.stderr.write(f"queuegate-work: {error}{hint}\n")
        return 1
    except KeyboardInterrupt:
        return 130  # a second Ctrl-C


def import_module(name: str) -> ModuleType:
    """Imports a module. Raises WorkerError; an error inside the module is shown as it is."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        hint = "; a module is named without '.py'" if name.endswith(".py") else ""
        raise WorkerError(f"there is no module {error.name!r}, looked for from {Path.cwd()}{hint}") from None
    except (TypeError, ValueError):  # the name is empty, or begins with a point
        raise WorkerError(f"{name!r} is no name of a module") from None


def import_object(name: str) -> Callable[..., Any]:
    """Imports the object named by `module:function`. Raises WorkerError; an error inside the module is shown as it
    is."""
    module_name, colon, path = name.partition(":")
    if not colon or not module_name or not path:
        raise WorkerError(f"{name!r} is no name of a function; it is module:function, such as app.tasks:handle")
    value: Any = import_module(module_name)
    for part in path.split("."):
        if not hasattr(value, part):
            raise WorkerError(f"the module {module_name!r} has no {path!r}")
        value = getattr(value, part)
    return value  # type: ignore[no-any-return]
