"""The form in which a stream's rows reach a client: its charset, and the text or binary protocol. Pure.

The engine reads messages as utf8mb4. A client that asked for another charset gets its text, and column definitions that
say so, in that one, as from the server itself; a character it cannot hold becomes '?', as in MySQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mysql_mimic.charset import CharacterSet

from engine.model.queue import ColumnMeta, TextValue
from proxy.wire import replies
from proxy.wire.flags import encoding_named

_BINARY = 63
_UNCONVERTED = frozenset(("utf8mb4", "utf8mb3", "utf8", "binary"))
_TEXT_TYPES = frozenset((15, 245, 247, 248, 249, 250, 251, 252, 253, 254))  # VARCHAR, JSON, ENUM, SET, BLOBs, STRINGs


def is_text(column: ColumnMeta) -> bool:
    """Whether the column's values are characters, not bytes or numbers."""
    return column.type in _TEXT_TYPES and column.charset != _BINARY


def result_codec(charset: str) -> str:
    """What text is sent in. Of the few sets that Python does not know only the ASCII part can be, and always."""
    codec = encoding_named(charset)
    return "ascii" if codec == "utf-8" else codec


class RowForm:
    """Encodes rows of these columns. `charset` is MySQL's name for it; None or a Unicode one leaves values alone."""

    def __init__(self, columns: Sequence[ColumnMeta], charset: str | None, *, binary: bool) -> None:
        self.columns = tuple(columns)
        self._binary = binary
        self._codec = None
        if charset is not None and charset not in _UNCONVERTED and charset in CharacterSet.__members__:
            known = CharacterSet[charset]
            self._codec = result_codec(charset)
            self._text = [is_text(column) for column in columns]
            collation = int(known.default_collation)
            self.columns = tuple(replace(c, charset=collation) if is_text(c) else c for c in columns)

    @property
    def encoding(self) -> str:
        """Python's codec of what the client is sent, names of columns included."""
        return self._codec or "utf-8"

    def __call__(self, row: Sequence[TextValue]) -> bytes:
        """One row's packet."""
        if self._codec is not None:
            row = self._converted(row, self._codec)
        return replies.binary_row_from_text(row, self.columns) if self._binary else replies.text_row(row)

    def _converted(self, row: Sequence[TextValue], codec: str) -> list[TextValue]:
        return [
            value.decode("utf-8", "replace").encode(codec, "replace") if text and value is not None else value
            for value, text in zip(row, self._text, strict=True)
        ]
