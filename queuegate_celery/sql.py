"""Names as SQL writes them. Values are bound by PyMySQL."""

from __future__ import annotations

from collections.abc import Iterable


def quoted(*names: str) -> str:
    """A name, or a name of names."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def placed(*names: str) -> str:
    """The same in a statement that has placeholders."""
    return quoted(*names).replace("%", "%%")


def numbers(ids: Iterable[int]) -> str:
    """Ids as ACK and its like take them."""
    return ", ".join(str(int(each)) for each in ids)
