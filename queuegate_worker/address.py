"""Where a worker connects, and with which account: a URL, or the arguments of `pymysql.connect`. The password is never
shown."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pymysql

from queuegate_worker.errors import WorkerError
from queuegate_worker.mysql_client.driver import is_utf_8

_HOST, _PORT, _USER = "127.0.0.1", 3307, "root"
_SIGNS = "signs such as @ : / # ? [ in a password are written %40 %3A %2F %23 %3F %5B"
_FORM = f"mysql://USER:PASSWORD@HOST:PORT/DATABASE; {_SIGNS}"
_IN_QUERY = ("unix_socket", "ssl_ca")
_SET_BY_THE_WORKER = ("autocommit", "charset", "cursorclass", "program_name", "client_flag")


@dataclass(frozen=True, slots=True)
class Address:
    """A proxy and an account of it. `options`: further arguments of `pymysql.connect`, such as `ssl_ca`. Raises
    WorkerError for what cannot be one."""

    host: str = _HOST
    port: int = _PORT
    user: str = _USER
    password: str = field(default="", repr=False)
    database: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in ("host", "user", "password", "database"):
            if not isinstance(getattr(self, name), str) and (name != "database" or self.database is not None):
                raise WorkerError(f"{name} of the address is a {type(getattr(self, name)).__name__}; it is a text")
        if not is_utf_8(f"{self.user}{self.database}"):
            raise WorkerError("user or database of the address is not UTF-8")
        if not isinstance(self.port, int) or isinstance(self.port, bool) or not 0 < self.port < 65536:
            raise WorkerError(f"port of the address is {self.port!r}; it is a whole number from 1 to 65535")
        try:
            self.host.encode("idna")
        except UnicodeError:
            raise WorkerError("host of the address is no name: a part of it is empty or too long") from None
        unknown = {*map(str, self.options)} - {*inspect.signature(pymysql.Connection).parameters}
        if unknown:
            raise WorkerError(f"pymysql.connect has no arguments {', '.join(sorted(unknown))}")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        place = self.options.get("unix_socket") or f"{host}:{self.port}"
        return f"{self.user}@{place}" + (f"/{self.database}" if self.database else "")

    def arguments(self) -> dict[str, Any]:
        """For `pymysql.connect`."""
        secure = {"ssl_verify_cert": True, "ssl_verify_identity": True} if "ssl_ca" in self.options else {}
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password.encode("utf-8", "surrogateescape"),  # as text it would be sent in latin1
            "database": self.database,
            **secure,
            **self.options,
        }


def address_of(address: str | Mapping[str, Any] | Address, environment: Mapping[str, str]) -> Address:
    """Parses an address. A URL without a password takes that of MYSQL_PWD. Raises WorkerError."""
    match address:
        case Address():
            return address
        case str():
            return _from_url(address, environment.get("MYSQL_PWD", ""))
        case Mapping():
            return _from_arguments(dict(address))
    raise WorkerError(f"the address is neither a URL nor arguments of pymysql.connect, but a {type(address).__name__}")


def _from_url(url: str, password: str) -> Address:
    """An error names no part of the URL: the password might be in it."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        query = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    except ValueError:
        raise WorkerError(f"the URL cannot be read; it has the form {_FORM}") from None
    unknown = sorted(set(query) - set(_IN_QUERY))
    cut = "@" in parts.query and (unknown or "@" not in parts.netloc)  # a `?` of the password's has ended it
    if parts.scheme not in ("mysql", "mysql+pymysql") or parts.fragment or "/" in parts.path[1:] or cut:
        raise WorkerError(f"the URL is not of the form {_FORM}")
    if unknown:
        raise WorkerError(f"the URL has unknown options ({', '.join(unknown)}); known are {', '.join(_IN_QUERY)}")
    return Address(
        host=host or _HOST,
        port=port or _PORT,
        user=unquote(parts.username or "") or _USER,
        password=password if parts.password is None else unquote(parts.password),
        database=unquote(parts.path[1:]) or None,
        options=query,
    )


def _from_arguments(arguments: dict[str, Any]) -> Address:
    reserved = sorted(set(arguments) & set(_SET_BY_THE_WORKER))
    if reserved:
        raise WorkerError(f"the worker sets these arguments of the connection itself: {', '.join(reserved)}")
    fields = {key: arguments.pop(key, None) for key in ("host", "port", "user", "password", "database")}
    fields = {key: value for key, value in fields.items() if value is not None}
    if isinstance(fields.get("password"), bytes):
        fields["password"] = fields["password"].decode("utf-8", "surrogateescape")
    return Address(**fields, options=arguments)
