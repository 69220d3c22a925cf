"""The console's settings: where it listens, which proxy it is a client of, and its bounds. Frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proxy.transport.addresses import Address

DEFAULT_LISTEN = Address("127.0.0.1", 8307)


@dataclass(frozen=True, slots=True)
class ProxyPlace:
    """How to reach the proxy. `host` and `port`, or `socket`; `encryption`: PyMySQL's arguments for TLS."""

    host: str = "127.0.0.1"
    port: int = 3307
    socket: str | None = None
    encryption: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.socket or str(Address(self.host, self.port))


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """All of it. `counters`: where the proxy's counters are read, a URL or the path of a Unix socket; None: nowhere.
    `login_failures`: how many failed logins a minute the proxy allows to one address, 0 for any number."""

    listen: Address
    proxy: ProxyPlace
    counters: str | None = None
    certificate: str | None = None
    key: str | None = None
    public_url: str | None = None
    behind_proxy: bool = False
    login_failures: int = 100

    @property
    def scheme(self) -> str:
        """How the console itself is reached, without a proxy before it."""
        return "http" if self.certificate is None else "https"

    @property
    def url(self) -> str:
        """Where to open it."""
        return self.public_url or f"{self.scheme}://{self.listen}"
