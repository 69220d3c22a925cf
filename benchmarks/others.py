"""The servers of the others: private ones, in the folder where the database is too.

They have their own defaults but for what a benchmark has to set so that all promise the same; its report says so. Who
lacks a server or its Python client is named, with what to install.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import scratch

from benchmarks.processes import family
from tests.servers import find_binary, free_port, wait_until

START_SECONDS = 120.0


class DidNotStart(Exception):
    """A server did not say that it is ready; its last words are in the message."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Server:
    """One that runs. `version` says what is not its default, too."""

    port: int
    pid: int
    version: str


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of server: the programs that it needs, the module of its Python client, and Debian's package."""

    name: str
    programs: tuple[str, ...]
    client: str
    package: str
    start: Callable[[Path, contextlib.ExitStack], Server]


@dataclass(slots=True)
class Others(Generic[T]):
    """Who takes part, what they are (for the report's head), and who is absent."""

    found: list[T] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)


@contextlib.contextmanager
def others(wanted: Mapping[Kind, Callable[[Server], T]]) -> Iterator[Others[T]]:
    """Of these kinds all that this machine has; what is made of each server takes part."""
    rest: Others[T] = Others()
    with contextlib.ExitStack() as stack:
        for kind, made in wanted.items():
            missing = [program for program in kind.programs if _program(program) is None]
            if missing:
                rest.absent.append(f"{kind.name}, whose {missing[0]} is not installed (apt-get install {kind.package})")
            elif importlib.util.find_spec(kind.client) is None:
                rest.absent.append(
                    f"{kind.name}, whose Python client {kind.client} is not installed (pip install '.[rivals]')"
                )
            else:
                folder = Path(tempfile.mkdtemp(prefix="qg-rival-", dir=scratch.folder()))
                stack.callback(shutil.rmtree, folder, ignore_errors=True)
                try:
                    server = kind.start(folder, stack)
                except DidNotStart as error:
                    rest.absent.append(f"{kind.name}, which did not start: {error}")
                    continue
                rest.found.append(made(server))
                rest.versions[kind.name] = server.version
        yield rest


def _program(name: str) -> str | None:
    """Where it is: PostgreSQL and RabbitMQ keep theirs, for Debian, in folders of their own."""
    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), Path("/usr/lib/rabbitmq/bin")]
    inside = [str(path) for folder in folders if os.access(path := folder / name, os.X_OK)]
    return inside[-1] if inside else find_binary(name)


def _redis(folder: Path, stack: contextlib.ExitStack, *arguments: str) -> Server:
    port, program = free_port(), _program("redis-server")
    assert program is not None
    process = _started(stack, [program, "--port", str(port), "--bind", "127.0.0.1", *arguments], folder)
    _until(folder, "Ready to accept connections")
    version = re.search(r"v=(\S+)", _said([program, "--version"]))
    told = " ".join(arguments).replace("--", "") or "no append-only file"
    return Server(port, process.pid, f"{version[1] if version else ''}, {told}")


def _durable_redis(folder: Path, stack: contextlib.ExitStack) -> Server:
    return _redis(folder, stack, "--appendonly", "yes", "--appendfsync", "always")


def _rabbitmq(folder: Path, stack: contextlib.ExitStack) -> Server:
    port = free_port()
    return _broker(folder, stack, port, f"listeners.tcp.1 = 127.0.0.1:{port}\n", "[].\n")


def _rabbitmq_streams(folder: Path, stack: contextlib.ExitStack) -> Server:
    port = free_port()
    settings = (
        f"listeners.tcp = none\nstream.listeners.tcp.1 = 127.0.0.1:{port}\n"
        f"stream.advertised_host = 127.0.0.1\nstream.advertised_port = {port}\n"
    )
    return _broker(folder, stack, port, settings, "[rabbitmq_stream].\n")


def _broker(folder: Path, stack: contextlib.ExitStack, port: int, settings: str, plugins: str) -> Server:
    names = {"HOME": str(folder), "ERL_EPMD_PORT": str(free_port())}
    (folder / "rabbitmq.conf").write_text(settings)
    (folder / "enabled_plugins").write_text(plugins)
    own = {
        "NODENAME": f"bench{port}@localhost", "MNESIA_BASE": folder / "data", "LOG_BASE": folder / "logs",
        "CONFIG_FILE": folder / "rabbitmq.conf", "ENABLED_PLUGINS_FILE": folder / "enabled_plugins",
        "DIST_PORT": free_port(),
    }  # fmt: skip
    environment = {**os.environ, **names, **{f"RABBITMQ_{name}": str(value) for name, value in own.items()}}
    program, mapper = _program("rabbitmq-server"), _program("epmd")
    assert program is not None
    if mapper is not None:  # Erlang's port mapper, which the server starts and leaves behind
        stack.callback(subprocess.run, [mapper, "-kill"], env=environment, capture_output=True, check=False)
    process = _started(stack, [program], folder, environment)
    _until(folder, "Starting broker... completed")
    version = re.search(r"RabbitMQ (\d[\d.]*)", (folder / "output").read_text())
    return Server(port, process.pid, f"{version[1] if version else ''}, one node")


def _postgresql(folder: Path, stack: contextlib.ExitStack) -> Server:
    port, initdb, postgres = free_port(), _program("initdb"), _program("postgres")
    assert initdb is not None and postgres is not None
    user = "postgres" if os.geteuid() == 0 else None  # it refuses to be root
    if user is not None:
        shutil.chown(folder, user, user)
    data = ["-D", str(folder / "data")]
    subprocess.run(
        [initdb, *data, "--auth=trust", "--username=postgres", "--no-sync"],
        user=user, cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    command = [postgres, *data, "-p", str(port), "-k", str(folder), "-c", "listen_addresses=127.0.0.1"]
    process = _started(stack, command, folder, user=user)
    _until(folder, "ready to accept connections")
    return Server(port, process.pid, f"{_said([postgres, '--version']).split()[2]}, fsync at each commit")


REDIS = Kind("Redis", ("redis-server",), "redis", "redis-server", _redis)
DURABLE_REDIS = Kind("Redis", ("redis-server",), "redis", "redis-server", _durable_redis)
RABBITMQ = Kind("RabbitMQ", ("rabbitmq-server",), "pika", "rabbitmq-server", _rabbitmq)
RABBITMQ_STREAMS = Kind("RabbitMQ", ("rabbitmq-server",), "rstream", "rabbitmq-server", _rabbitmq_streams)
POSTGRESQL = Kind("PostgreSQL", ("initdb", "postgres"), "psycopg", "postgresql", _postgresql)


def _started(
    stack: contextlib.ExitStack, command: list[str], folder: Path, environment: dict[str, str] | None = None,
    *, user: str | None = None,
) -> subprocess.Popen[bytes]:  # fmt: skip
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL, user=user
        )
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        for member in list(family(process.pid)):
            os.kill(member, signal.SIGKILL)
        process.wait(10)


def _until(folder: Path, words: str) -> None:
    output = folder / "output"
    try:
        wait_until(lambda: words in output.read_text(errors="replace"), START_SECONDS, f"{words!r}")
    except AssertionError as error:
        last = " ".join(output.read_text(errors="replace").split()[-40:])
        raise DidNotStart(f"{error}; its last words: {last}") from None


def _said(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
