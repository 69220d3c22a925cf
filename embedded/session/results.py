"""What a statement answers: rows in batches, or counts. And how stored values become the values of their MySQL type."""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from embedded.compile.errors import SqlError
from embedded.compile.plan import ResultColumn
from embedded.compile.values.numbers import to_text
from embedded.compile.values.types import Kind, SqlType
from embedded.compile.values.wide_decimal import decode
from engine.model.queue import ColumnMeta

_EXACT = 1 << 53  # whole numbers up to here survive SQLite's 8-byte numbers
_WIDE = Context(prec=130)  # twice MySQL's 65 digits
_UNSIGNED_MASK = 0xFFFFFFFFFFFFFFFF

Row = tuple[Any, ...]
Decoder = Callable[[Any], Any]
RowDecoder = Callable[[list[Row]], list[Row]]


@dataclass(frozen=True, slots=True)
class OkResult:
    """The answer of a statement without rows."""

    affected_rows: int = 0
    last_insert_id: int = 0
    warnings: int = 0
    info: str = ""


@dataclass(frozen=True, slots=True)
class RowsResult:
    """The answer of a query. `batches` yields lists of rows and must be read to its end or closed. `stop` makes the
    reading of these rows, and nothing else of the session, end in 1317."""

    columns: tuple[ColumnMeta, ...]
    batches: AsyncIterator[list[Row]]
    warnings: int = 0
    stop: Callable[[], None] = lambda: None

    async def close(self) -> None:
        """Give up what the rows hold, also where none has been read. May be called twice."""
        closer = getattr(self.batches, "aclose", None)
        if closer is not None:
            await closer()


@dataclass(eq=False, slots=True)
class ClosingRows:
    """Rows of a generator whose `end` runs at `aclose` in any case: the `finally` of one never begun does not."""

    rows: AsyncGenerator[list[Row], None]
    end: Callable[[], Awaitable[None]]

    def __aiter__(self) -> ClosingRows:
        return self

    async def __anext__(self) -> list[Row]:
        return await anext(self.rows)

    async def aclose(self) -> None:
        """Close the generator, then what it reads from."""
        try:
            await self.rows.aclose()
        finally:
            await self.end()


@dataclass(frozen=True, slots=True)
class PreparedInfo:
    """What is known of a statement before it runs; `columns` is empty where that depends on its parameters."""

    parameter_count: int
    columns: tuple[ColumnMeta, ...]


def row_decoder(columns: Sequence[ResultColumn]) -> RowDecoder:
    """The function that turns stored rows into MySQL's values; rows of plain columns are passed as they are."""
    decoders = [(position, decoder(column.type)) for position, column in enumerate(columns)]

    def decode(rows: list[Row]) -> list[Row]:
        result = []
        for row in rows:
            values = list(row)
            for position, convert in decoders:
                value = values[position]
                if value is not None:
                    values[position] = convert(value)
            result.append(tuple(values))
        return result

    return decode


def decoder(sql_type: SqlType) -> Decoder:
    """How one non-NULL value of this type is read."""
    match sql_type.kind:
        case Kind.INT | Kind.YEAR:
            return _unsigned if sql_type.unsigned else _integer
        case Kind.BITS:
            return lambda value: int(value) & _UNSIGNED_MASK
        case Kind.DECIMAL:
            return _decimal_decoder(sql_type.scale)
        case Kind.EXACT:
            unit = Decimal(1).scaleb(-sql_type.scale)
            return lambda value: _without_sign_of_zero(decode(value).quantize(unit, ROUND_HALF_UP, _WIDE))
        case Kind.DOUBLE:
            return single_precision if sql_type.name == "float" else lambda value: float(value) + 0.0  # no -0.0
        case Kind.DATE:
            return lambda value: date.fromisoformat(value[:10])
        case Kind.DATETIME | Kind.TIMESTAMP:
            return datetime.fromisoformat
        case Kind.TIME:
            return lambda value: timedelta(microseconds=value)
        case Kind.BIT:
            size = ((sql_type.size or 1) + 7) // 8
            return lambda value: int(value).to_bytes(size, "big")
        case Kind.BINARY:
            return lambda value: value if isinstance(value, bytes) else to_text(value).encode()
        case Kind.STRING | Kind.ENUM | Kind.JSON:
            return _text
        case _:
            return _as_stored


def single_precision(value: Any) -> float:
    """The shortest number that is the same FLOAT."""
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        if struct.pack("f", short) == struct.pack("f", value):
            return short
    return float(value)


def _without_sign_of_zero(number: Decimal) -> Decimal:
    return number if number else number.copy_abs()


def _as_stored(value: Any) -> Any:
    return value


def _integer(value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, float) and value == int(value) and abs(value) < _EXACT:
        return int(value)
    raise SqlError(1690, "BIGINT value is out of range")


def _unsigned(value: Any) -> int:
    number = _integer(value)
    if number < 0:
        raise SqlError(1690, "BIGINT UNSIGNED value is out of range")
    return number


def _text(value: Any) -> Any:
    if type(value) is str:
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else to_text(value)


def _decimal_decoder(scale: int) -> Decoder:
    unit = Decimal(1).scaleb(-scale)

    def decode(value: Any) -> Decimal:
        number = Decimal(repr(value) if isinstance(value, float) else value)
        if isinstance(value, float) and abs(number.scaleb(scale)) > _EXACT:
            raise SqlError(1690, "DECIMAL value is out of range: the embedded backend keeps 15 digits")
        rounded = number.quantize(unit, ROUND_HALF_UP)
        return rounded if rounded else rounded.copy_abs()

    return decode


async def one_batch(rows: list[Row]) -> AsyncIterator[list[Row]]:
    """A result that is already there."""
    if rows:
        yield rows


def fixed_rows(columns: Sequence[ResultColumn], rows: list[Row], warnings: int = 0) -> RowsResult:
    """A small result made by the session itself."""
    return RowsResult(tuple(column.meta for column in columns), one_batch(rows), warnings)
