"""What the command line does with a process: serves, checks a configuration, hashes a password.

The parser is in `queuegate.command_line`, which loads this module only once it knows the command: `--version` and
`--help` wait for no library.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import logging
import os
import secrets
import string
import sys
import threading
from collections.abc import Callable, Mapping
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING

from engine.backend import url
from engine.model.errors import EngineError
from proxy import logs, os_process
from proxy.config import Config, ConfigError, file_of, load
from proxy.exposed_files import exposed_files
from proxy.login import accounts
from proxy.login.sha256_crypt import sha256_crypt
from proxy.os_process import then_ignore_them
from proxy.release import is_compiled, release
from proxy.systemd import NO_ADDRESSES, Handed, Notifier, addresses_of, handed_sockets
from proxy.transport.addresses import Address

if TYPE_CHECKING:
    from proxy.listen.listener import WorkerSlot

logger = logging.getLogger("queuegate")

_FLAGS = {
    "listen": "listen", "backend": "backend", "wait_for_backend": "wait_for_backend", "log_level": "log.level",
    "log_format": "log.format", "console": "console.listen",
}  # fmt: skip

_LATE_SECONDS = 5.0  # beyond the grace time, for what an orderly end has to write


def guarded(run: Callable[[], int]) -> int:
    """The exit code of `run`; a failure is reported in one line."""
    try:
        return run()
    except ConfigError as error:
        for mistake in error.mistakes:
            _print_error(mistake)
        return 2
    except OSError as error:
        _print_error(_os_error(error))
    except EngineError as error:
        _print_error(error.message)
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, what a shell reports for a process ended by Ctrl-C
    return 1


def _load(options: argparse.Namespace, addresses: Mapping[str, str] = NO_ADDRESSES) -> Config:
    flags = {key: getattr(options, flag) for flag, key in _FLAGS.items() if getattr(options, flag, None) is not None}
    return load(options.config, {**flags, **addresses})


def serve(options: argparse.Namespace) -> int:
    """`queuegate serve`: until SIGTERM or Ctrl-C. Raises ConfigError, OSError, EngineError."""
    os_process.separate_large_blocks()
    handed, notifier = handed_sockets(os.environ), Notifier.of(os.environ)
    # What is safe depends on who can connect: an account without a password is for a loopback address only.
    config = _load(options, addresses_of(handed))
    logs.configure(config.log)
    file = file_of(options.config)
    from console.process import console_of
    from queuegate import app  # here, because it loads all there is, which a mistake need not wait for

    if config.workers > 1:
        return _supervise(config, file, handed, notifier, console_needed=options.console is None)
    console = console_of(config, handed, needed=options.console is None)
    os_process.spare_what_exists()

    def ready(serving: app.RunningProxy) -> None:
        _announce(config, file, serving.address)
        notifier.ready()
        notifier.beat_by(asyncio.get_running_loop().call_later)

    def ending() -> None:
        notifier.stopping()
        _end_in_time(config)

    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            serving = app.serve(config, ready=ready, ending=ending, handed=handed, console=console)
            runner.run(then_ignore_them(serving))
    finally:
        if console is not None:
            console.end()  # it has a folder, also where the start failed
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


def _supervise(config: Config, file: Path | None, handed: Handed, notifier: Notifier, *, console_needed: bool) -> int:
    """Serve with several processes."""
    from console.process import console_of
    from proxy.cluster.supervisor import Supervisor
    from proxy.listen.listener import WorkerSlot
    from queuegate import app

    sockets, admin = app.listening(config, handed)
    address = app.address_of(sockets, config.listen)
    console = console_of(config, handed, needed=console_needed)

    def ready() -> None:
        _announce(config, file, address)
        notifier.ready()
        if console is not None:
            console.serve(address)

    tallies = app.tallies(config)
    private = [] if console is None else [console.counters]
    supervisor = Supervisor(
        tallies,
        WorkerSlot(sockets, tallies.of(0), admin=[*admin, *private]),
        lambda slot: guarded(lambda: _work(config, slot)),
        ready,
        notifier,
        grace_seconds=config.shutdown_grace,
        side_process=console,
    )
    try:
        return supervisor.run()
    finally:
        if console is not None:
            console.end()


def _work(config: Config, place: WorkerSlot) -> int:
    """One worker's life, in a process of its own."""
    from queuegate import app

    logs.configure(config.log, worker=place.worker)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(then_ignore_them(app.serve(config, place, ending=lambda: _end_in_time(config))))
    return 0


def _announce(config: Config, file: Path | None, address: Address) -> None:
    """The warnings come first: who waits for the line that it listens has them all. Before the start has succeeded
    there are none: a path may be mistyped, and `chmod` is no advice for /tmp."""
    backend = config.backend
    for exposed in exposed_files(config, file):
        logger.warning("%s", exposed)
    unlimited = [user.name for user in config.accounts if user.queues is None and user.topics is None]
    if unlimited and not backend.embedded:
        logger.warning(
            "users without 'queues' and 'topics' may do everything that the account of the backend's URL may",
            extra={"users": ", ".join(unlimited), "account": backend.user},
        )
    if config.peers.enabled and config.peers.listen is not None and not backend.database:
        logger.warning("there are no peers: the backend's URL names no database, in which proxies find each other")
    kind = "sqlite" if backend.embedded else "mysql"
    logger.info(
        "listening on %s",
        address,
        extra={
            "backend": kind,
            "url": backend,
            "auth": config.auth_mode.value,
            "version": release(),
            "code": "compiled" if is_compiled(url) else "python",
        },
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


def check_config(options: argparse.Namespace) -> int:
    """`queuegate check-config`. Raises ConfigError."""
    try:
        _load(options)
    except ConfigError as error:
        if not options.json:
            raise
        sys.stdout.write(json.dumps({"command": "check-config", "ok": False, "mistakes": list(error.mistakes)}) + "\n")
        return 2
    good = json.dumps({"command": "check-config", "ok": True, "mistakes": []})
    sys.stdout.write(f"{good}\n" if options.json else "OK\n")
    return 0


def hash_password(options: argparse.Namespace) -> int:
    """`queuegate hash-password`."""
    try:
        password = (getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")).encode()
    except EOFError:
        password = b""
    except UnicodeError:
        raise ConfigError(["the password is not UTF-8"]) from None
    if not password:
        raise ConfigError(["the password is empty"])
    hashed = _native_hash(password) if options.plugin == accounts.NATIVE else _sha2_hash(password)
    result = {"command": "hash-password", "plugin": options.plugin, "password_hash": hashed}
    sys.stdout.write(f"{json.dumps(result) if options.json else hashed}\n")
    return 0


def _native_hash(password: bytes) -> str:
    return "*" + sha1(sha1(password).digest()).hexdigest().upper()


def _sha2_hash(password: bytes) -> str:
    """As MySQL stores it: the rounds in thousands, a salt of 20 characters, the digest."""
    salt = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(20))
    return f"$A$005${salt}{sha256_crypt(password, salt.encode(), 5000).decode()}"


def _os_error(error: OSError) -> str:
    """One line for a refusal of the system; asyncio's own text for a taken port is already good."""
    return f"{error.filename}: {error.strerror}" if error.filename is not None else str(error.strerror or error)


def _print_error(line: str) -> None:
    sys.stderr.write(f"queuegate: {line}\n")
