"""Which bindings of an exchange match a routing key, by the rules of AMQP 0-9-1. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

KINDS = frozenset({"direct", "topic", "fanout"})


def matches(kind: str, binding_key: str, routing_key: str) -> bool:
    """Whether the binding matches a message with that routing key. `kind` is one of KINDS."""
    match kind:
        case "direct":
            return binding_key == routing_key
        case "fanout":
            return True
        case "topic":
            return _topic(binding_key, routing_key)
    raise ValueError(f"exchanges of type {kind!r} are not supported")


@lru_cache(maxsize=4096)  # applications have few keys; the size is bounded for programs that generate them
def _topic(binding_key: str, routing_key: str) -> bool:
    return _words_match(binding_key.split("."), routing_key.split(".") if routing_key else [])


def _words_match(pattern: Sequence[str], words: Sequence[str]) -> bool:
    """`*` matches exactly one word, `#` any number of words.

    Row by row through the pattern, so that `#.#.#` costs the product of both lengths and no more.
    """
    reached = {0}  # how many words the pattern so far can match
    for part in pattern:
        if part == "#":
            reached = set(range(min(reached), len(words) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(words) and part in ("*", words[at])}
        if not reached:
            return False
    return len(words) in reached
