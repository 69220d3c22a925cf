"""The form in which a stream's rows reach a client: its charset and time zone, and the text or binary protocol. Pure.

The engine reads messages as utf8mb4. A client that asked for another charset gets its text, and column definitions that
say so, in that one, as from the server itself; a character it cannot hold becomes '?', as in MySQL. The engine reads
a TIMESTAMP as seconds since the epoch; a client gets what its clock shows at that moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from mysql_mimic.charset import CharacterSet

from engine.model.queue import TIMESTAMP_TYPE, ColumnMeta, TextValue
from mysql_wire import replies
from mysql_wire.flags import encoding_named

_EPOCH = datetime(1970, 1, 1)
_UNCONVERTED = frozenset(("utf8mb4", "utf8mb3", "utf8", "binary"))


class ClientZone(Protocol):
    """A time zone: by how many seconds its clocks are ahead of UTC, at moments that were learned."""

    async def load(self, moments: Collection[int]) -> None:
        """Raises BackendError."""
        ...

    def offset(self, moment: int) -> int: ...


def is_moment(column: ColumnMeta) -> bool:
    """Whether what the column's values show depends on the time zone."""
    return column.type == TIMESTAMP_TYPE


def _is_seconds(value: bytes) -> bool:
    return value.replace(b".", b"", 1).isdigit()


def _counted(moment: int) -> int:
    """A moment of which the database knows what clocks showed: not of the first second of all, which is no time."""
    return max(moment, 1)


def moment_text(value: bytes, zone: ClientZone) -> bytes:
    """A moment, in seconds since the epoch, as a clock shows it; 0 is MySQL's zero date."""
    whole, point, fraction = value.partition(b".")
    seconds = int(whole)
    if not seconds and not fraction.strip(b"0"):
        return b"0000-00-00 00:00:00" + point + fraction
    shown = _EPOCH + timedelta(seconds=seconds + zone.offset(_counted(seconds)))
    return shown.isoformat(" ").encode() + point + fraction


def result_codec(charset: str) -> str:
    """What text is sent in. Of the few sets that Python does not know only the ASCII part can be, and always."""
    codec = encoding_named(charset, of_result=True)
    return "ascii" if codec == "utf-8" else codec


class RowForm:
    """Encodes rows of these columns. `charset` is MySQL's name for it; None or a Unicode one leaves values alone.
    `zone`: where a column is a moment; rows are given to `ready` first then."""

    def __init__(
        self, columns: Sequence[ColumnMeta], charset: str | None, *, binary: bool, zone: ClientZone | None = None
    ) -> None:
        self.columns = tuple(columns)
        self._zone = zone
        self._moments = [] if zone is None else [at for at, column in enumerate(columns) if is_moment(column)]
        self._binary = binary
        self._codec = None
        if charset is not None and charset not in _UNCONVERTED and charset in CharacterSet.__members__:
            known = CharacterSet[charset]
            self._codec = result_codec(charset)
            self._text = [column.is_text for column in columns]
            collation = int(known.default_collation)
            self.columns = tuple(replace(c, charset=collation) if c.is_text else c for c in columns)

    @property
    def encoding(self) -> str:
        """Python's codec of what the client is sent, names of columns included."""
        return self._codec or "utf-8"

    async def ready(self, rows: Iterable[Sequence[TextValue]]) -> None:
        """See to it that these rows can be encoded. Raises BackendError."""
        if self._zone is not None and self._moments:
            values = (row[at] for row in rows for at in self._moments)
            moments = {int(value.partition(b".")[0]) for value in values if value and _is_seconds(value)}
            await self._zone.load({_counted(moment) for moment in moments})

    def __call__(self, row: Sequence[TextValue]) -> bytes:
        """One row's packet."""
        if self._zone is not None and self._moments:
            row = self._shown(row, self._zone)
        if self._codec is not None:
            row = self._converted(row, self._codec)
        return replies.binary_row_from_text(row, self.columns) if self._binary else replies.text_row(row)

    def _shown(self, row: Sequence[TextValue], zone: ClientZone) -> Sequence[TextValue]:
        values = list(row)
        for at in self._moments:
            value = values[at]
            if value and _is_seconds(value):
                values[at] = moment_text(value, zone)
        return values

    def _converted(self, row: Sequence[TextValue], codec: str) -> list[TextValue]:
        return [
            value.decode("utf-8", "replace").encode(codec, "replace") if text and value is not None else value
            for value, text in zip(row, self._text, strict=True)
        ]
