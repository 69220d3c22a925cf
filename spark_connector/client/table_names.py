"""Names of the connector's own tables for a queue."""

from __future__ import annotations

import hashlib

_NAME_MAX = 64


def companion_table(prefix: str, queue: str) -> str:
    """The prefix and the queue's name; names that are too long are shortened and get a digest."""
    name = prefix + queue
    if len(name) <= _NAME_MAX:
        return name
    digest = hashlib.sha256(queue.encode()).hexdigest()[:8]
    return f"{name[: _NAME_MAX - 9]}_{digest}"
