"""Starts queuegate from a process that has loaded it already: a fork takes milliseconds, loading takes a second.

The tests start it a thousand times. What they get is a process of its own, which runs the command line from its first
line; only the imports are done. `tests/queuegate/test_command_line.py` and others start it as users do.

Run as a program, this file is the loaded process: it forks when it is asked to, and tells how its children ended.

With QUEUEGATE_TEST_INSTALLED, the folder in which a wheel was unpacked, that is started, and not this checkout.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

_INSTALLED = os.environ.get("QUEUEGATE_TEST_INSTALLED")
_ROOT = Path(_INSTALLED or Path(__file__).resolve().parent.parent)
_POSSIBLE = sys.platform == "linux" and hasattr(os, "pidfd_open")
_REQUEST_MAX_BYTES = 1 << 20


class Forked:
    """A child of the loaded process; what tests use of `subprocess.Popen`."""

    def __init__(self, preloaded: Preloaded, pid: int, arguments: Sequence[str]) -> None:
        self._preloaded = preloaded
        self.pid = pid
        self.args = arguments
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        if self.returncode is None:
            self.returncode = self._preloaded.ask({"ended": self.pid})
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has one. Raises subprocess.TimeoutExpired."""
        if self.poll() is None:
            watched = os.pidfd_open(self.pid)
            try:
                poll = select.poll()
                poll.register(watched, select.POLLIN)
                if not poll.poll(None if timeout is None else timeout * 1000):
                    raise subprocess.TimeoutExpired(list(self.args), timeout or 0)
            finally:
                os.close(watched)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


Process = subprocess.Popen[bytes] | Forked


def start(arguments: Sequence[str], log: IO[bytes], environment: Mapping[str, str]) -> Process:
    """`queuegate` with these arguments, in the project's folder; what it writes goes to `log`."""
    return subprocess.Popen(
        [sys.executable, "-m", "queuegate", *arguments],
        cwd=_ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=dict(environment),
    )  # fmt: skip


class Preloaded:
    """The loaded process, as this one sees it. Started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def start(self, arguments: Sequence[str], log: IO[bytes], environment: Mapping[str, str]) -> Process:
        """As `start`, in milliseconds where the system can do it."""
        if not _POSSIBLE:
            return start(arguments, log, environment)
        pid = self.ask({"arguments": list(arguments), "environment": dict(environment)}, log.fileno())
        return Forked(self, pid, arguments)

    def ask(self, request: Any, *descriptors: int) -> Any:
        """One request and its answer."""
        with self._lock:
            line = self._socket = self._socket or self._started()
            socket.send_fds(line, [json.dumps(request).encode()], descriptors)
            answer = line.recv(_REQUEST_MAX_BYTES)
        assert answer, "the process that was to start queuegate has ended"
        return json.loads(answer)

    def _started(self) -> socket.socket:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            process = subprocess.Popen(
                [sys.executable, str(Path(__file__).resolve()), str(there.fileno())],
                cwd=_ROOT, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL,
            )  # fmt: skip

        def stop() -> None:
            here.close()
            process.wait(30)

        atexit.register(stop)
        return here


def _serve(line: socket.socket) -> int:
    """Answer requests until there is nobody to ask."""
    if _INSTALLED:
        sys.path.insert(0, str(_ROOT / "queuegate" / "_server"))  # as `queuegate.__main__` does
    from proxy import os_process
    from queuegate import app, command_line, process  # noqa: F401

    os_process.separate_large_blocks()  # as the command line does it, before much is loaded

    # What is imported only when it is needed: it is loaded once here, and not by each child.
    for name in ("proxy.gateways.embedded", "proxy.admin.server", "uvloop", "email.parser", "encodings.idna"):
        importlib.import_module(name)
    os_process.spare_what_exists()
    assert Path(app.__file__).is_relative_to(_ROOT), f"{app.__file__} is loaded, which is not in {_ROOT}"
    while True:
        asked, passed, _, _ = socket.recv_fds(line, _REQUEST_MAX_BYTES, 1)
        if not asked:
            return 0
        request = json.loads(asked)
        if "ended" in request:
            pid, status = os.waitpid(request["ended"], os.WNOHANG)
            answer = None if pid == 0 else os.waitstatus_to_exitcode(status)
        elif (answer := os.fork()) == 0:
            line.close()
            _become(passed[0], request["environment"])
            _end(command_line.main(request["arguments"]))
        for descriptor in passed:
            os.close(descriptor)
        line.send(json.dumps(answer).encode())


def _become(log: int, environment: Mapping[str, str]) -> None:
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.environ.clear()
    os.environ.update(environment)


def _end(code: int) -> NoReturn:
    """The end of a Python program, but for one thing: what is loaded is not taken apart. It is shared with the parent,
    and each page of it would be copied for that, which takes as long as the start."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.path[0] = str(_ROOT)
    sys.exit(_serve(socket.socket(fileno=int(sys.argv[1]))))
