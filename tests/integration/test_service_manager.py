"""The proxy under a service manager: sockets handed over as systemd does, states announced, with one worker and two."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml
from one_message import one_message
from servers import ROOT, free_port, wait_until
from slowness import scaled

pytestmark = pytest.mark.long

# What systemd does between fork and exec: descriptors from 3 on, and the pid that they are for.
HANDING = """
import os, sys
fds = [int(fd) for fd in sys.argv[1].split(",")]
kept = [os.dup(fd) for fd in fds]
high = [os.dup2(fd, 100 + i) for i, fd in enumerate(kept)]
for i, fd in enumerate(high):
    os.dup2(fd, 3 + i)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=sys.argv[2])
os.environ["WATCHDOG_PID"] = str(os.getpid())
os.execv(sys.executable, [sys.executable, "-m", "queuegate", *sys.argv[3:]])
"""


class Served:
    """A proxy with sockets of ours, and what it announces."""

    def __init__(self, folder: Path, backend: str, **config: object) -> None:
        self.folder = folder
        self.mysql, self.admin = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
        # Ports that nobody may bind: what is handed over goes over them.
        config = {"listen": "192.0.2.1:1", "admin": {"listen": "192.0.2.1:2"}, "backend": backend, **config}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        self.heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.heard.bind(str(folder / "notify"))
        self.heard.settimeout(60)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, sockets: Sequence[socket.socket], names: str) -> None:
        fds = [each.fileno() for each in sockets]
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "NOTIFY_SOCKET": str(self.folder / "notify"),
            "WATCHDOG_USEC": "400000",
        }  # fmt: skip
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", HANDING, ",".join(map(str, fds)), names, "serve"],
                cwd=self.folder, env=environment, pass_fds=fds, stdout=log, stderr=log,
            )  # fmt: skip

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def told(self, state: bytes) -> None:
        """Wait until this is announced."""
        while (heard := self.heard.recv(100)) != state:
            assert heard == b"WATCHDOG=1", heard

    def end(self) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(scaled(60))
        for each in (self.mysql, self.admin, self.heard):
            each.close()
        return code


@pytest.fixture(params=[1, 2], ids=["alone", "two workers"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    if request.param == 1:
        made = Served(tmp_path, "sqlite:///queue.db")
    else:
        made = Served(tmp_path, request.getfixturevalue("own_mariadb").url(), workers=request.param)
    yield made
    assert made.process is not None and made.process.poll() is not None


def test_sockets_are_taken_in_place_of_the_configured_addresses(served: Served) -> None:
    """A client that connects before the proxy has started is served too: its socket listens already."""
    mysql, admin = served.mysql.getsockname()[1], served.admin.getsockname()[1]
    with socket.create_connection(("127.0.0.1", mysql)) as early:
        early.settimeout(60)
        served.start([served.admin, served.mysql], "admin:mysql")
        assert early.recv(100)  # the greeting
    try:
        served.told(b"READY=1")
        served.told(b"WATCHDOG=1")
        served.told(b"WATCHDOG=1")
        assert f"listening on 127.0.0.1:{mysql}" in served.log
        one_message(mysql)
        with urllib.request.urlopen(f"http://127.0.0.1:{admin}/readyz", timeout=30) as answer:
            assert answer.read() == b"ready\n"
    finally:
        code = served.end()
    assert code == 0, served.log
    assert "Traceback" not in served.log


def test_the_end_is_announced(served: Served) -> None:
    served.start([served.mysql, served.admin], "mysql:admin")
    served.told(b"READY=1")
    assert served.process is not None
    served.process.send_signal(signal.SIGTERM)
    served.told(b"STOPPING=1")
    assert served.process.wait(scaled(60)) == 0, served.log
    served.end()


def test_an_account_without_a_password_is_not_handed_to_the_network(tmp_path: Path) -> None:
    """The configuration is judged by the address that is handed over."""
    made = Served(tmp_path, "sqlite:///queue.db", listen="127.0.0.1:0", admin={})
    with socket.create_server(("0.0.0.0", 0)) as reachable:
        made.start([reachable], "mysql")
        assert made.process is not None and made.process.wait(scaled(60)) == 2
        assert "can be reached from other machines, but no users are configured" in made.log
    made.end()


def test_a_name_that_stands_for_no_port_ends_the_start(tmp_path: Path) -> None:
    made = Served(tmp_path, "sqlite:///queue.db")
    made.start([made.mysql], "ssh")
    assert made.process is not None and made.process.wait(scaled(60)) == 1
    assert made.log.startswith("queuegate: a socket with the name 'ssh'") and made.log.count("\n") == 1
    made.end()


def test_systemds_own_activator(tmp_path: Path) -> None:
    """The program that hands over sockets without a service manager starts the proxy with the first client."""
    activator = shutil.which("systemd-socket-activate")
    if activator is None:
        pytest.skip("systemd-socket-activate is not installed: sockets were handed over by our own test program alone")
    port = free_port()
    command = [activator, f"--listen=127.0.0.1:{port}", "--fdname=mysql", f"--setenv=PYTHONPATH={ROOT}"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, sys.executable, "-m", "queuegate", "serve"], cwd=tmp_path, stdout=log, stderr=log
        )
    try:
        wait_until(lambda: f"127.0.0.1:{port}" in (tmp_path / "log").read_text(), 30, "the activator to listen")
        one_message(port)
        assert re.search(rf"listening on 127\.0\.0\.1:{port}\b", (tmp_path / "log").read_text())
    finally:
        process.send_signal(signal.SIGTERM)  # it has become the proxy
        assert process.wait(scaled(60)) == 0, (tmp_path / "log").read_text()
