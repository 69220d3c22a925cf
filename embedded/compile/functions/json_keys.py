"""JSON values as bytes that sort as MySQL compares JSON, so that SQLite compares, sorts and groups them without help.

By type first: NULL, numbers, strings, objects, arrays, booleans. Numbers by value, strings by their characters' codes,
arrays element by element. Two objects are equal if they have the same members; which of two objects is less
is not defined.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from embedded.compile.functions.context import CallContext
from embedded.compile.functions.json import loads
from embedded.compile.functions.scalar import scalar
from embedded.compile.values.wide_decimal import decode

_NULL, _NUMBER, _STRING, _OBJECT, _ARRAY, _BOOLEAN = (bytes((code,)) for code in range(1, 7))
_END = b"\0"  # less than any type
_BIAS = 50_000  # makes every exponent a number of five digits
_INFINITE = 99_999  # more than any exponent; no document has such a number, but a DOUBLE compared with one may
_COMPLEMENT = bytes.maketrans(b"0123456789", b"9876543210")


@scalar(large_result=True)
def json_key(context: CallContext, document: Any) -> bytes:
    """The key of a JSON text."""
    return _key(loads(document))


@scalar(large_result=True)
def json_text_key(context: CallContext, text: Any) -> bytes:
    """The key of an SQL text, which is a JSON string."""
    return _key(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text))


@scalar()
def json_number_key(context: CallContext, number: Any) -> bytes:
    """The key of an SQL number."""
    return _number(decode(number) if isinstance(number, str) else Decimal(repr(number)))


@scalar()
def json_truth_key(context: CallContext, truth: int) -> bytes:
    """The key of what an SQL condition yields."""
    return _key(bool(truth))


def _key(value: Any) -> bytes:
    match value:
        case None:
            return _NULL
        case bool():
            return _BOOLEAN + bytes((value,))
        case int() | float():
            return _number(Decimal(repr(value)))
        case str():
            return _string(value)
        case list():
            return _ARRAY + b"".join(map(_key, value)) + _END
        case dict():
            members = (_string(name) + _key(value[name]) for name in sorted(value))
            return _OBJECT + f"{len(value):08}".encode() + b"".join(members) + _END
    raise TypeError(type(value))


def _string(text: str) -> bytes:
    return _STRING + text.encode("utf-8", "surrogatepass").replace(b"\0", b"\0\xff") + b"\0\0"


def _number(number: Decimal) -> bytes:
    if not number:
        return _NUMBER + b"1" + _END
    digits = "".join(map(str, number.as_tuple().digits)).lstrip("0").rstrip("0")
    exponent = _INFINITE if number.is_infinite() else number.adjusted() + _BIAS
    body = f"{exponent:05}{digits}".encode()
    if number < 0:
        return _NUMBER + b"0" + body.translate(_COMPLEMENT) + b"~" + _END
    return _NUMBER + b"2" + body + _END


class _Extreme:
    """MIN or MAX of JSON."""

    sign = 1

    def __init__(self) -> None:
        self.best: tuple[bytes, Any] | None = None

    def step(self, document: Any) -> None:
        if document is None:
            return
        key = _key(loads(document))
        if self.best is None or (key < self.best[0] if self.sign < 0 else key > self.best[0]):
            self.best = key, document

    def finalize(self) -> Any:
        return None if self.best is None else self.best[1]


class JsonMax(_Extreme):
    """MAX."""


class JsonMin(_Extreme):
    """MIN."""

    sign = -1
