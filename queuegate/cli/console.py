"""`queuegate console`: the web console as a program, a client of any proxy; `queuegate serve` starts it so, too."""

from __future__ import annotations

import argparse
import logging
import os
import socket
from pathlib import Path

from console.sampler import connection_to
from console.server import run as serve
from console.settings import ConsoleSettings, ProxyPlace
from proxy import logs
from proxy.config import Console, Log, LogFormat, LogLevel, console_mistakes
from proxy.config_values import read_address, read_public_url
from proxy.listen.listener import bind
from queuegate.cli.commands import guarded
from queuegate.cli.connecting import Target, encryption, target_of
from queuegate.cli.failures import ConsoleError

log = logging.getLogger("queuegate")


def run(options: argparse.Namespace) -> int:
    """The exit code: 0 after SIGTERM, 1 where it cannot listen, 2 for a mistake in the command line."""
    return guarded(lambda: _run(options, target_of(options, os.environ, Path.home())))


def _run(options: argparse.Namespace, target: Target) -> int:
    logs.configure(Log(level=LogLevel(options.log_level), format=LogFormat(options.log_format)))
    try:
        listen, public_url = read_address(options.listen), read_public_url(options.public_url)
    except ValueError as error:
        raise ConsoleError(f"--listen or --public-url {error}", status=2) from error
    try:
        if options.metrics_url is not None:
            connection_to(options.metrics_url)
    except ValueError as error:
        raise ConsoleError(f"--metrics-url {error}", status=2) from error
    config = Console(
        listen=listen,
        certificate=options.certificate,
        key=options.key,
        public_url=public_url,
        behind_proxy=options.behind_proxy,
    )
    for mistake in console_mistakes(config):
        raise ConsoleError(mistake, status=2)
    settings = ConsoleSettings(
        listen,
        ProxyPlace(target.host, target.port, target.socket, encryption(target)),
        options.metrics_url,
        options.certificate,
        options.key,
        public_url,
        options.behind_proxy,
        options.login_failures,
    )
    try:
        sockets = _sockets(options, settings)
    except OSError as error:
        raise ConsoleError(str(error.strerror or error)) from error
    serve(settings, sockets, options.parent)
    return 0


def _sockets(options: argparse.Namespace, settings: ConsoleSettings) -> list[socket.socket]:
    """Those that the parent process has bound, or new ones."""
    if options.descriptors is not None:
        return [socket.socket(fileno=int(each)) for each in options.descriptors.split(",")]
    sockets = bind(settings.listen)
    port = sockets[0].getsockname()[1]
    log.info("console on %s", settings.public_url or f"{settings.scheme}://{settings.listen._replace(port=port)}")
    return sockets
