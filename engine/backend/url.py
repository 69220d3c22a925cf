"""BackendUrl: which database, read from one URL, percent-decoded and checked. Never shows the password.

sqlite:///relative.db   sqlite:////absolute/path.db   sqlite:///:memory:
mysql://user:password@host:3306/database?ssl=required&ssl_ca=/etc/ca.pem
mysql://user:password@host/database?ssl_ca=/etc/ca.pem&ssl_cert=/etc/own.pem&ssl_key=/etc/own.key&proxy_protocol=true
mysql://user@localhost/database?socket=/run/mysqld/mysqld.sock
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

_MYSQL_PORT = 3306
_MYSQL_SCHEMES = ("mysql", "mariadb")
_SIGNS = "signs such as @ : / # ? [ in a user or password are written %40 %3A %2F %23 %3F %5B"
_FORMS = "sqlite:///path/queue.db or mysql://user:password@host:3306/database"


class InvalidBackendUrl(ValueError):
    """The URL cannot be parsed. The message has the reason, and never contains the password."""


class SslMode(Enum):
    """MySQL's own ssl-mode values."""

    DISABLED = "disabled"
    PREFERRED = "preferred"
    REQUIRED = "required"
    VERIFY_CA = "verify_ca"
    VERIFY_IDENTITY = "verify_identity"


@dataclass(frozen=True, slots=True)
class BackendUrl:
    """See the module. `path` is for the embedded backend, everything else for a server."""

    embedded: bool
    path: str = ""
    host: str = ""
    port: int = _MYSQL_PORT
    user: str = ""
    password: str = field(default="", repr=False)
    database: str | None = None
    socket: str | None = None
    ssl: SslMode = SslMode.PREFERRED
    ssl_ca: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None
    proxy_protocol: bool = False

    @classmethod
    def parse(cls, text: str) -> BackendUrl:
        """Raises InvalidBackendUrl."""
        try:
            parts = urlsplit(text.strip())
        except ValueError as error:
            raise InvalidBackendUrl(f"not a URL; give {_FORMS}; {_SIGNS}") from error
        if parts.fragment or "#" in text:
            raise InvalidBackendUrl("'#' must be written %23")
        if parts.scheme == "sqlite":
            return _sqlite(parts)
        if parts.scheme in _MYSQL_SCHEMES:
            if not text.strip()[len(parts.scheme) :].startswith("://"):
                raise InvalidBackendUrl(f"'//' comes after '{parts.scheme}:', as in {_FORMS}")
            return _mysql(parts)
        wrong = f"'{parts.scheme}' is no kind of database" if parts.scheme else "not a URL"
        raise InvalidBackendUrl(f"{wrong}; give {_FORMS}")

    def __str__(self) -> str:
        if self.embedded:
            return f"sqlite:///{quote(self.path, safe='/:')}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        secret = ":***" if self.password else ""
        return f"mysql://{quote(self.user, safe='')}{secret}@{host}:{self.port}/{quote(self.database or '', safe='')}"


def _sqlite(parts: SplitResult) -> BackendUrl:
    if parts.netloc:
        raise InvalidBackendUrl("sqlite takes three slashes before a path: sqlite:///queue.db, sqlite:////var/queue.db")
    if parts.query:
        raise InvalidBackendUrl("sqlite takes no options after '?'")
    path = unquote(parts.path).removeprefix("/")
    if not path or path.endswith("/") or "\0" in path:
        raise InvalidBackendUrl("the path of a file is missing: sqlite:///path/queue.db")
    return BackendUrl(embedded=True, path=path)


def _mysql(parts: SplitResult) -> BackendUrl:
    # An unescaped '/' or '?' in a password ends the host before it, and the '@' that ends the password comes later.
    if "@" in parts.path or ("@" in parts.query and "@" not in parts.netloc):
        raise InvalidBackendUrl(f"the host cannot be read; {_SIGNS}")
    options = _options(parts.query)
    database = unquote(parts.path.removeprefix("/"))
    if "/" in database:
        raise InvalidBackendUrl("more than a database name after the host; a '/' in the name is written %2F")
    host = _host(parts)
    if not host and "socket" not in options:
        raise InvalidBackendUrl("the host is missing: mysql://user:password@host:3306/database")
    if not parts.username:
        raise InvalidBackendUrl("the user is missing: mysql://user:password@host:3306/database")
    return BackendUrl(
        embedded=False,
        host=host or "localhost",
        port=_port(parts),
        user=unquote(parts.username),
        password=unquote(parts.password or ""),
        database=database or None,
        socket=options.get("socket"),
        ssl=_ssl_mode(options),
        ssl_ca=options.get("ssl_ca"),
        ssl_cert=options.get("ssl_cert"),
        ssl_key=options.get("ssl_key"),
        proxy_protocol=_proxy_protocol(options),
    )


def _host(parts: SplitResult) -> str:
    # A password with an unescaped '@', ':' or '/' ends up in the host or the port: then neither may be shown.
    host = unquote(parts.hostname or "")
    if parts.netloc.count("@") > 1 or any(character in host for character in "@/ \0"):
        raise InvalidBackendUrl(f"the host cannot be read; {_SIGNS}")
    if not is_host(host):
        raise InvalidBackendUrl(f"the host {NO_HOST}")
    return host


NO_HOST = "is no name: a part of it between dots is empty or longer than 63 characters"


def is_host(text: str) -> bool:
    """Whether it can be looked up: an address, or a name that a name server may know."""
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return True


def _port(parts: SplitResult) -> int:
    try:
        port = parts.port
    except ValueError:
        raise InvalidBackendUrl("the port is not a number from 1 to 65535; ':' in a password is written %3A") from None
    if port == 0:
        raise InvalidBackendUrl("the port is not a number from 1 to 65535")
    return port or _MYSQL_PORT


def _options(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise InvalidBackendUrl("options after '?' are written name=value, joined by '&'") from None
    known = ("ssl", "ssl_ca", "ssl_cert", "ssl_key", "socket", "proxy_protocol")
    for name, value in pairs:
        if name not in known:
            unknown = f"unknown option '{name}'; allowed: {', '.join(known)}"
            raise InvalidBackendUrl(_SIGNS if "@" in query else unknown)
        if not value:
            raise InvalidBackendUrl(f"option '{name}' is empty")
    if len({name for name, _ in pairs}) != len(pairs):
        raise InvalidBackendUrl("an option is given twice")
    return dict(pairs)


def _ssl_mode(options: dict[str, str]) -> SslMode:
    has_ca = "ssl_ca" in options
    text = options.get("ssl", "verify_ca" if has_ca else "preferred")
    try:
        mode = SslMode(text.lower().replace("-", "_"))
    except ValueError:
        raise InvalidBackendUrl(f"ssl={text}: allowed are {', '.join(mode.value for mode in SslMode)}") from None
    if has_ca and mode not in (SslMode.VERIFY_CA, SslMode.VERIFY_IDENTITY):
        raise InvalidBackendUrl("ssl_ca needs ssl=verify_ca or ssl=verify_identity, or it would not be looked at")
    if mode in (SslMode.VERIFY_CA, SslMode.VERIFY_IDENTITY) and not has_ca:
        raise InvalidBackendUrl(f"ssl={mode.value} needs ssl_ca=/path/of/the/certificate")
    if "ssl_key" in options and "ssl_cert" not in options:
        raise InvalidBackendUrl("ssl_key is given without ssl_cert")
    if "ssl_cert" in options and mode in (SslMode.DISABLED, SslMode.PREFERRED):
        raise InvalidBackendUrl("ssl_cert needs ssl=required, verify_ca or verify_identity, or it might not be shown")
    return mode


def _proxy_protocol(options: dict[str, str]) -> bool:
    text = options.get("proxy_protocol", "false").lower()
    if text not in ("true", "false"):
        raise InvalidBackendUrl("proxy_protocol is neither true nor false")
    if text == "true" and "socket" in options:
        raise InvalidBackendUrl("proxy_protocol is for TCP, and socket is given")
    return text == "true"
