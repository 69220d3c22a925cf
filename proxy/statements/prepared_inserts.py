"""PreparedInsert: a prepared INSERT of one message, which may be executed as a text, so that it leases the message.

The database has the statement prepared, too, and executes it where no receiver waits. The types of the parameters come
with the first execution, and later ones may leave them out. So where the database did not get that one, they are added
to the next that it gets. Source: MySQL's protocol, COM_STMT_EXECUTE; MariaDB's, COM_STMT_BULK_EXECUTE.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal

from mysql_mimic.types import ColumnType

from mysql_wire.answer_walker import BULK_EXECUTE
from mysql_wire.errors import ProxyError
from mysql_wire.parameters import TEXT_TYPES, ParameterType, ParameterValue
from mysql_wire.requests import QUERY_ATTRIBUTES, parse_execute
from proxy.session.session import Identity
from rewriter.text.literals import string_literal

PARAMETERS_MAX = 250  # their number is one byte then, and few tables have as many columns

_VALUE = rb"\s*+(?:\?|[-+.\w]++)\s*+"
_INSERT = re.compile(
    rb"(.*?\bVALUES?\s*+)(\(" + _VALUE + rb"(?>(?:," + _VALUE + rb")*)\)\s*+;?\s*+)", re.IGNORECASE | re.DOTALL
)
_HEAD_BYTES = 10  # the command, the statement's id, flags, and the number of executions
_BULK_FLAGS, _BULK_TYPES = 5, 128
_NULL = int(ColumnType.NULL)


class PreparedInsert:
    """See the module. `database`: the current one when it was prepared. `long_data`: whether a value was sent ahead."""

    __slots__ = ("_kinds", "_missing", "_pieces", "_types", "database", "long_data")

    def __init__(self, pieces: Sequence[bytes], database: str | None) -> None:
        self._pieces = pieces  # the text around its parameters
        self._types = b""  # those that came last: two bytes for each parameter
        self._missing = False  # whether the database may not have these
        self._kinds: dict[int, bytes] = {}  # the first type of each parameter that was not NULL
        self.database = database
        self.long_data = False

    @classmethod
    def of(cls, text: bytes, database: str | None) -> PreparedInsert | None:
        """None where the values are no plain row. What is before them is read at each execution."""
        match = _INSERT.fullmatch(text)
        if match is None or match[2].count(b"?") > PARAMETERS_MAX:
            return None
        first, *others = match[2].split(b"?")
        return cls([match[1] + first, *others], database)

    @property
    def _count(self) -> int:
        return len(self._pieces) - 1

    def completed(self, payload: bytes, capabilities: int) -> bytes:
        """An execution in the form that the database is to get: with the types, where it may not have them."""
        if payload[0] == BULK_EXECUTE:
            return self._completed_bulk(payload)
        place, types = self._bound(payload, capabilities)
        if types:
            self._types, self._missing = types, False
        elif self._missing and payload[place : place + 1] == b"\x00":
            named = bool(capabilities & QUERY_ATTRIBUTES)
            types = b"".join([kind + b"\x00" for kind in _pairs(self._types)]) if named else self._types
            return payload[:place] + b"\x01" + types + payload[place + 1 :]
        return payload

    def _completed_bulk(self, payload: bytes) -> bytes:
        start = _BULK_FLAGS + 2
        flags = int.from_bytes(payload[_BULK_FLAGS:start], "little")
        if flags & _BULK_TYPES:
            self._types, self._missing = payload[start : start + 2 * self._count], False
        elif self._missing:
            return payload[:_BULK_FLAGS] + (flags | _BULK_TYPES).to_bytes(2, "little") + self._types + payload[start:]
        return payload

    def _bound(self, payload: bytes, capabilities: int) -> tuple[int, bytes]:
        """Where the byte is that announces types, and the types; 0 where the execution has attributes of its own, or no
        parameters."""
        place, width = _HEAD_BYTES, 2
        if capabilities & QUERY_ATTRIBUTES:
            if payload[place : place + 1] != bytes((self._count,)):
                return 0, b""
            place, width = place + 1, 3  # each has a name, here an empty one
        place += (self._count + 7) // 8
        if payload[place : place + 1] != b"\x01":
            return place if self._count else 0, b""
        types = payload[place + 1 : place + 1 + width * self._count]
        if width == 3 and any(types[2::3]):
            return 0, b""
        return place, types if width == 2 else b"".join([types[at : at + 2] for at in range(0, len(types), 3)])

    def text(self, payload: bytes, identity: Identity, *, backslash_escapes: bool) -> bytes | None:
        """The INSERT with the values of an execution, which is a `completed` one. None where a text may mean something
        else, and where the database is to say what is wrong."""
        capabilities, codec = identity.capabilities, identity.codec
        plain = self._bound(payload, capabilities)[0] if self._count else len(payload) == _HEAD_BYTES
        if payload[0] == BULK_EXECUTE or self.long_data or not plain or not self._types_stay():
            return None
        types = [(kind[0], bool(kind[1] & 0x80)) for kind in _pairs(self._types)]
        try:
            request = parse_execute(payload[1:], self._count, types, {}, capabilities, codec)
        except ProxyError:
            return None
        bound = zip(request.values, types, strict=True)
        literals = [_literal(value, kind, codec, backslash_escapes=backslash_escapes) for value, kind in bound]
        if request.cursor or None in literals:
            return None
        pairs = zip(literals, self._pieces[1:], strict=True)
        return b"".join([self._pieces[0], *[part for pair in pairs for part in pair if part is not None]])

    def _types_stay(self) -> bool:
        """Whether each parameter has the type that it had before. MySQL converts other types to the first ones, of a
        text it does not."""
        kinds = _pairs(self._types)
        if len(kinds) != self._count:
            return False  # none came yet, or too few
        for number, kind in enumerate(kinds):
            if kind[0] != _NULL and self._kinds.setdefault(number, kind) != kind:
                return False
        return True

    def executed_as_text(self) -> None:
        """The database did not get the execution."""
        self._missing = bool(self._types)


def _pairs(types: bytes) -> list[bytes]:
    return [types[at : at + 2] for at in range(0, len(types), 2)]


def _literal(value: ParameterValue, kind: ParameterType, codec: str, *, backslash_escapes: bool) -> bytes | None:
    """What means the same in a text, whatever the column's type; None: nothing does for certain."""
    match value:
        case None:
            return b"NULL"
        case int():
            return b"%d" % value
        case float() if math.isfinite(value):
            text = repr(value)
            return (text if "e" in text else f"{text}e0").encode()  # with an exponent it is no DECIMAL
        case Decimal() if value.is_finite():
            text = f"{value:f}"
            return (text if "." in text else f"{text}.").encode()  # with a point it is no integer
        case str() if kind[0] in TEXT_TYPES:  # else a date that Python does not have
            return _quoted(value, backslash_escapes=backslash_escapes).encode(codec)
        case bytes():
            introducer = b"" if kind[0] in TEXT_TYPES else b"_binary"
            text = _quoted(value.decode("latin-1"), backslash_escapes=backslash_escapes)
            return introducer + text.encode("latin-1")
    return None


def _quoted(text: str, *, backslash_escapes: bool) -> str:
    literal = string_literal(text, backslash_escapes=backslash_escapes)
    return literal.replace("\x00", "\\0") if backslash_escapes else literal
