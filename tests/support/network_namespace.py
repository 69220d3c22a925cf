"""A network of its own for a process, with one cable to this machine that can be cut without a word to either end.

Linux and root: a namespace and a pair of virtual interfaces (veth). What is cut is not reset, and not unreachable
either: frames go to a hardware address that nobody has, as where a switch fails or a machine loses its power.

It lasts as long as a process that does nothing else, so whatever ends a run of the tests ends it, too.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from servers import wait_until

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
_NOBODY = "02:00:00:00:00:ff"
_NET = "198.18"
"""Addresses that are set aside for tests of devices (RFC 2544): no route of a real network leads to them."""


class NamespaceError(Exception):
    """There can be none here; the text says why."""


class NetworkNamespace:
    """See the module. `here` is this machine's address on the cable, `there` that of the processes inside.

    Raises:
        NamespaceError: not Linux, not root, a program is missing, or the kernel refuses.
    """

    def __init__(self) -> None:
        missing = [program for program in ("ip", "nsenter", "unshare") if shutil.which(program) is None]
        if not sys.platform.startswith("linux") or os.geteuid() != 0 or missing:
            raise NamespaceError("a network namespace needs Linux, root and the programs ip, nsenter and unshare")
        number = os.getpid() % 16384  # of 4 addresses each
        self._inner, self._outer = f"qgi{number}", f"qgo{number}"
        net = f"{_NET}.{number >> 6}"
        self.here, self.there = (f"{net}.{(number & 63) * 4 + place}" for place in (1, 2))
        self._holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stderr=subprocess.DEVNULL)
        self._path = f"/proc/{self._holder.pid}/ns/net"
        try:
            self._wait()
            self._ip("link", "add", self._outer, "type", "veth", "peer", "name", self._inner,
                     "netns", str(self._holder.pid))  # fmt: skip
            self._ip("address", "add", f"{self.here}/30", "dev", self._outer)
            self._ip("address", "add", f"{self.there}/30", "dev", self._inner, inside=True)
            self._ip("link", "set", self._outer, "up")
            for interface in ("lo", self._inner):
                self._ip("link", "set", interface, "up", inside=True)
        except NamespaceError:
            self.remove()
            raise

    def _wait(self) -> None:
        """Until the process that holds the namespace has it."""
        ours = os.readlink("/proc/self/ns/net")
        wait_until(lambda: self._holder.poll() is not None or os.readlink(self._path) != ours, 10, "unshare")
        if self._holder.poll() is not None:
            raise NamespaceError("unshare --net: the kernel refuses")

    def cut(self) -> None:
        """From now on nothing arrives, neither here nor there."""
        self._ip("neigh", "replace", self.there, "lladdr", _NOBODY, "dev", self._outer, "nud", "permanent")
        self._ip("neigh", "replace", self.here, "lladdr", _NOBODY, "dev", self._inner, "nud", "permanent", inside=True)

    def mend(self) -> None:
        """All arrives again; who sends finds the way anew."""
        self._ip("neigh", "delete", self.there, "dev", self._outer)
        self._ip("neigh", "delete", self.here, "dev", self._inner, inside=True)

    def command(self, *arguments: str) -> list[str]:
        """What runs a program inside, in place of the process that is started."""
        return ["nsenter", f"--net={self._path}", *arguments]

    def inside(self, work: Callable[[], T]) -> T:
        """What is called there: the sockets that it makes stay sockets of the namespace, whoever uses them later."""
        found: list[Any] = []

        def run() -> None:
            try:
                with open(self._path, "rb") as namespace:
                    if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
                        raise OSError(ctypes.get_errno(), f"setns to {self._path}")
                found.append(work())
            except BaseException as error:
                found.append(error)

        thread = threading.Thread(target=run)  # a thread has a network of its own, and takes it along
        thread.start()
        thread.join()
        if isinstance(found[0], BaseException):
            raise found[0]
        result: T = found[0]
        return result

    def remove(self) -> None:
        """Take down what there is of it."""
        subprocess.run(["ip", "link", "delete", self._outer], capture_output=True, check=False)
        self._holder.kill()
        self._holder.wait()

    def _ip(self, *words: str, inside: bool = False) -> None:
        command = ["ip", *words]
        done = subprocess.run(
            self.command(*command) if inside else command, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise NamespaceError(f"ip {' '.join(words)}: {done.stderr.strip()}")
