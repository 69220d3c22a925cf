"""Sets of words, written as one line of text."""

from __future__ import annotations


def keywords(text: str) -> frozenset[str]:
    """The words of the text."""
    return frozenset(text.split())
