"""For whom a request was meant, and from which page it comes. Pure.

A page of another site can have a browser send requests here: by a name of that site which leads to 127.0.0.1 (DNS
rebinding), or by a form. The first has that name in `Host`, the second has its origin in the headers.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from console.settings import ConsoleSettings

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?")
_LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))
_ANY = frozenset(("0.0.0.0", "::"))
_OWN_PAGES = frozenset(("same-origin", "none"))  # none: the reader's own doing, such as a bookmark


@dataclass(frozen=True, slots=True)
class Hosts:
    """The names by which the console is called. `any_address`: by any IP address, for it listens on all."""

    names: frozenset[str]
    any_address: bool = False
    public_origin: str | None = None

    def expects(self, host: str) -> bool:
        """Whether a request with that Host header is meant for the console."""
        name = _name(host)
        return name is not None and (name in self.names or (self.any_address and _is_address(name)))

    def from_own_page(self, host: str, origin: str | None, fetch_site: str | None) -> bool:
        """Whether a request that changes something comes from a page of the console, as far as the browser says."""
        if fetch_site is not None and fetch_site not in _OWN_PAGES:
            return False
        if origin is None or origin == self.public_origin:
            return True
        try:
            return urlsplit(origin).netloc.lower() == host.lower()
        except ValueError:  # an address in brackets that is none
            return False


def hosts_of(settings: ConsoleSettings) -> Hosts:
    """What the settings say."""
    listen = settings.listen.host.lower()
    names = {*_LOOPBACK_NAMES}
    if listen not in _ANY:
        names.add(listen)
    origin = None
    if settings.public_url is not None:
        parts = urlsplit(settings.public_url)
        names.add((parts.hostname or "").lower())
        origin = f"{parts.scheme}://{parts.netloc}".lower()
    return Hosts(frozenset(names), listen in _ANY, origin)


def _name(host: str) -> str | None:
    match = _HOST.fullmatch(host)
    return None if match is None else (match[1] or match[2]).lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def local_path(path: str) -> str:
    """Where to go after the login: a path of the console's own, else its first page."""
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and not re.search(r"[\x00-\x20\\\x7f]", path)
    return path if plain and len(path) <= 2000 else "/"
