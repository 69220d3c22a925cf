"""A network of its own for a process, with one cable to this machine that can be cut without a word to either end.

Linux and root: a namespace and a pair of virtual interfaces (veth). What is cut is not reset, and not unreachable
either: frames go to a hardware address that nobody has, as where a switch fails or a machine loses its power.
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
        NamespaceError: not Linux, not root, no `ip`, or the kernel refuses.
    """

    def __init__(self) -> None:
        if not sys.platform.startswith("linux") or os.geteuid() != 0 or shutil.which("ip") is None:
            raise NamespaceError("a network namespace needs Linux, root and the program `ip` (iproute2)")
        number = os.getpid() % 16384  # of 4 addresses each
        self.name = f"qgtest{os.getpid()}"
        self._inner, self._outer = f"qgi{number}", f"qgo{number}"
        net = f"{_NET}.{number >> 6}"
        self.here, self.there = (f"{net}.{(number & 63) * 4 + place}" for place in (1, 2))
        try:
            self._ip("netns", "add", self.name)
            self._ip("link", "add", self._outer, "type", "veth", "peer", "name", self._inner, "netns", self.name)
            self._ip("address", "add", f"{self.here}/30", "dev", self._outer)
            self._ip("-n", self.name, "address", "add", f"{self.there}/30", "dev", self._inner)
            self._ip("link", "set", self._outer, "up")
            for interface in ("lo", self._inner):
                self._ip("-n", self.name, "link", "set", interface, "up")
        except NamespaceError:
            self.remove()
            raise

    def cut(self) -> None:
        """From now on nothing arrives, neither here nor there."""
        self._ip("neigh", "replace", self.there, "lladdr", _NOBODY, "dev", self._outer, "nud", "permanent")
        self._ip("-n", self.name, "neigh", "replace", self.here, "lladdr", _NOBODY, "dev", self._inner,
                 "nud", "permanent")  # fmt: skip

    def mend(self) -> None:
        """All arrives again; who sends finds the way anew."""
        for where, address, interface in (((), self.there, self._outer), (("-n", self.name), self.here, self._inner)):
            self._ip(*where, "neigh", "delete", address, "dev", interface)

    def command(self, *arguments: str) -> list[str]:
        """What runs a program inside, in place of the process that is started."""
        return ["ip", "netns", "exec", self.name, *arguments]

    def inside(self, work: Callable[[], T]) -> T:
        """What is called there: the sockets that it makes stay sockets of the namespace, whoever uses them later."""
        found: list[Any] = []

        def run() -> None:
            try:
                with open(f"/run/netns/{self.name}", "rb") as namespace:
                    if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
                        raise OSError(ctypes.get_errno(), f"setns to {self.name}")
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
        for words in (("link", "delete", self._outer), ("netns", "delete", self.name)):
            subprocess.run(["ip", *words], capture_output=True, check=False)

    @staticmethod
    def _ip(*words: str) -> None:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NamespaceError(f"ip {' '.join(words)}: {done.stderr.strip()}")
