"""Lifting literals out of a statement, so that statements that differ only in values share one plan.

`lift` turns a statement into its shape (the text with every literal replaced by a mark for its kind) and the values.
The shape keys the plan cache; it is parsed only on a miss, with markers in the literals' places that the compiler finds
again in the tree. Parameters of prepared statements are slots like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from embedded.compile.errors import SqlError, unsupported
from rewriter.errors import SqlSyntaxError
from rewriter.text.literals import string_literal
from rewriter.text.long_text import LONG_TEXT, UNCUT_MAX, NoPlaceToCut, UnclosedToken, pieces
from rewriter.text.tokens import cut_at_nul

SqlValue = Any

MARK, END = "\x01", "\x02"
_STRING_MARKER = "qg:"
_NUMBER_MARKER = "97700000000"
_SLOT = re.compile(f"{MARK}([a-zA-Z]\\d*)(p|@[^{END}]*)?{END}")
_MARKER = re.compile(rf"(?:{_STRING_MARKER}|{_NUMBER_MARKER})(\d+)")

_STRING = r"'[^'\\]*+(?>(?:(?:\\.|'')[^'\\]*+)*)'"
_DOUBLE = r'"[^"\\]*+(?>(?:(?:\\.|"")[^"\\]*+)*)"'
_RAW_STRING = r"'[^']*(?:''[^']*)*'"
_RAW_DOUBLE = r'"[^"]*(?:""[^"]*)*"'
_NUMBER = (
    r"(?<![\w$@.`])(?:(?-i:0x)[0-9a-fA-F]+|(?-i:0b)[01]+"
    r"|(?>(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?)|\d++)(?![\w$])"
)
_COMMENT = r"/\*.*?\*/|--(?=[\s]|$)[^\n]*|\#[^\n]*"
_VARIABLE = (
    r"(?<![\w'\"`$@])(?:@@(?:\s*(?:global|session|local)\s*\.\s*)?(?:`[^`]+`|[\w$]+(?:\.[\w$]+)?)"
    r"|@(?:[\w$.]+|'[^']*'|\"[^\"]*\"|`[^`]*`))"
)
_INTRODUCER = r"(?:(?<![\w$@.`])(?:[xXbBnN]|(?>(?:_[A-Za-z0-9]++\s*+){1,4})))?"

_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_ESCAPES_IN = {quote: re.compile(rf"\\(.)|{quote}{quote}", re.S) for quote in "'\""}
_INTRODUCED = re.compile(_INTRODUCER.removesuffix("?") + r"\Z", re.I)
_INTRODUCER_MAX = 200  # characters of the text before a long string
_HEX = re.compile("[0-9a-fA-F]*+")
_HEX_STRIDE = 1 << 20
_UNDECODED = re.compile("[\udc80-\udcff]")
_INT64 = 1 << 63
_EXACT_DIGITS = 15  # decimal digits that an 8-byte number can store
_MAX_DEPTH = 4  # version comments inside version comments; real ones are never nested


class _Written:
    """A literal with its text as written: result columns are named by the text of their expression."""

    text: str


class _WrittenFloat(_Written, float):
    @classmethod
    def of(cls, value: float, text: str) -> _WrittenFloat:
        written = cls(value)
        written.text = text
        return written


class _WrittenText(_Written, str):
    @classmethod
    def of(cls, value: str, text: str) -> _WrittenText:
        written = cls(value)
        written.text = text
        return written


@dataclass(frozen=True, slots=True)
class LexicalModes:
    """What of sql_mode changes how text is cut into tokens."""

    ansi_quotes: bool = False
    no_backslash_escapes: bool = False


def _pattern(modes: LexicalModes) -> re.Pattern[str]:
    single = _RAW_STRING if modes.no_backslash_escapes else _STRING
    double = _RAW_DOUBLE if modes.no_backslash_escapes else _DOUBLE
    strings = f"{_INTRODUCER}(?:{single})" if modes.ansi_quotes else f"{_INTRODUCER}(?:{single}|{double})"
    quoted = r"`(?:[^`]|``)*`" + (f"|{_RAW_DOUBLE}" if modes.ansi_quotes else "")
    return re.compile(
        f"(?P<string>{strings})|(?P<number>{_NUMBER})|(?P<param>\\?)|(?P<quoted>{quoted})|(?P<comment>{_COMMENT})"
        f"|(?P<variable>{_VARIABLE})"
        f"|(?P<bad>['\"`{MARK}{END}]|/\\*)",
        re.S | re.I,
    )


_PATTERNS = {modes: _pattern(modes) for modes in (LexicalModes(a, b) for a in (False, True) for b in (False, True))}


DEFAULT_MODES = LexicalModes()
Variables = Callable[[str], SqlValue]


@dataclass(frozen=True, slots=True)
class Lifted:
    """A statement without its literals. `values` follow the marks in the shape, in order."""

    shape: str
    values: tuple[SqlValue, ...]
    parameters: int = 0

    @property
    def kinds(self) -> tuple[str, ...]:
        return slot_kinds(self.shape)


class _Lifter:
    def __init__(self, params: Sequence[SqlValue] | None, modes: LexicalModes, variables: Variables | None) -> None:
        self.params = params
        self.modes = modes
        self.variables = variables
        self.values: list[SqlValue] = []
        self.used = 0
        self.depth = 0

    def lift(self, sql: str) -> str:
        if len(sql) <= LONG_TEXT:
            return _PATTERNS[self.modes].sub(self._replace, sql)
        return "".join(self._lift_long(sql))

    def _lift_long(self, sql: str) -> Iterator[str]:
        """The same, piece by piece: no call into the pattern holds the interpreter for long."""
        pattern, escapes = _PATTERNS[self.modes], not self.modes.no_backslash_escapes
        before = ""
        try:
            for piece in pieces(sql, single=escapes, double=escapes and not self.modes.ansi_quotes):
                text = sql[piece.start : piece.end]
                if not piece.token:
                    yield pattern.sub(self._replace, before)
                    before = text
                    continue
                introducer = _INTRODUCED.search(before[-_INTRODUCER_MAX:]) if text[0] in "'\"" else None
                written = "" if introducer is None else introducer[0]
                yield pattern.sub(self._replace, before[: len(before) - len(written)])
                before = ""
                if text[0] == "0" and re.match(r"[\w$]", sql[piece.end : piece.end + 1]):
                    raise syntax_error(sql[piece.start :])
                yield self._long_token(written, text)
            yield pattern.sub(self._replace, before)
        except UnclosedToken as error:
            raise syntax_error(sql[error.start :]) from None
        except NoPlaceToCut:
            what = f"more than {UNCUT_MAX} characters of SQL without a comma, a parenthesis, AND or OR"
            raise unsupported(what, "shorten the statement") from None

    def _long_token(self, introducer: str, text: str) -> str:
        if text[0] in "#-" or (text[0] == "/" and not text.startswith(("/*!", "/*M!"))):
            return " "
        if text[0] == "0":
            self.values.append(_hexadecimal("0" * (len(text) % 2) + text[2:], text))
            return f"{MARK}x{END}"
        if text[0] not in "'\"" or (text[0] == '"' and self.modes.ansi_quotes):
            raise unsupported("a name or an executable comment of that length", "shorten it")
        kind, value = _string(introducer + text, self.modes.no_backslash_escapes)
        self.values.append(value)
        return f"{MARK}{kind}{END}"

    def _replace(self, match: re.Match[str]) -> str:
        text, note = match[0], ""
        match match.lastgroup:
            case "string":
                kind, value = _string(text, self.modes.no_backslash_escapes)
            case "number":
                kind, value = number(text)
            case "param":
                (kind, value), note = self._parameter(), "p"
            case "variable":
                if self.variables is None:
                    return text
                if MARK in text or END in text:
                    raise SqlSyntaxError("Invalid character in the name of a variable")
                (kind, value), note = parameter_kind(self.variables(text)), "@" + text
            case "quoted":
                if MARK in text or END in text:
                    raise SqlSyntaxError("Invalid character in identifier")
                return text if text[0] == "`" else "`" + text[1:-1].replace('""', '"').replace("`", "``") + "`"
            case "comment":
                return self._comment(text)
            case _:
                raise syntax_error(match.string[match.start() :])
        self.values.append(value)
        return f"{MARK}{kind}{note}{END}"

    def _parameter(self) -> tuple[str, SqlValue]:
        position = self.used
        self.used += 1
        if self.params is None:
            return "q", None
        if position >= len(self.params):
            raise SqlSyntaxError("Incorrect arguments to EXECUTE")
        return parameter_kind(self.params[position])

    def _comment(self, text: str) -> str:
        executable = re.fullmatch(r"/\*M?!(?:\d{5,6})?(.*)\*/", text, re.S)
        if executable is None or text.startswith("/*M!999999"):
            return " "
        if self.depth >= _MAX_DEPTH:
            raise syntax_error(text)
        self.depth += 1
        inner = self.lift(executable[1])
        self.depth -= 1
        return f" {inner} "


def lift(
    sql: str,
    params: Sequence[SqlValue] | None = None,
    modes: LexicalModes = DEFAULT_MODES,
    variables: Variables | None = None,
) -> Lifted:
    """Shape and values of a statement. Without `params`, `?` become slots of unknown kind.

    `variables` looks up `@name` and `@@name`, whose values become slots too; without it they stay unchanged.

    Raises:
        SqlSyntaxError: an unclosed string, comment or quoted name.
    """
    sql, nul = cut_at_nul(sql)
    if nul is not None:
        raise syntax_error(sql[nul:])
    lifter = _Lifter(params, modes, variables)
    shape = lifter.lift(sql).strip().rstrip(";").rstrip()
    if not shape.isascii() and (match := _UNDECODED.search(shape)):
        byte = ord(match[0]) - 0xDC00
        raise SqlError(1300, f"Invalid utf8mb4 character string: '\\x{byte:02X}' outside a string literal")
    if params is not None and lifter.used != len(params):
        raise SqlSyntaxError("Incorrect arguments to EXECUTE")
    return Lifted(shape, tuple(lifter.values), lifter.used)


def slot_kinds(shape: str) -> tuple[str, ...]:
    """The kind of each slot of a shape, in order."""
    return tuple(kind for kind, _ in _SLOT.findall(shape))


def slot_notes(shape: str) -> tuple[str, ...]:
    """Of each slot: 'p' for a parameter, '@...' for a variable, '' for a literal."""
    return tuple(note for _, note in _SLOT.findall(shape))


def mark_slots(shape: str, first: int = 0) -> str:
    """The shape as text that sqlglot can parse: each slot a literal that carries its number."""
    counter = iter(range(first, first + len(shape)))

    def marker(match: re.Match[str]) -> str:
        slot, kind = next(counter), match[1]
        if kind[0] in "iudwe":
            return f"{_NUMBER_MARKER}{slot}"
        return f"'{_STRING_MARKER}{slot}'"

    return _SLOT.sub(marker, shape)


def slot_of(text: str) -> int | None:
    """The slot of a marker; None for any other text."""
    match = _MARKER.fullmatch(text)
    return int(match[1]) if match else None


def fill_slots(text: str, values: Sequence[SqlValue]) -> str:
    """Text with marks or markers, with the literals put back as MySQL literals."""
    order = iter(range(len(values)))
    text = _SLOT.sub(lambda _: literal_text(values[next(order)]), text)
    text = re.sub(rf"'{_STRING_MARKER}(\d+)'", lambda match: literal_text(values[int(match[1])]), text)
    return re.sub(rf"{_NUMBER_MARKER}(\d+)", lambda match: literal_text(values[int(match[1])]), text)


def literal_text(value: SqlValue) -> str:
    """A value as a MySQL literal."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(int(value))
        case int() | Decimal():
            return format(value, "d" if isinstance(value, int) else "f")
        case _Written():
            return value.text
        case float():
            return repr(value) if "e" in repr(value) else f"{value!r}e0"
        case bytes():
            return f"x'{value.hex()}'"
        case _:
            return string_literal(str(value))


class Unsigned(int):
    """A whole number that is UNSIGNED whatever its size, as most of a server's variables are."""

    __slots__ = ()


def parameter_kind(value: SqlValue) -> tuple[str, SqlValue]:
    """Kind mark and value of a bound parameter."""
    match value:
        case None:
            return "n", None
        case bool():
            return "i", int(value)
        case Unsigned():
            return "u", int(value)
        case int():
            return ("i" if -_INT64 <= value < _INT64 else "u"), value
        case float():
            return "e", value
        case Decimal():
            return _decimal_kind(value), value
        case str():
            return "s", value
        case bytes() | bytearray() | memoryview():
            return "b", bytes(value)
        case datetime():
            return "T", value
        case date():
            return "D", value
        case timedelta():
            return "t", value
        case _:
            raise SqlSyntaxError(f"a parameter of type {type(value).__name__} cannot be bound")


def number(text: str) -> tuple[str, SqlValue]:
    """Kind mark and value of a number or 0x literal."""
    prefix = text[:2]
    if prefix == "0x":
        digits = text[2:]
        return "x", bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
    if prefix == "0b":
        return "x", _bits(text[2:])
    if "e" in text or "E" in text:
        return "e", _WrittenFloat.of(float(text), text)
    if "." in text:
        return _decimal_kind(Decimal(text)), Decimal(text)
    value = int(text)
    if value < _INT64:
        return "i", value
    return ("u", value) if value < 2 * _INT64 else (_decimal_kind(Decimal(value)), Decimal(value))


def _decimal_kind(value: Decimal) -> str:
    """'d' and the decimals of what an 8-byte number can store; 'w', digits and decimals (two places) of wider ones."""
    exponent = value.as_tuple().exponent
    scale = max(0, -exponent) if isinstance(exponent, int) else 0
    digits = max(len(value.as_tuple().digits), scale)
    return f"d{scale}" if digits <= _EXACT_DIGITS else f"w{min(digits, 65)}{min(scale, 99):02}"


def _string(text: str, raw: bool) -> tuple[str, SqlValue]:
    start = text.index(text[-1])
    prefix, quote, body = text[:start].strip().lower(), text[-1], text[start + 1 : -1]
    prefix = prefix.split()[-1] if prefix else ""
    if prefix == "x":
        return "x", _hexadecimal(body, text)
    if prefix == "b":
        return "x", _bits(body)
    value = unquote(body, quote, raw)
    if (value is not body or quote == '"') and not raw:
        value = _WrittenText.of(value, text)
    if prefix == "_binary":
        return "b", value.encode("utf-8", "surrogateescape")
    if _has_undecoded(value):
        # Bytes that are no characters, without an introducer: how some drivers send a blob in plain text.
        return "b", value.encode("utf-8", "surrogateescape")
    return "s", value


def _hexadecimal(digits: str, text: str) -> bytes:
    parts = []
    for start in range(0, len(digits), _HEX_STRIDE):
        part = digits[start : start + _HEX_STRIDE]
        if len(part) % 2 or not _HEX.fullmatch(part):
            raise syntax_error(text)
        parts.append(bytes.fromhex(part))
    return b"".join(parts)


def _has_undecoded(value: str) -> bool:
    """Whether bytes that are no characters are in it. A pattern takes ten times as long to find that there are none."""
    if value.isascii():
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return True
    return False


def unquote(body: str, quote: str, raw: bool = False) -> str:
    """The text that a string literal's body represents."""
    if raw:
        return body.replace(quote * 2, quote)
    if "\\" not in body and quote * 2 not in body:
        return body
    return _ESCAPES_IN[quote].sub(lambda match: _ESCAPES.get(match[1], match[1]) if match[1] else quote, body)


def _bits(text: str) -> bytes:
    if not re.fullmatch(r"[01]*", text):
        raise syntax_error(f"b'{text}'")
    return int(text or "0", 2).to_bytes((len(text) + 7) // 8, "big")


def syntax_error(near: str, line: int = 1) -> SqlSyntaxError:
    """MySQL's 1064, quoting the text at the error."""
    return SqlSyntaxError(
        "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for "
        f"the right syntax to use near '{near[:80]}' at line {line}"
    )
