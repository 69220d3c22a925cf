"""The servers of the others: private ones with their own defaults, in the folder where the database is too.

Who lacks a server or its Python client is named, with what to install.
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import scratch

from benchmarks.processes import family
from benchmarks.topics.logs import Log
from benchmarks.topics.postgresql import PostgresTable
from benchmarks.topics.rabbitmq_streams import RabbitStream
from benchmarks.topics.redis_streams import RedisStream
from tests.servers import find_binary, free_port, wait_until

START_SECONDS = 120.0


class DidNotStart(Exception):
    """A server did not say that it is ready; its last words are in the message."""


@dataclass(slots=True)
class Others:
    """The logs that take part, what they are (for the report's head), and who is absent."""

    logs: list[Log] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)


@contextlib.contextmanager
def others() -> Iterator[Others]:
    """All that this machine has."""
    found = Others()
    with contextlib.ExitStack() as stack:
        for name, programs, client, package, start in _ALL:
            missing = [program for program in programs if _program(program) is None]
            if missing:
                found.absent.append(f"{name}, whose {missing[0]} is not installed (apt-get install {package})")
            elif importlib.util.find_spec(client) is None:
                found.absent.append(f"{name}, whose Python client {client} is not installed (pip install '.[rivals]')")
            else:
                folder = Path(tempfile.mkdtemp(prefix="qg-rival-", dir=scratch.folder()))
                stack.callback(shutil.rmtree, folder, ignore_errors=True)
                try:
                    log, version = start(folder, stack)
                except DidNotStart as error:
                    found.absent.append(f"{name}, which did not start: {error}")
                    continue
                found.logs.append(log)
                found.versions[name] = version
        yield found


def _program(name: str) -> str | None:
    """Where it is: PostgreSQL and RabbitMQ keep theirs, for Debian, in folders of their own."""
    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), Path("/usr/lib/rabbitmq/bin")]
    inside = [str(path) for folder in folders if os.access(path := folder / name, os.X_OK)]
    return inside[-1] if inside else find_binary(name)


def _redis(folder: Path, stack: contextlib.ExitStack) -> tuple[Log, str]:
    port, program = free_port(), _program("redis-server")
    assert program is not None
    process = _started(stack, [program, "--port", str(port), "--bind", "127.0.0.1"], folder)
    _until(folder, "Ready to accept connections")
    version = re.search(r"v=(\S+)", _said([program, "--version"]))
    return RedisStream(port=port, pid=process.pid), f"{version[1] if version else ''}, no append-only file"


def _rabbitmq(folder: Path, stack: contextlib.ExitStack) -> tuple[Log, str]:
    port, names = free_port(), {"HOME": str(folder), "ERL_EPMD_PORT": str(free_port())}
    (folder / "rabbitmq.conf").write_text(
        f"listeners.tcp = none\nstream.listeners.tcp.1 = 127.0.0.1:{port}\n"
        f"stream.advertised_host = 127.0.0.1\nstream.advertised_port = {port}\n"
    )
    (folder / "enabled_plugins").write_text("[rabbitmq_stream].\n")
    settings = {
        "NODENAME": f"bench{port}@localhost", "MNESIA_BASE": folder / "data", "LOG_BASE": folder / "logs",
        "CONFIG_FILE": folder / "rabbitmq.conf", "ENABLED_PLUGINS_FILE": folder / "enabled_plugins",
        "DIST_PORT": free_port(),
    }  # fmt: skip
    environment = {**os.environ, **names, **{f"RABBITMQ_{name}": str(value) for name, value in settings.items()}}
    program, mapper = _program("rabbitmq-server"), _program("epmd")
    assert program is not None
    if mapper is not None:  # Erlang's port mapper, which the server starts and leaves behind
        stack.callback(subprocess.run, [mapper, "-kill"], env=environment, capture_output=True, check=False)
    process = _started(stack, [program], folder, environment)
    _until(folder, "Starting broker... completed")
    version = re.search(r"RabbitMQ (\d[\d.]*)", (folder / "output").read_text())
    return RabbitStream(port=port, pid=process.pid), f"{version[1] if version else ''}, one node"


def _postgresql(folder: Path, stack: contextlib.ExitStack) -> tuple[Log, str]:
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
    return PostgresTable(
        port=port, pid=process.pid
    ), f"{_said([postgres, '--version']).split()[2]}, fsync at each commit"


_Start = Callable[[Path, contextlib.ExitStack], tuple[Log, str]]
_ALL: tuple[tuple[str, tuple[str, ...], str, str, _Start], ...] = (
    ("Redis", ("redis-server",), "redis", "redis-server", _redis),
    ("RabbitMQ", ("rabbitmq-server",), "rstream", "rabbitmq-server", _rabbitmq),
    ("PostgreSQL", ("initdb", "postgres"), "psycopg", "postgresql", _postgresql),
)


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
