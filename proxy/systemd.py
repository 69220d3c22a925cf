"""The protocols between a service manager and a service: listening sockets handed over, and states announced.

The protocols are those of systemd, sd_listen_fds(3), sd_notify(3) and sd_watchdog_enabled(3), which are a few variables
of the environment and datagrams to a Unix socket; other service managers support them, too. Where the variables are
not set, nothing here has an effect.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass

from proxy.transport.addresses import Address

log = logging.getLogger(__name__)

FIRST_FD = 3  # SD_LISTEN_FDS_START
MYSQL, ADMIN, CONSOLE = "mysql", "admin", "console"
NAMES = (MYSQL, ADMIN, CONSOLE)
"""What `FileDescriptorName=` of a socket unit may be: which port the socket is."""

_FDS_MAX = 64  # a port has as many sockets as the machine has addresses for it; more is not meant

Handed = Mapping[str, tuple[socket.socket, ...]]
"""Listening sockets by name; a name that is not there is bound from the configuration."""

NONE_HANDED: Handed = {}
NO_ADDRESSES: Mapping[str, str] = {}
_KEYS = {MYSQL: "listen", ADMIN: "admin.listen", CONSOLE: "console.listen"}


class BadHandover(OSError):
    """What was handed over cannot be served."""


def handed_sockets(environment: MutableMapping[str, str], pid: int | None = None) -> Handed:
    """The sockets that this process was started with, owned by it from now on; the variables are removed, so that no
    child uses them.

    Raises:
        BadHandover: a socket that listens for no TCP clients, or has a name that is no port's.
    """
    variables = {name: environment.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")}
    if variables["LISTEN_PID"] != str(os.getpid() if pid is None else pid):
        return {}  # they were meant for a parent process
    count = int(variables["LISTEN_FDS"]) if variables["LISTEN_FDS"].isdecimal() else -1
    if not 0 <= count <= _FDS_MAX:
        raise BadHandover(f"LISTEN_FDS is no number of sockets from 0 to {_FDS_MAX}")
    names = variables["LISTEN_FDNAMES"].split(":") if variables["LISTEN_FDNAMES"] else [MYSQL] * count
    if len(names) != count:
        raise BadHandover(f"LISTEN_FDNAMES has {len(names)} names for {count} sockets")
    handed: dict[str, tuple[socket.socket, ...]] = {}
    for fd, name in enumerate(names, FIRST_FD):
        handed[name] = (*handed.get(name, ()), _listening(fd, name))
    return handed


def addresses_of(handed: Handed) -> Mapping[str, str]:
    """The configuration of sockets handed over: its key, and the address as it is written there. Of
    several sockets of a name one that other machines can reach."""
    configured = {}
    for name, sockets in handed.items():
        addresses = [Address(*each.getsockname()[:2]) for each in sockets]
        configured[_KEYS[name]] = str(min(addresses, key=lambda address: address.loopback))
    return configured


def _listening(fd: int, name: str) -> socket.socket:
    if name not in NAMES:
        raise BadHandover(
            f"a socket with the name {name!r} was handed over, which is no port of ours; its FileDescriptorName is one"
            f" of {', '.join(NAMES)}"
        )
    try:
        taken = socket.socket(fileno=fd)
        accepts = taken.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise BadHandover(f"descriptor {fd} ({name}) was handed over and is no socket: {error.strerror}") from None
    if not accepts or taken.type != socket.SOCK_STREAM or taken.family not in (socket.AF_INET, socket.AF_INET6):
        taken.close()
        raise BadHandover(
            f"descriptor {fd} ({name}) was handed over and does not listen for TCP; give ListenStream= a host and port"
        )
    taken.setblocking(False)
    os.set_inheritable(fd, False)
    return taken


@dataclass(frozen=True, slots=True)
class Notifier:
    """Reports this process's state to the service manager. `address`: NOTIFY_SOCKET; None: there is no manager.
    `watchdog_seconds`: how long it waits for a sign of life before it ends the process; None: it does not."""

    address: str | None = None
    watchdog_seconds: float | None = None

    @classmethod
    def of(cls, environment: MutableMapping[str, str], pid: int | None = None) -> Notifier:
        """From the environment; the variables are removed, so that no child uses them."""
        variables = {name: environment.pop(name, "") for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")}
        own = str(os.getpid() if pid is None else pid)
        watched = variables["WATCHDOG_USEC"].isdecimal() and variables["WATCHDOG_PID"] in ("", own)
        microseconds = int(variables["WATCHDOG_USEC"]) if watched else 0
        return cls(variables["NOTIFY_SOCKET"] or None, microseconds / 1e6 or None)

    @property
    def beat_seconds(self) -> float | None:
        """How often it wants a sign of life: twice in its time, as sd_watchdog_enabled(3) advises."""
        return None if self.address is None or self.watchdog_seconds is None else self.watchdog_seconds / 2

    def ready(self) -> None:
        """Clients are served."""
        self._notify("READY=1")

    def stopping(self) -> None:
        """The end has begun."""
        self._notify("STOPPING=1")

    def beat(self) -> None:
        """This process is alive."""
        self._notify("WATCHDOG=1")

    def beat_by(self, call_later: Callable[[float, Callable[[], None]], object]) -> None:
        """Show signs of life for as long as this event loop turns."""
        seconds = self.beat_seconds
        if seconds is not None:
            self.beat()
            call_later(seconds, lambda: self.beat_by(call_later))

    def _notify(self, state: str) -> None:
        if self.address is None:
            return
        # An @ is the NUL of a name that is in no file system.
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as teller:
                teller.setblocking(False)
                teller.sendto(state.encode(), address)
        except OSError as error:
            log.warning("the service manager cannot be told %s", state, extra={"error": error.strerror})
