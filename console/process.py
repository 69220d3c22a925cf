"""The console as a child of the proxy: started with it, started again when it dies, ended with it.

It is another process, so no page can hold up a delivery. What it needs it gets as arguments and as descriptors: the
listening sockets, which are bound here, so that the ports stay open when a console dies, and a pipe whose end means
that the proxy is gone. It reads the proxy's counters from a Unix socket in a folder that no other user may enter.

`ConsoleProcess` is polled again and again, by the supervisor of workers or by the event loop of a proxy that
is alone; it starts no thread and waits for nothing.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from proxy.config import Config
from proxy.listen.listener import bind
from proxy.systemd import CONSOLE, NONE_HANDED, Handed
from proxy.transport.addresses import Address

log = logging.getLogger(__name__)

BACKOFF_SECONDS, BACKOFF_SECONDS_MAX = 0.2, 30.0  # until the next start of a console that keeps dying; doubling
HEALTHY_SECONDS = 60.0  # one that lived so long died of something new
POLL_SECONDS = 0.5  # how often it is checked where no signal reports its end
_END_SECONDS = 5.0
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class ConsoleProcess:
    """See the module. `counters`: the socket at which the proxy has to answer, as at its admin port."""

    def __init__(self, config: Config, sockets: Sequence[socket.socket]) -> None:
        self._config = config
        self._sockets = tuple(sockets)
        self._folder = Path(tempfile.mkdtemp(prefix="queuegate-"))
        self.counters = socket.socket(socket.AF_UNIX)
        self.counters.bind(str(self._folder / "counters"))
        self.counters.listen(16)
        self.counters.setblocking(False)
        self._proxy: Address | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._pipe: int | None = None
        self._started_at = 0.0
        self._start_at = 0.0
        self._deaths = 0
        self._ended = False

    def serve(self, proxy: Address) -> None:
        """From now on there is a console, a client of the proxy at that address."""
        self._proxy = proxy
        console = self._config.console
        scheme = "http" if console.certificate is None else "https"
        where = console.public_url or f"{scheme}://{self._address}"
        log.info("console on %s", where, extra={"listen": str(self._address)})
        self.poll()

    @property
    def _address(self) -> Address:
        assert self._config.console.listen is not None
        return Address(self._config.console.listen.host, self._sockets[0].getsockname()[1])

    def poll(self) -> float | None:
        """Start it where it is due, and notice its end. Returns after how many seconds it is due; None: it runs."""
        if self._proxy is None or self._ended:
            return None
        if self._child is not None:
            code = self._child.poll()
            if code is None:
                return None
            self._died(code)
        wait = self._start_at - time.monotonic()
        if wait > 0:
            return wait
        self._start(self._proxy)
        return None

    def _died(self, code: int) -> None:
        now = time.monotonic()
        self._deaths = 0 if now - self._started_at >= HEALTHY_SECONDS else self._deaths + 1
        pause = min(BACKOFF_SECONDS * 2**self._deaths, BACKOFF_SECONDS_MAX)
        self._start_at = now + pause
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        log.error("the console died (%s); starting another", how, extra={"in": f"{pause:.1f}s"})
        self._forget()

    def _forget(self) -> None:
        self._child = None
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def _start(self, proxy: Address) -> None:
        reading, self._pipe = os.pipe()
        descriptors = [each.fileno() for each in self._sockets]
        try:
            self._child = subprocess.Popen(
                self._command(proxy, descriptors, reading),
                pass_fds=(*descriptors, reading),
                stdin=subprocess.DEVNULL,
                env=_environment(),
            )
        except OSError as error:
            log.error("the console cannot be started: %s", error.strerror)
            self._forget()
            self._start_at = time.monotonic() + BACKOFF_SECONDS_MAX
        finally:
            os.close(reading)
        self._started_at = time.monotonic()

    def _command(self, proxy: Address, descriptors: Sequence[int], parent: int) -> list[str]:
        console, config = self._config.console, self._config
        arguments = [
            "--host", _ANY.get(proxy.host, proxy.host), "--port", str(proxy.port),
            "--listen", str(self._address), "--descriptors", ",".join(map(str, descriptors)),
            "--parent", str(parent), "--metrics-url", str(self._folder / "counters"),
            "--login-failures", str(config.limits.login_failures),
            "--log-level", config.log.level.value, "--log-format", config.log.format.value,
        ]  # fmt: skip
        for flag, value in (
            ("--certificate", console.certificate), ("--key", console.key), ("--public-url", console.public_url)
        ):  # fmt: skip
            arguments += [] if value is None else [flag, value]
        if console.behind_proxy:
            arguments.append("--behind-proxy")
        # No option file: what its user has set for other clients is not meant for this one.
        return [*_program(), "console", "--defaults-file", os.devnull, *arguments]

    def request_stop(self) -> None:
        """It accepts no more connections."""
        self._ended = True
        if self._child is not None:
            self._child.terminate()  # which checks first whether it still runs

    def end(self) -> None:
        """It is gone when this returns, within some seconds, and so is the folder."""
        self.request_stop()
        if self._child is not None:
            try:
                self._child.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        self._forget()
        for each in (*self._sockets, self.counters):
            each.close()
        shutil.rmtree(self._folder, ignore_errors=True)


_PACKAGES = Path(__file__).resolve().parents[1]
_INSTALLED = _PACKAGES.name == "_server"  # as `queuegate` explains; else this is a checkout


def _program() -> list[str]:
    """How this program is called. -P: a folder of that name where the proxy was started is not meant."""
    return [sys.executable, "-P", "-m", "queuegate"]


def _environment() -> dict[str, str]:
    """The same, with the place of this program first among the modules."""
    place = _PACKAGES.parents[1] if _INSTALLED else _PACKAGES
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{before}" if before else str(place)}


def console_of(config: Config, handed: Handed = NONE_HANDED, *, needed: bool) -> ConsoleProcess | None:
    """The console that is configured, not started yet; None where there is none. `handed`: a socket in place of
    the configured address. `needed`: a port that is taken is an error, else a warning.

    Raises:
        OSError: the address cannot be listened on.
    """
    if config.console.listen is None:
        return None
    try:
        return ConsoleProcess(config, handed.get(CONSOLE) or bind(config.console.listen, "console.listen"))
    except OSError as error:
        if needed:
            raise
        log.warning("there is no console: %s", error.strerror or error)
        return None
