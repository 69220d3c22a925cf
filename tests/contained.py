"""Runs a command, and ends every process that it leaves behind: `contained.py COMMAND ...`.

An interrupted run of the tests leaves servers, proxies and workers whose parents have gone. Linux hands such orphans
to the nearest ancestor that asks for them (prctl(2), PR_SET_CHILD_SUBREAPER). This process does, so all of them are its
children in the end, whatever session or process group they have made for themselves. Elsewhere it only runs the
command.

A Ctrl-C reaches the command by the terminal, with everything in its process group. The command has GRACE_SECONDS to end
then, or until the second Ctrl-C. A SIGTERM, which comes to this process alone, is handed on as a SIGINT. So is the end
of the terminal, and that of whoever runs this program, such as make.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

GRACE_SECONDS = 60.0
"""For the command after an interruption: pytest stops the servers of its tests in order."""
LEFT_SECONDS = 10.0
"""For each of what is left behind, between SIGTERM and SIGKILL: a database server stops in order."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


class Contained:
    """One run of a command."""

    def __init__(self, command: Sequence[str]) -> None:
        self._adopts = _adopt_orphans()
        self._interrupted_at: float | None = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGINT:  # nohup
                signal.signal(number, self._interrupt)
        self._process = subprocess.Popen(command)
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD,))  # it is waited for; the command has no such mask

    def run(self) -> int:
        """The exit code of the command, once nothing of it is left; 128 and the signal's number where one ended it."""
        while (code := self._process.poll()) is None:
            if self._overdue():
                self._process.kill()
            self._reap_orphans()
            _await_an_end()
        ended = self._end_what_is_left()
        if ended and self._interrupted_at is not None:
            print(f"interrupted; ended {len(ended)} processes that were left: {', '.join(ended)}", file=sys.stderr)
        return code if code >= 0 else 128 - code

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._interrupted_at is not None:
            self._process.kill()
        elif number != signal.SIGINT:
            self._process.send_signal(signal.SIGINT)
        self._interrupted_at = self._interrupted_at or time.monotonic()

    def _overdue(self) -> bool:
        return self._interrupted_at is not None and time.monotonic() > self._interrupted_at + GRACE_SECONDS

    def _end_what_is_left(self) -> list[str]:
        """Returns the names of what had to be ended."""
        if not self._adopts:
            return []
        names: dict[int, str] = {}
        until = time.monotonic() + LEFT_SECONDS
        while left := self._living():
            names.update(left)
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    # What is stopped does not hear of SIGTERM before it goes on.
                    os.kill(pid, signal.SIGTERM if time.monotonic() < until else signal.SIGKILL)
                    os.kill(pid, signal.SIGCONT)
            _await_an_end()
        return sorted(names.values())

    def _living(self) -> dict[int, str]:
        """Every process that descends from this one, by its number: its name."""
        self._reap_orphans()
        children: dict[int, list[int]] = {}
        names: dict[int, str] = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and (process := _stat(folder)) is not None:
                name, parent = process
                names[int(folder.name)] = name
                children.setdefault(parent, []).append(int(folder.name))
        found: dict[int, str] = {}
        parents = [os.getpid()]
        while parents:
            for pid in children.get(parents.pop(), ()):
                found[pid] = names[pid]
                parents.append(pid)
        return found

    def _reap_orphans(self) -> None:
        """Take the exit codes of adopted processes that have ended; that of the command is `poll`'s to take."""
        if not self._adopts:
            return
        for pid in _children(os.getpid()):
            if pid != self._process.pid:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _await_an_end() -> None:
    """Until a child ends, or for a twentieth of a second: a child of a child tells nobody here."""
    signal.sigtimedwait((signal.SIGCHLD,), 0.05)


def _adopt_orphans() -> bool:
    if sys.platform != "linux":
        return False
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    return prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0  # type: ignore[no-any-return]


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _stat(folder: Path) -> tuple[str, int] | None:
    """The name and the parent of a process that has not ended, by proc(5)."""
    try:
        text = (folder / "stat").read_text()
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(") ")
    state, parent = rest.split()[:2]
    return None if state == "Z" else (name, int(parent))


if __name__ == "__main__":
    sys.exit(Contained(sys.argv[1:]).run())
