"""What is kept of a message's failed attempts: the column failed_attempts, a JSON array with one object in a line.

    [{"attempt": 1, "at": "2026-11-25 19:00:00.123456", "outcome": "nacked", "receiver": "mailer-3",
      "user": "app@10.0.0.7", "connection": 42, "error": "HTTP 429"}]

`at` is UTC. Fields that are not known are left out. A line break stands between two objects and nowhere else, for JSON
has none inside a string; so what reads or shortens the array in SQL needs no JSON functions. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from engine.model.queue import SubscribeRequest

ATTEMPTS_TYPE = "MEDIUMTEXT CHARACTER SET utf8mb4 NULL"
"""What the column is made as. A TEXT would be too short: a character of an error may take six bytes of JSON."""

NACKED, REJECTED, EXPIRED, RECEIVER_GONE = "nacked", "rejected", "lease expired", "receiver gone"
"""How a delivery failed: two are said by a receiver, two are found."""

SEPARATOR = ",\n"
"""What stands between two objects of the array."""

_NS_PER_US, _US_PER_SECOND = 1000, 1_000_000


def member(name: str, value: str | int | None) -> str:
    """One field of an object with the comma before it; empty where the value is not known."""
    if value is None or value == "":
        return ""
    return f', "{name}": {json.dumps(value, ensure_ascii=False)}'


def who(name: str, user: str, connection_id: int) -> str:
    """The fields that say who had the message, as `member` writes them. `name`: the receiver's own, or its program's;
    `user`: its account, with the address that it came from."""
    return f"{member('receiver', name)}{member('user', user)}{member('connection', connection_id or None)}"


def who_received(receiver: SubscribeRequest | None) -> str:
    """The same of a receiver; empty where it is not known."""
    if receiver is None:
        return ""
    user = f"{receiver.user}@{receiver.host.rsplit(':', 1)[0]}" if receiver.user else ""
    return who(receiver.consumer, user, receiver.connection_id)


def failure(attempt: int, at_ns: int, outcome: str, receiver: SubscribeRequest | None) -> str:
    """One object, of a failure that nobody has reported. `at_ns`: nanoseconds since the epoch."""
    micros = at_ns // _NS_PER_US
    at = datetime.fromtimestamp(micros // _US_PER_SECOND, UTC).strftime("%Y-%m-%d %H:%M:%S")
    head = f'{{"attempt": {attempt}, "at": "{at}.{micros % _US_PER_SECOND:06d}"'
    return f"{head}{member('outcome', outcome)}{who_received(receiver)}}}"


def with_failure(kept: str | None, added: str, most: int) -> str:
    """The array with one object more, of which the last `most` are kept. What is no such array begins anew."""
    before = kept[1:-1].split(SEPARATOR) if kept and kept.startswith("[{") and kept.endswith("}]") else []
    return f"[{SEPARATOR.join([*before, added][-most:])}]"


def in_words(failed: Mapping[str, object]) -> str:
    """One failure as a line for people; fields that are not there are left out."""
    place = ", ".join(
        str(text)
        for text in (failed.get("user"), f"connection {failed['connection']}" if "connection" in failed else None)
        if text
    )
    by = " ".join(str(text) for text in (failed.get("receiver"), f"({place})" if place else None) if text)
    error = f": {failed['error']}" if failed.get("error") else ""
    return f"{failed.get('outcome', 'failed')} at {failed.get('at', '?')}{f' by {by}' if by else ''}{error}"


def failures(kept: str) -> list[dict[str, object]]:
    """The array, read. Empty where somebody has written something else."""
    try:
        read = json.loads(kept)
    except ValueError:
        return []
    return [each for each in read if isinstance(each, dict)] if isinstance(read, list) else []
