"""Quoted names for SQL. Values are bound by PyMySQL."""

from __future__ import annotations

from collections.abc import Iterable


def quoted(*names: str) -> str:
    """A quoted name, qualified if several are given."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def escaped(*names: str) -> str:
    """The same for a statement with placeholders: `%` is doubled."""
    return quoted(*names).replace("%", "%%")


def numbers(ids: Iterable[int]) -> str:
    """A list of ids for ACK and similar statements."""
    return ", ".join(str(int(each)) for each in ids)
