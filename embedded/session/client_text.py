"""The encodings of a client's text in both directions: from its login, SET NAMES and the variables that it sets."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from mysql_mimic.charset import CharacterSet, Collation

from engine.model.queue import ColumnMeta

DEFAULT_CHARSET = "utf8mb4"
_AS_STORED = frozenset((DEFAULT_CHARSET, "binary"))  # text columns keep their own collation


@dataclass(frozen=True, slots=True)
class ClientText:
    """Python's codecs for what a client sends and for what it is sent, and the collation of text that was converted."""

    reads: str = "utf-8"
    writes: str = "utf-8"
    collation: int | None = None

    def described(self, columns: Sequence[ColumnMeta]) -> tuple[ColumnMeta, ...]:
        """The columns as the client receives their values."""
        if self.collation is None:
            return tuple(columns)
        return tuple(replace(c, charset=self.collation) if c.is_text else c for c in columns)


@lru_cache(maxsize=256)
def client_text(client: str, results: str) -> ClientText:
    """For character_set_client and character_set_results."""
    known = CharacterSet.__members__.get("utf8" if results in ("utf8", "utf8mb3") else results)
    collation = None if known is None or results in _AS_STORED else int(known.default_collation)
    return ClientText(_codec(client), _codec(results), collation)


def charset_of(collation_id: int) -> str:
    """The character set of the collation that a client named when it logged in; the default where none can be had."""
    try:
        name = Collation(collation_id).charset.name
    except ValueError:
        return DEFAULT_CHARSET
    wide = name.startswith(("utf16", "utf32", "ucs2"))  # as in MySQL, no client's
    return DEFAULT_CHARSET if wide or _codec(name) == "utf-8" else name


def _codec(charset: str) -> str:
    """UTF-8 where Python does not know the character set, and for bytes."""
    if charset == "latin1":
        return "cp1252"  # which is what MySQL means by it
    try:
        return codecs.lookup(CharacterSet[charset].codec).name if charset not in _AS_STORED else "utf-8"
    except (KeyError, LookupError):
        return "utf-8"
