"""The proxy's address, and the options in `broker_transport_options`."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kombu.utils.url import parse_url

DEFAULT_PORT = 3307
_TIMEOUT_SECONDS_MAX = 31_536_000  # a year: PyMySQL's own bound
_LEASE_SECONDS_MIN, _LEASE_SECONDS_MAX = 3, 86_400
QUEUE_OPTIONS: Mapping[str, object] = MappingProxyType({
    "min_backoff": "1s",
    "purge_after": "1h",  # a busy broker acks thousands a second; acked rows are for inspection, not needed for a day
    "max_attempts": 20,  # as RabbitMQ's quorum queues: a task that kills its worker is not retried endlessly
})  # fmt: skip
"""The options of a new queue, in addition to `ack_wait`, which is the lease."""

_TLS_NAMES = {
    "ca_certs": "ca", "ssl_ca_certs": "ca", "certfile": "cert", "ssl_certfile": "cert", "keyfile": "key",
    "ssl_keyfile": "key",
}  # fmt: skip


class SettingError(ValueError):
    """A part of the URL or an option is invalid."""


@dataclass(frozen=True)
class Address:
    """A database behind a proxy, and the account. `proxies`: all that the URL lists, by host and port."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    connect_timeout: float = 5.0
    tls: Any = None  # PyMySQL's `ssl`: None leaves it to PyMySQL, which takes TLS where it is offered
    proxies: frozenset[tuple[str, int]] = frozenset()

    @property
    def shown(self) -> str:
        """For logs and errors, without the password."""
        return f"{self.host}:{self.port}/{self.database}"


@dataclass(frozen=True)
class Settings:
    """The options, checked."""

    lease_seconds: int = 60
    socket_timeout: float = 30.0
    queue_prefix: str = ""
    count_requeues: bool = True
    queue_options: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Settings:
        """Reads the transport options; those of Kombu itself are ignored. Raises SettingError."""
        lease = options.get("lease", cls.lease_seconds)
        if not isinstance(lease, int | float) or not _LEASE_SECONDS_MIN <= lease <= _LEASE_SECONDS_MAX:
            raise SettingError(
                f"transport option lease is {lease!r}: give seconds, {_LEASE_SECONDS_MIN} to {_LEASE_SECONDS_MAX}"
            )
        timeout = options.get("socket_timeout", cls.socket_timeout)
        if not isinstance(timeout, int | float) or not 0 < timeout <= _TIMEOUT_SECONDS_MAX:
            raise SettingError(
                f"transport option socket_timeout is {timeout!r}: give seconds, more than 0 and up to a year"
            )
        queue_options = options.get("queue_options", {})
        if not isinstance(queue_options, Mapping):
            raise SettingError(
                f"transport option queue_options is {queue_options!r}: give a dict, as WITH (...) has it"
            )
        return cls(
            lease_seconds=int(lease),
            socket_timeout=float(timeout),
            queue_prefix=str(options.get("queue_prefix") or ""),
            count_requeues=bool(options.get("count_requeues", True)),
            queue_options=dict(queue_options),
        )


def address_of(client: Any) -> Address:
    """Reads the parameters of a kombu Connection. Raises SettingError."""
    database = client.virtual_host or ""
    if database in ("", "/"):
        raise SettingError(
            "broker_url names no database: write queuegate://user:password@host:3307/database (the embedded backend's"
            " is main)"
        )
    password = client.password() if callable(client.password) else client.password
    return Address(
        host=client.hostname or "localhost",
        port=int(client.port or DEFAULT_PORT),
        user=client.userid or "root",
        password=password or "",
        database=database,
        connect_timeout=float(client.connect_timeout or Address.connect_timeout),
        tls=_tls(client.ssl),
        proxies=frozenset(_place(parse_url(url)) for url in getattr(client, "alt", ())),
    )


def _place(parameters: Mapping[str, Any]) -> tuple[str, int]:
    return parameters["hostname"] or "localhost", int(parameters["port"] or DEFAULT_PORT)


def _tls(option: Any) -> Any:
    """broker_use_ssl: True: verify the certificate with the system's CAs; a dict has PyMySQL's names or amqp's."""
    if not option:
        return None
    if option is True:
        return ssl.create_default_context()
    if isinstance(option, Mapping):
        arguments = {_TLS_NAMES.get(key, key): value for key, value in option.items()}
        required = arguments.pop("cert_reqs", arguments.pop("ssl_cert_reqs", None))
        if required is not None:
            arguments["verify_mode"] = required != ssl.CERT_NONE
            if required == ssl.CERT_NONE:
                arguments["check_hostname"] = False  # Python insists on a certificate where it compares names
        return arguments
    return option
