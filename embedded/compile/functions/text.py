"""Text functions."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import uuid
import zlib
from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import wraps
from sys import getsizeof
from typing import Any, TypeVar, cast

from embedded.compile.errors import SqlError
from embedded.compile.functions.context import CallContext
from embedded.compile.functions.scalar import scalar
from embedded.compile.values.numbers import to_text

F = TypeVar("F", bound=Callable[..., Any])

_MAX_RESULT = 32 * 1024 * 1024  # characters a text function may produce; to copy more takes longer than others may wait
_STRIDE = 1 << 20  # characters whose case is changed in one call
_FORMAT_DECIMALS = 38  # that FORMAT() shows at most
_LONG = Context(prec=400, rounding=ROUND_HALF_UP)  # more digits than the largest number has, and its decimals
_SHA2 = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}
_SOUNDEX = {
    letter: digit
    for letters, digit in (("BFPV", "1"), ("CGJKQSXZ", "2"), ("DT", "3"), ("L", "4"), ("MN", "5"), ("R", "6"))
    for letter in letters
}


def _also_of_bytes(function: F) -> F:
    """Of bytes it is made with a character for each byte, as MySQL treats binary text."""

    def called(context: CallContext, *args: Any) -> Any:
        if not any(isinstance(arg, bytes) for arg in args):
            return function(context, *args)
        result = function(context, *map(_characters, args))
        return result.encode("latin-1") if isinstance(result, str) else result

    return cast(F, wraps(function)(called))


def _characters(arg: Any) -> Any:
    octets = arg.encode() if isinstance(arg, str) else arg
    return octets.decode("latin-1") if isinstance(octets, bytes) else arg


@scalar(large_result=True)
def lower(context: CallContext, text: Any) -> Any:
    return text if isinstance(text, bytes) else "".join(part.lower() for part in _parts(to_text(text)))


@scalar(large_result=True)
def upper(context: CallContext, text: Any) -> Any:
    return text if isinstance(text, bytes) else "".join(part.upper() for part in _parts(to_text(text)))


def _parts(text: str) -> Iterable[str]:
    if len(text) <= _STRIDE:
        return (text,)
    return (text[start : start + _STRIDE] for start in range(0, len(text), _STRIDE))


@scalar(large_result=True)
def concat_bytes(context: CallContext, *parts: Any) -> bytes:
    return b"".join(part if isinstance(part, bytes) else to_text(part).encode() for part in parts)


@scalar(large_result=True)
def concat(context: CallContext, *parts: Any) -> str:
    context.check_allocation(sum(map(getsizeof, parts)))
    return "".join(map(_text, parts))


@scalar("held", large_result=True)
def counted_value(context: CallContext, value: Any) -> Any:
    """The result of one of SQLite's own functions, unchanged; its size is counted here."""
    return value


@scalar(large_result=True)
@_also_of_bytes
def replace(context: CallContext, text: Any, old: Any, new: Any) -> str:
    return _replaced(context, _text(text), _text(old), _text(new))


def _replaced(context: CallContext, text: str, old: str, new: str) -> str:
    if not old:
        return text
    _grown(context, text, new, text.count(old) * (len(new) - len(old)))
    return text.replace(old, new)


def _grown(context: CallContext, text: str, new: str, more: int) -> None:
    """Raises SqlError where the text may not become longer by so many characters, those of `new` among them."""
    each = 1 if text.isascii() and new.isascii() else 4
    context.check_allocation(each * (len(text) + more))


@scalar(large_result=True)
def hex(context: CallContext, data: Any) -> str:
    octets: bytes = data if isinstance(data, bytes) else _text(data).encode()
    context.check_allocation(2 * len(octets))
    return octets.hex().upper()


@scalar(null_aware=True, splits=True, large_result=True)
@_also_of_bytes
def concat_ws(context: CallContext, separator: str | None, *parts: Any) -> str | None:
    """CONCAT_WS: NULLs are left out."""
    if separator is None:
        return None
    return separator.join(_text(part) for part in parts if part is not None)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else to_text(value)


@scalar(large_result=True)
def substring(context: CallContext, text: Any, start: int, length: int | None = None) -> Any:
    """SUBSTRING: positions count from 1, or from the end when negative; 0 is nowhere."""
    empty = text[:0]
    if start == 0 or (length is not None and length <= 0) or start < -len(text):
        return empty
    first = start - 1 if start > 0 else len(text) + start
    return text[first:] if length is None else text[first : first + length]


@scalar(large_result=True)
def left(context: CallContext, text: Any, count: int) -> Any:
    return text[: max(0, count)]


@scalar(large_result=True)
def right(context: CallContext, text: Any, count: int) -> Any:
    return text[-count:] if count > 0 else text[:0]


@scalar()
@_also_of_bytes
def locate(context: CallContext, part: str, text: str, start: int, exact: int) -> int:
    if start < 1 or start > len(text) + 1:
        return 0
    if not exact:
        part, text = part.lower(), text.lower()
    return text.find(part, start - 1) + 1


@scalar()
@_also_of_bytes
def strcmp(context: CallContext, one: str, other: str, exact: int) -> int:
    if not exact:
        one, other = one.lower(), other.lower()
    return (one > other) - (one < other)


@scalar(splits=True)
@_also_of_bytes
def find_in_set(context: CallContext, text: str, listed: str, exact: int) -> int:
    if not exact:
        text, listed = text.lower(), listed.lower()
    members = listed.split(",") if listed else []
    return members.index(text) + 1 if text in members else 0


@scalar(splits=True, large_result=True)
@_also_of_bytes
def substring_index(context: CallContext, text: str, delimiter: str, count: int) -> str:
    if not delimiter or count == 0:
        return ""
    parts = text.split(delimiter)
    return delimiter.join(parts[:count] if count > 0 else parts[count:])


def _sized(length: int) -> int:
    if length > _MAX_RESULT:
        raise SqlError(1301, f"Result of a text function was larger than max_allowed_packet ({_MAX_RESULT})")
    return length


@scalar(large_result=True)
@_also_of_bytes
def lpad(context: CallContext, text: str, length: int, pad: str) -> str | None:
    return _padding(context, text, length, pad, True)


@scalar(large_result=True)
@_also_of_bytes
def rpad(context: CallContext, text: str, length: int, pad: str) -> str | None:
    return _padding(context, text, length, pad, False)


def _padding(context: CallContext, text: str, length: int, pad: str, before: bool) -> str | None:
    if length < 0:
        return None
    missing = _sized(length) - len(text)
    if missing <= 0:
        return text[:length]
    _grown(context, text, pad, missing)
    if not pad:
        return ""
    filled = (pad * (missing // len(pad) + 1))[:missing]
    return filled + text if before else text + filled


@scalar(large_result=True)
def repeat(context: CallContext, text: str, count: int) -> str:
    count = max(0, count)
    _sized(len(text) * count)
    context.check_allocation((1 if text.isascii() else 4) * len(text) * count)
    return text * count


@scalar(large_result=True)
def space(context: CallContext, count: int) -> str:
    context.check_allocation(_sized(max(0, count)))
    return " " * max(0, count)


@scalar(large_result=True)
@_also_of_bytes
def insert(context: CallContext, text: str, position: int, length: int, new: str) -> str:
    if position < 1 or position > len(text):
        return text
    if length < 0 or position + length > len(text):
        return text[: position - 1] + new
    return text[: position - 1] + new + text[position - 1 + length :]


@scalar(large_result=True)
def reverse(context: CallContext, text: str) -> str:
    return text[::-1]


@scalar("ascii")
def first_byte(context: CallContext, text: str | bytes) -> int:
    return (text if isinstance(text, bytes) else text.encode())[0] if text else 0


@scalar("ord")
def ord_text(context: CallContext, text: str | bytes) -> int:
    if isinstance(text, bytes):
        return first_byte(context, text)
    return int.from_bytes(text[0].encode(), "big") if text else 0


@scalar(null_aware=True, splits=True, large_result=True)
@_also_of_bytes
def quote(context: CallContext, text: str | None) -> str:
    if text is None:
        return "NULL"
    for plain, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\0", "\\0"), ("\x1a", "\\Z")):
        text = text.replace(plain, escaped)
    return f"'{text}'"


@scalar(null_aware=True, splits=True, large_result=True)
def elt(context: CallContext, number: int | None, *values: Any) -> Any:
    return values[number - 1] if number is not None and 1 <= number <= len(values) else None


@scalar(splits=True, large_result=True)
@_also_of_bytes
def trim(context: CallContext, side: str, text: str, part: str) -> str:
    if not part:
        return text
    first, last = 0, len(text)
    if side != "rtrim":
        while text.startswith(part, first, last):
            first += len(part)
    if side != "ltrim":
        while text.endswith(part, first, last):
            last -= len(part)
    return text[first:last]


@scalar(null_aware=True, splits=True, large_result=True)
def char(context: CallContext, *codes: int | None) -> bytes:
    numbers = (code & 0xFFFFFFFF for code in codes if code is not None)
    return b"".join(code.to_bytes(max(1, (code.bit_length() + 7) // 8), "big") for code in numbers)


@scalar(splits=True, large_result=True)
def to_base64(context: CallContext, data: bytes) -> str:
    text = base64.b64encode(data).decode()
    return "\n".join(text[start : start + 76] for start in range(0, len(text), 76))


@scalar(splits=True, large_result=True)
def from_base64(context: CallContext, text: str) -> bytes | None:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


@scalar()
def md5(context: CallContext, data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


@scalar()
def sha1(context: CallContext, data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


@scalar()
def sha2(context: CallContext, data: bytes, bits: int) -> str | None:
    name = _SHA2.get(bits)
    return hashlib.new(name, data).hexdigest() if name is not None else None


@scalar(deterministic=False)
def random_bytes(context: CallContext, count: int) -> bytes:
    if not 1 <= count <= 1024:
        raise SqlError(1690, "length value is out of range in 'random_bytes'")
    return os.urandom(count)


@scalar()
def crc32(context: CallContext, data: bytes) -> int:
    return zlib.crc32(data)


@scalar(splits=True, large_result=True)
def unhex(context: CallContext, text: str) -> bytes | None:
    try:
        return bytes.fromhex(text if len(text) % 2 == 0 else "0" + text) if not re.search(r"\s", text) else None
    except ValueError:
        return None


@scalar(splits=True, large_result=True)
@_also_of_bytes
def soundex(context: CallContext, text: str) -> str:
    letters = [letter for letter in text.upper() if letter.isalpha()]
    if not letters:
        return ""
    result, last = letters[0], _SOUNDEX.get(letters[0], "")
    for letter in letters[1:]:
        digit = _SOUNDEX.get(letter, "")
        if digit and digit != last:
            result += digit
        if letter not in "HW":
            last = digit
    return result.ljust(4, "0")


@scalar("format", splits=True, large_result=True)
def format_number(context: CallContext, value: float, places: int) -> str:
    number = _LONG.quantize(Decimal(repr(value)), Decimal(1).scaleb(-min(max(0, places), _FORMAT_DECIMALS)))
    return f"{number:,f}"


@scalar(splits=True)
def uuid_to_bin(context: CallContext, text: str) -> bytes:
    try:
        return uuid.UUID(text).bytes
    except ValueError:
        raise SqlError(1411, f"Incorrect string value: '{text}' for function uuid_to_bin") from None


@scalar()
def bin_to_uuid(context: CallContext, data: bytes) -> str:
    if len(data) != 16:
        raise SqlError(1411, "Incorrect string value for function bin_to_uuid")
    return str(uuid.UUID(bytes=data))


@scalar(splits=True)
def is_uuid(context: CallContext, text: str) -> int:
    try:
        uuid.UUID(text)
    except ValueError:
        return 0
    return 1


@scalar(splits=True)
def inet_aton(context: CallContext, text: str) -> int | None:
    parts = text.split(".")
    if len(parts) != 4 or not all(part.isdecimal() and int(part) < 256 for part in parts):
        return None
    return int.from_bytes(bytes(int(part) for part in parts), "big")


@scalar()
def inet_ntoa(context: CallContext, number: int) -> str | None:
    return ".".join(str(byte) for byte in number.to_bytes(4, "big")) if 0 <= number < 1 << 32 else None


@scalar(large_result=True)
def binary(context: CallContext, data: bytes, size: int) -> bytes:
    return data[:size].ljust(size, b"\0")
