"""The command line: `queuegate serve`, `check-config`, `hash-password`, and the operator's commands of `proxy.console`.

Exit codes: 0 done; 1 could not start or go on (one line on standard error); 2 a mistake in the command line or the
configuration (every mistake on a line of its own).
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import logging
import os
import secrets
import string
import sys
import threading
from collections.abc import Callable, Sequence
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.model.errors import EngineError
from proxy import logs, memory
from proxy.config import Config, ConfigError, LogFormat, LogLevel, load
from proxy.console.arguments import add_commands, add_completion, with_password_asked, with_worker_apart
from proxy.login import accounts
from proxy.login.sha256_crypt import sha256_crypt
from proxy.release import release
from proxy.transport.addresses import Address

if TYPE_CHECKING:
    from proxy.listen.listener import WorkerSlot

logger = logging.getLogger("queuegate")

_FLAGS = {
    "listen": "listen", "backend": "backend", "wait_for_backend": "wait_for_backend", "log_level": "log.level",
    "log_format": "log.format",
}  # fmt: skip

_LATE_SECONDS = 5.0  # beyond the grace time, for what an orderly end has to write

_EPILOG = """\
The environment goes over both file and flags, for secrets:
  QUEUEGATE_BACKEND           the backend URL with its password
  QUEUEGATE_PEERS_SECRET      what proves one proxy to another, besides the table queuegate_proxies
  QUEUEGATE_PASSWORD_<USER>   the password of a user of the list (app-1: QUEUEGATE_PASSWORD_APP_1)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = with_worker_apart(with_password_asked(sys.argv[1:] if arguments is None else arguments))
    options = _parser().parse_args(given)
    command: Callable[[argparse.Namespace], int] = options.run
    return _guarded(lambda: command(options))


def _guarded(run: Callable[[], int]) -> int:
    """The exit code of `run`; what it could not do is said in one line."""
    try:
        return run()
    except ConfigError as error:
        for mistake in error.mistakes:
            _complain(mistake)
        return 2
    except OSError as error:
        _complain(_os_error(error))
    except EngineError as error:
        _complain(error.message)
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, what a shell reports for a process ended by Ctrl-C
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="queuegate", description="A durable, transactional message queue in plain SQL, for any MySQL client."
    )
    parser.add_argument("--version", action="version", version=f"queuegate {release()}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    serve = _command(commands, "serve", _serve, "accept MySQL clients until SIGTERM or Ctrl-C")
    _add_config_flags(serve)

    check = _command(commands, "check-config", _check_config, "validate the configuration and name every mistake")
    _add_config_flags(check)

    hashing = _command(
        commands, "hash-password", _hash_password, "print the password_hash of a password read from standard input"
    )
    hashing.add_argument(
        "--plugin",
        choices=[accounts.NATIVE, accounts.CACHING_SHA2],
        default=accounts.NATIVE,
        help="how the account logs in: every client but those of MySQL 9 knows the default, mysql_native_password",
    )
    add_commands(commands, _console)
    add_completion(commands, _completion)
    return parser


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
    parser.add_argument("--log-level", choices=[level.value for level in LogLevel], help="least severe log records")
    parser.add_argument("--log-format", choices=[form.value for form in LogFormat], help="form of log records")


def _console(options: argparse.Namespace) -> int:
    """One of the operator's commands."""
    from proxy.console import commands  # here, because it loads a client, which serving does without

    return commands.run(options)


def _completion(options: argparse.Namespace) -> int:
    from proxy.console import commands

    return commands.run_completion(_parser(), options.shell)


def _load(options: argparse.Namespace) -> Config:
    flags = {key: getattr(options, flag) for flag, key in _FLAGS.items() if getattr(options, flag) is not None}
    return load(options.config, flags)


def _serve(options: argparse.Namespace) -> int:
    memory.keep_large_blocks_apart()
    config = _load(options)
    logs.configure(config.log)
    from proxy import app  # here, because it loads all there is, which a mistake or --help need not wait for

    if config.workers > 1:
        return _supervise(config)
    memory.spare_what_exists()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(
            app.serve(
                config,
                ready=lambda serving: _announce(config, serving.address),
                ending=lambda: _end_in_time(config),
            )
        )
    return 0


def _end_in_time(config: Config) -> None:
    """End the process when its orderly end takes too long: a statement may be where nothing interrupts it.

    The database file is safe: what was answered is durable, and the rest is undone when the file is opened again.
    """

    def end() -> None:
        logger.warning("a statement did not end in time: the process ends without it")
        logging.shutdown()
        os._exit(0)

    timer = threading.Timer(config.shutdown_grace + _LATE_SECONDS, end)
    timer.daemon = True
    timer.start()


def _supervise(config: Config) -> int:
    """Serve with several processes."""
    from proxy import app
    from proxy.cluster.supervisor import Supervisor
    from proxy.listen.listener import bind

    sockets, admin = bind(config.listen), app.bind_admin(config)
    address = app.address_of(sockets, config)
    supervisor = Supervisor(
        config.workers,
        sockets,
        app.tallies(config),
        work=lambda place: _guarded(lambda: _work(config, place)),
        ready=lambda: _announce(config, address),
        grace_seconds=config.shutdown_grace,
        admin=admin,
    )
    return supervisor.run()


def _work(config: Config, place: WorkerSlot) -> int:
    """One worker's life, in a process of its own."""
    from proxy import app

    logs.configure(config.log, worker=place.worker)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(app.serve(config, place, ending=lambda: _end_in_time(config)))
    return 0


def _announce(config: Config, address: Address) -> None:
    backend = config.backend
    kind = "sqlite" if backend.embedded else "mysql"
    logger.info(
        "listening on %s",
        address,
        extra={"backend": kind, "url": backend, "auth": config.auth_mode.value, "version": release()},
    )
    unlimited = [user.name for user in config.accounts if user.queues is None]
    if unlimited and not backend.embedded:
        logger.warning(
            "users without 'queues' may do everything that the account of the backend's URL may",
            extra={"users": ", ".join(unlimited), "account": backend.user},
        )
    host = "127.0.0.1" if address.host in ("0.0.0.0", "::") else address.host
    user = config.accounts[0].name if config.accounts else "USER"
    password = "" if config.accounts and config.accounts[0].passwordless else " -p"
    database = "main" if backend.embedded else backend.database or ""
    logger.info("connect with: mysql -h%s -P%d -u%s%s %s", host, address.port, user, password, database)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it exists: the relay is callbacks, and its loop calls them at half the cost."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _check_config(options: argparse.Namespace) -> int:
    _load(options)
    sys.stdout.write("OK\n")
    return 0


def _hash_password(options: argparse.Namespace) -> int:
    password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    hashed = _native_hash(password) if options.plugin == accounts.NATIVE else _sha2_hash(password)
    sys.stdout.write(f"{hashed}\n")
    return 0


def _native_hash(password: str) -> str:
    return "*" + sha1(sha1(password.encode()).digest()).hexdigest().upper()


def _sha2_hash(password: str) -> str:
    """As MySQL stores it: the rounds in thousands, a salt of 20 characters, the digest."""
    salt = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(20))
    return f"$A$005${salt}{sha256_crypt(password.encode(), salt.encode(), 5000).decode()}"


def _os_error(error: OSError) -> str:
    """One line of what the system refused; asyncio's own text for a taken port says it well already."""
    return f"{error.filename}: {error.strerror}" if error.filename is not None else str(error.strerror or error)


def _complain(line: str) -> None:
    sys.stderr.write(f"queuegate: {line}\n")


if __name__ == "__main__":
    sys.exit(main())
