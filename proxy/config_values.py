"""Values of the configuration, read from what YAML and the command line give. Pure.

Each function raises ValueError with what is wrong and what belongs there; a value that was read already is taken as it
is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, TypeVar

from pydantic import BeforeValidator

from engine.backend.url import NO_HOST, BackendUrl, InvalidBackendUrl, is_host
from engine.model.errors import EngineError
from engine.model.option_values import NS_PER_SECOND, parse_duration
from engine.model.options import NEW_QUEUE, OF_ONE_QUEUE, OPTIONS, QueueOptions, parse_options
from proxy.login.client_tls import TlsMode
from proxy.rights.account_rights import TOPIC_PERMISSIONS, InvalidPattern, Right, TopicPermission, name_pattern
from proxy.transport.addresses import Address

_T = TypeVar("_T")
_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)?", re.IGNORECASE)
_PUBLIC_URL = re.compile(r"(https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?)/?")
_SIZE_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def read_address(value: object) -> Address:
    """host:port."""
    if isinstance(value, Address):
        return value
    match = re.fullmatch(r"(?:\[([^\[\]]+)\]|([^:\[\]\s]+)):(\d{1,5})", value) if isinstance(value, str) else None
    if match is None or int(match[3]) > 65535:
        raise ValueError("is not an address; give host:port, such as 127.0.0.1:3307 or [::1]:3307")
    address = Address(match[1] or match[2], int(match[3]))
    if not is_host(address.host):
        raise ValueError(f"is not an address; the host {NO_HOST}")
    return address


def read_optional_address(value: object) -> Address | None:
    """host:port, or nothing."""
    return None if value is None else read_address(value)


def read_public_url(value: object) -> str | None:
    """The address by which browsers reach the console: a scheme and a host, perhaps a port."""
    if value is None:
        return None
    match = _PUBLIC_URL.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("is not an address for browsers; give https://host or https://host:port, without a path")
    return match[1]


def read_backend(value: object) -> BackendUrl:
    """The URL of a database."""
    if isinstance(value, BackendUrl):
        return value
    if not isinstance(value, str):
        raise ValueError("is not a URL; give sqlite:///path/queue.db or mysql://user:password@host:3306/database")
    try:
        return BackendUrl.parse(value)
    except InvalidBackendUrl as error:
        raise ValueError(str(error)) from None


def read_seconds(value: object) -> float:
    """A duration, in seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("is not a duration; give seconds, or '500ms', '30s', '5m', '2h', '1d'")
    try:
        return parse_duration("", value) / NS_PER_SECOND
    except EngineError as error:
        raise ValueError(error.message.removeprefix(": ")) from None


def read_size(value: object) -> int:
    """A size, in bytes."""
    match = _SIZE.fullmatch(str(value)) if isinstance(value, int | str) and not isinstance(value, bool) else None
    if match is None:
        raise ValueError("is not a size; give bytes, or '512KiB', '64MiB', '1GiB'")
    return int(match[1]) * _SIZE_UNITS[(match[2] or "").lower()]


def read_queue_options(value: object) -> QueueOptions:
    """Options of queues, all mistakes in them reported at once."""
    if isinstance(value, QueueOptions):
        return value
    if not isinstance(value, Mapping):
        allowed = set(OPTIONS).difference(OF_ONE_QUEUE)
        raise ValueError(f"is not a mapping of queue options; allowed: {', '.join(sorted(allowed))}")
    mistakes = []
    for name, option in value.items():
        try:
            parse_options({str(name): option if isinstance(option, int | float) else str(option)}, _LENIENT)
        except EngineError as error:
            mistakes.append(error.message)
    for name in OF_ONE_QUEUE:
        if name in value:
            mistakes.append(f"{name} belongs to one queue; give it in CREATE QUEUE or ALTER QUEUE")
    if mistakes:
        raise ValueError("; ".join(mistakes))
    try:
        return parse_options({str(name): option for name, option in value.items()}, NEW_QUEUE)
    except EngineError as error:
        raise ValueError(error.message) from None


def read_peers(value: object) -> object:
    """The section `peers`, which may also be a bare true or false."""
    return {"enabled": value} if isinstance(value, bool) else value


def read_tls_mode(value: object) -> TlsMode:
    """off, offered or required."""
    if isinstance(value, TlsMode):
        return value
    try:
        return TlsMode("off" if value is False else value)  # YAML takes a bare `off` for false
    except ValueError:
        raise ValueError("is none of off, offered, required") from None


def read_queue_rights(value: object) -> dict[str, frozenset[Right]]:
    """Which rights an account has to which queues."""
    return _rights(value, "queue", "enqueue, receive, settle", Right, ", ".join(right.value for right in Right))


def read_topic_rights(value: object) -> dict[str, frozenset[TopicPermission]]:
    """Which rights an account has to which topics and their consumer groups."""
    return _rights(value, "topic", "publish, read, consume:billing", TopicPermission.parse, TOPIC_PERMISSIONS)


def _rights(value: object, of: str, example: str, read: Callable[[str], _T], all_: str) -> dict[str, frozenset[_T]]:
    if not isinstance(value, Mapping) or not value:
        # An empty value would be the same as none at all, which means everything.
        raise ValueError(f"is not a mapping of {of}s to rights, such as {{orders: [{example}]}}")
    rights: dict[str, frozenset[_T]] = {}
    for pattern, listed in value.items():
        names = [listed] if isinstance(listed, str) else listed
        try:
            name_pattern(str(pattern), "", of)
            if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
                raise ValueError
            rights[str(pattern)] = frozenset(map(read, names))
        except InvalidPattern as error:
            raise ValueError(str(error)) from None
        except ValueError:
            raise ValueError(f"'{pattern}' takes a list of {all_}") from None
    return rights


# Options are first read one by one, so that each mistake is reported; only then do their mutual bounds count.
_LENIENT = QueueOptions(ack_wait_ns=10_000_000, max_backoff_ns=3650 * 86400 * NS_PER_SECOND, min_backoff_ns=0)


Seconds = Annotated[float, BeforeValidator(read_seconds)]


Size = Annotated[int, BeforeValidator(read_size)]
