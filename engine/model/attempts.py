"""The record of a message's failed attempts: the column failed_attempts, a JSON array with one object in each line.

    [{"attempt": 1, "at": "2026-11-25 19:00:00.123456", "outcome": "nacked", "receiver": "mailer-3",
      "user": "app@10.0.0.7", "connection": 42, "error": "HTTP 429"}]

`at` is UTC. Unknown fields are left out. A line break is between two objects and nowhere else, for JSON has none inside
a string; so SQL that reads or shortens the array needs no JSON functions. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from engine.model.queue import ReceiverIdentity

ATTEMPTS_TYPE = "MEDIUMTEXT CHARACTER SET utf8mb4 NULL"
"""The type of the column. A TEXT would be too short: a character of an error may take six bytes of JSON."""

NACKED, REJECTED, EXPIRED, RECEIVER_GONE = "nacked", "rejected", "lease expired", "receiver gone"
"""How a delivery failed: two are reported by a receiver, two are detected."""

SEPARATOR = ",\n"
"""The text between two objects of the array."""

_NS_PER_US, _US_PER_SECOND = 1000, 1_000_000


def member(name: str, value: str | int | None) -> str:
    """One field of an object with the comma before it; empty where the value is not known."""
    if value is None or value == "":
        return ""
    return f', "{name}": {json.dumps(value, ensure_ascii=False)}'


def receiver_members(name: str, user: str, connection_id: int) -> str:
    """The fields that identify the receiver, as `member` writes them. `name`: the receiver's own, or its program's;
    `user`: its account, with its address."""
    return f"{member('receiver', name)}{member('user', user)}{member('connection', connection_id or None)}"


def request_members(receiver: ReceiverIdentity | None) -> str:
    """The same for a request; empty where it is not known."""
    if receiver is None:
        return ""
    user = f"{receiver.user}@{receiver.host.rsplit(':', 1)[0]}" if receiver.user else ""
    return receiver_members(receiver.consumer, user, receiver.connection_id)


def failure(attempt: int, at_ns: int, outcome: str, receiver: ReceiverIdentity | None) -> str:
    """One object, for a failure that no receiver has reported. `at_ns`: nanoseconds since the epoch."""
    micros = at_ns // _NS_PER_US
    at = datetime.fromtimestamp(micros // _US_PER_SECOND, UTC).strftime("%Y-%m-%d %H:%M:%S")
    head = f'{{"attempt": {attempt}, "at": "{at}.{micros % _US_PER_SECOND:06d}"'
    return f"{head}{member('outcome', outcome)}{request_members(receiver)}}}"


def with_failure(stored: str | None, added: str, most: int) -> str:
    """The array with one more object, limited to the last `most`. Anything else is replaced by a new array."""
    before = stored[1:-1].split(SEPARATOR) if stored and stored.startswith("[{") and stored.endswith("}]") else []
    return f"[{SEPARATOR.join([*before, added][-most:])}]"


def describe_failure(failed: Mapping[str, object]) -> str:
    """One failure as a readable line; missing fields are left out."""
    place = ", ".join(
        str(text)
        for text in (failed.get("user"), f"connection {failed['connection']}" if "connection" in failed else None)
        if text
    )
    by = " ".join(str(text) for text in (failed.get("receiver"), f"({place})" if place else None) if text)
    error = f": {failed['error']}" if failed.get("error") else ""
    return f"{failed.get('outcome', 'failed')} at {failed.get('at', '?')}{f' by {by}' if by else ''}{error}"


def failures(stored: str) -> list[dict[str, object]]:
    """The parsed array, of each object the fields that are text or whole numbers, as all of its own are. Empty where
    the column contains something else."""
    try:
        read = json.loads(stored)
    except (ValueError, RecursionError):
        return []
    objects = [each for each in read if isinstance(each, dict)] if isinstance(read, list) else []
    return [
        {_whole(name): _whole(value) for name, value in each.items() if isinstance(value, str | int)}
        for each in objects
    ]


def _whole(value: Any) -> Any:
    """Without half characters of UTF-16, which JSON can have and no protocol carries."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
