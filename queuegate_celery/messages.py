"""A message of Kombu's as a row of a queue, and back. Pure; the clock is passed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from amqp.exceptions import PreconditionFailed
from kombu.transport.base import Message as KombuMessage
from kombu.utils.json import dumps, loads

NS = 1_000_000_000
PRIORITY_MAX, PRIORITY_OF_NONE = 9, 50
TIME_NS_MAX = 4_102_444_800 * NS  # the year 2100: later times mean "never" and are not needed
NAME_CHARACTERS_MAX = 255  # of a task's name and id as columns; the headers contain them in full
REASON_CHARACTERS_MAX = 1000  # the limit of a REASON

T = TypeVar("T")

COLUMNS = (
    "task", "task_id", "exchange", "routing_key", "body", "content_type", "content_encoding", "headers", "properties",
    "time_expires",
)  # fmt: skip
_FIELDS = 2 + len(COLUMNS)  # number of values of a row before its token
DEFINITIONS = (
    "task VARCHAR(255) CHARACTER SET utf8mb4 NULL, task_id VARCHAR(255) CHARACTER SET utf8mb4 NULL, "
    "exchange VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, "
    "routing_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, "
    "body LONGBLOB NOT NULL, content_type VARCHAR(255) CHARACTER SET utf8mb4 NULL, "
    "content_encoding VARCHAR(255) CHARACTER SET utf8mb4 NULL, headers LONGTEXT CHARACTER SET utf8mb4 NOT NULL, "
    "properties LONGTEXT CHARACTER SET utf8mb4 NOT NULL, time_expires BIGINT NULL"
)
"""The columns of a queue and of the topic of broadcasts."""


@dataclass(frozen=True)
class Outgoing:
    """A message to insert. `priority` and `scheduled_ns` are for queues only."""

    values: tuple[Any, ...]  # of COLUMNS
    priority: int
    scheduled_ns: int | None  # None: now


class Delivery(NamedTuple):
    """A message's id, the number of its attempt, and this delivery's token; 0 if its queue has none."""

    id: int
    attempt: int
    token: int = 0

    @property
    def name(self) -> tuple[str, int]:
        """The column that identifies this delivery of the message, and its value."""
        return ("lease_token", self.token) if self.token else ("epoch", self.attempt)


@dataclass(frozen=True)
class Incoming:
    """A message received from a queue or from the topic of broadcasts."""

    id: int
    attempt: int
    token: int
    exchange: str
    routing_key: str
    body: bytes
    content_type: str | None
    content_encoding: str | None
    headers: dict[str, Any]
    properties: dict[str, Any]
    expires_ns: int | None

    @property
    def delivery(self) -> Delivery:
        """What identifies it in an ack."""
        return Delivery(self.id, self.attempt, self.token)

    def expired(self, now_ns: int) -> bool:
        return self.expires_ns is not None and self.expires_ns <= now_ns


def outgoing(message: Mapping[str, Any], exchange: str, routing_key: str, now_ns: int) -> Outgoing:
    """`message`: the result of Channel.prepare_message."""
    headers, properties = message["headers"], message["properties"]
    body = message["body"]
    values = (
        _short(headers.get("task")),
        _short(headers.get("id")),
        exchange,
        routing_key,
        body.encode() if isinstance(body, str) else bytes(body),
        message["content-type"],
        message["content-encoding"],
        dumps(headers),
        dumps(properties),
        _expires_ns(properties.get("expiration"), now_ns),
    )
    return Outgoing(values, queue_priority(properties.get("priority")), scheduled_ns(headers.get("eta"), now_ns))


class Unreadable(ValueError):
    """A row that is no message of Kombu's: another client has written it. `id`: of the row."""

    def __init__(self, id_: int, reason: str) -> None:
        super().__init__(reason)
        self.id, self.reason = id_, f"not a message of Celery's: {reason}"[:REASON_CHARACTERS_MAX]


def delivery_of(row: Sequence[bytes | None]) -> Delivery:
    """What identifies the delivery of a row, even of an unreadable one."""
    return Delivery(int(row[0] or 0), int(row[1] or 0), _token(row))


def _token(row: Sequence[bytes | None]) -> int:
    return int(row[_FIELDS] or 0) if len(row) > _FIELDS else 0


def incoming(row: Sequence[bytes | None]) -> Incoming:
    """A row of `id`, `epoch`, COLUMNS, and perhaps the lease token, in the text protocol. Raises Unreadable."""
    number, attempt, _, _, exchange, routing_key, body, content_type, encoding, headers, properties, expires = row[
        :_FIELDS
    ]
    id_ = int(number or 0)

    def text(name: str, value: bytes | None) -> str | None:
        return _read(id_, name, lambda: None if value is None else value.decode())

    return Incoming(
        id=id_,
        attempt=int(attempt or 0),
        token=_token(row),
        exchange=text("exchange", exchange) or "",
        routing_key=text("routing_key", routing_key) or "",
        body=body or b"",
        content_type=text("content_type", content_type),
        content_encoding=text("content_encoding", encoding),
        headers=_checked(id_, _members(id_, "headers", headers)),
        properties=_members(id_, "properties", properties),
        expires_ns=_read(id_, "time_expires", lambda: None if expires is None else int(expires)),
    )


def _members(id_: int, name: str, value: bytes | None) -> dict[str, Any]:
    parsed = _read(id_, name, lambda: loads((value or b"{}").decode()))
    if not isinstance(parsed, dict):
        raise Unreadable(id_, f"{name} is no JSON object but {type(parsed).__name__}")
    return parsed


def _checked(id_: int, headers: dict[str, Any]) -> dict[str, Any]:
    """Celery parses this header in its event loop, where the message that caused an error is unknown."""
    limits = headers.get("timelimit")
    if limits is not None and not (
        isinstance(limits, list | tuple) and len(limits) == 2 and all(isinstance(n, int | float | None) for n in limits)
    ):
        raise Unreadable(id_, f"the header timelimit is no pair of numbers: {limits!r}")
    return headers


def _read(id_: int, name: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except Exception as error:  # Kombu's JSON creates objects, which may raise anything
        raise Unreadable(id_, f"{name} cannot be read: {type(error).__name__}: {error}") from error


class Message(KombuMessage):  # type: ignore[misc]
    """Celery acks what it cannot decode, so that it is not redelivered. Here it is rejected instead, with the error."""

    _fault: Exception | None = None

    def _decode(self) -> Any:
        try:
            return super()._decode()
        except Exception as error:
            self._fault = error
            raise

    def _reraise_error(self, callback: Any = None) -> None:
        self._fault = self.errors[0][1]
        super()._reraise_error(callback)

    def ack(self, multiple: bool = False) -> None:
        if self._fault is None or multiple or self.acknowledged:
            super().ack(multiple)
            return
        self.channel.reject_with_reason(
            self.delivery_tag, f"the body cannot be read: {self._fault!r}"[:REASON_CHARACTERS_MAX]
        )
        self._state = "REJECTED"


def delivered(message: Incoming, channel: Any, tag: int, consumer_tag: str | None) -> Message:
    """The message as Kombu passes it to a consumer."""
    return Message(
        body=message.body,
        channel=channel,
        delivery_tag=tag,
        content_type=message.content_type,
        content_encoding=message.content_encoding,
        headers=message.headers,
        properties=message.properties,
        delivery_info={
            "exchange": message.exchange,
            "routing_key": message.routing_key,
            "redelivered": message.attempt > 1,
            "consumer_tag": consumer_tag,
            "priority": message.properties.get("priority"),
        },
    )


def queue_priority(priority: Any) -> int:
    """AMQP: 0 to 9, 9 goes first, none is 0. A queue's: lower goes first, 50 is the default."""
    try:
        level = int(priority or 0)
    except (TypeError, ValueError, OverflowError):
        level = 0
    return PRIORITY_OF_NONE - min(max(level, 0), PRIORITY_MAX)


def scheduled_ns(eta: Any, now_ns: int) -> int | None:
    """When a task may begin, from Celery's header `eta`: ISO 8601 with an offset. None if it may begin now.

    An eta without an offset is in the time zone of the app, which is unknown here: the worker waits for it, as with any
    other broker.
    """
    if not isinstance(eta, str):
        return None
    try:
        moment = datetime.fromisoformat(eta)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    # In microseconds, the resolution of a datetime and of a queue's times: a float of nanoseconds would be rounded.
    ns = round(moment.timestamp() * 1_000_000) * 1000
    return min(ns, TIME_NS_MAX) if ns > now_ns else None


def _expires_ns(expiration: Any, now_ns: int) -> int | None:
    """AMQP's property `expiration`: milliseconds from now, as a string. Raises PreconditionFailed, as RabbitMQ does."""
    if expiration is None:
        return None
    try:
        return min((now_ns // 1000 + int(float(expiration) * 1000)) * 1000, TIME_NS_MAX)
    except (TypeError, ValueError, OverflowError) as error:
        raise PreconditionFailed(f"expiration is {expiration!r}: give milliseconds") from error


def _short(value: Any) -> str | None:
    return None if value is None else str(value)[:NAME_CHARACTERS_MAX]
