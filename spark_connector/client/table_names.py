"""Names of the connector's own tables for a queue."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from urllib.parse import unquote

# The name of a queue's dead-letter queue, by the proxy's rules: the option `dead_letter`, or the suffix `_dead`.
#
# The connector is installed without the proxy, so the rule is duplicated here; a test compares the two.

_NAME_CHARACTERS = 64
_FILE_BYTES_MAX = 240  # of a table's file name, in which most other characters take five bytes


def dead_letter_name(queue: str, options: Mapping[str, str]) -> str:
    """The name of the dead-letter queue; `options`: the queue's, from its table's comment."""
    named = options.get("dead_letter")
    return unquote(named) if named else _default(queue)


def _default(queue: str) -> str:
    name = f"{queue}_dead"
    if len(name) <= _NAME_CHARACTERS and _file_bytes(name) <= _FILE_BYTES_MAX:
        return name
    ending = f"_{_digest(queue)}_dead"
    stem = queue[: _NAME_CHARACTERS - len(ending)]
    while _file_bytes(stem + ending) > _FILE_BYTES_MAX:
        stem = stem[:-1]
    return stem + ending


def _file_bytes(name: str) -> int:
    return sum(1 if c.isascii() and (c.isalnum() or c == "_") else 5 for c in name)


def _digest(queue: str) -> str:
    return hashlib.sha256(queue.encode()).hexdigest()[:8]


def companion_table(prefix: str, queue: str) -> str:
    """The prefix and the queue's name; names that are too long are shortened and get a digest."""
    name = prefix + queue
    return name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 9]}_{_digest(queue)}"
