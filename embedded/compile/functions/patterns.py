"""REGEXP and LIKE in time linear in the text, whatever the pattern: RE2, which lets other threads run while it matches.

RE2 has no lookaround and no references back: those are refused. What it reads differently from MariaDB's PCRE (the
classes of letters, digits and spaces, `$` before a last newline) is translated here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from sys import getsizeof
from typing import Any

import re2

from embedded.compile.errors import SqlError, unsupported
from embedded.compile.functions.context import CallContext
from embedded.compile.functions.scalar import scalar
from embedded.compile.values.numbers import to_text

PATTERN_MAX = 16_384  # characters of a pattern; reading one holds the interpreter for some milliseconds
_CACHED_MAX = 64  # compiled patterns
_PROGRAM_BYTES = 1 << 20  # of memory for each of them: its program, and the states that matching creates
_STEPS_MAX = 1_000_000_000  # characters times instructions of one match, some seconds: it cannot be interrupted

_SPACES = r"\t-\r \x{85}\x{A0}\p{Z}"
_OUTSIDE = {
    "d": r"\p{Nd}",
    "D": r"\P{Nd}",
    "w": r"[\p{L}\p{N}_]",
    "W": r"[^\p{L}\p{N}_]",
    "s": f"[{_SPACES}]",
    "S": f"[^{_SPACES}]",
    "v": r"[\n-\r\x{85}\x{2028}\x{2029}]",
    "h": r"[\t\p{Zs}]",
    "Z": r"(?:\n?\z)",
}
_INSIDE = {"d": r"\p{Nd}", "D": r"\P{Nd}", "w": r"\p{L}\p{N}_", "s": _SPACES, "h": r"\t\p{Zs}"}
_CLASSES = {
    "alpha": r"\p{L}",
    "digit": r"\p{Nd}",
    "alnum": r"\p{L}\p{N}",
    "space": _SPACES,
    "upper": r"\p{Lu}",
    "lower": r"\p{Ll}",
    "punct": r"[:punct:]\p{P}",
    "xdigit": "0-9A-Fa-f",
    "word": r"\p{L}\p{N}_",
    "blank": r"\t\p{Zs}",
    "cntrl": "[:cntrl:]",
    "print": r"\p{L}\p{M}\p{N}\p{P}\p{S}\p{Zs}",
    "graph": r"\p{L}\p{M}\p{N}\p{P}\p{S}",
}
_NOT_HERE = "CEGKNRUXcegkluLQ123456789"  # escapes that RE2 does not have, or has with another meaning
_PIECE = re.compile(
    r"(?P<edge>\[\[:[<>]:\]\])|(?P<raw>\\x\{[0-9A-Fa-f]{1,6}\}|\\x[0-9A-Fa-f]{2})"
    r"|(?P<property>\\[pP](?:\{\^?\w+\}|\w))|(?P<alone>\[\[:(?:upper|lower):\]\])|\\(?P<escape>.)|\[:(?P<negated>\^?)(?P<name>\w+):\]|(?P<plain>.)",
    re.S,
)
_LACKING = ("invalid perl operator", "invalid escape sequence", "bad repetition operator")
_HINT = "it is matched in linear time, without lookaround, references back, atomic groups or possessive repetition"


class Pattern:
    """A compiled regular expression, and the conditions on the text under which it matches as in MariaDB."""

    __slots__ = ("_dollar", "_re", "_words")

    def __init__(self, source: str, flags: str) -> None:
        if len(source) > PATTERN_MAX:
            raise unsupported(f"a pattern of more than {PATTERN_MAX} characters", "shorten it")
        ignores_case = flags.rfind("i") > flags.rfind("c")
        reader = _Reader(source, "m" in flags, ignores_case)
        text = reader.read()
        self._words, self._dollar = reader.words, reader.dollar
        options = "i" * ignores_case + "m" * ("m" in flags) + "s" * ("n" in flags)
        self._re = _compiled(f"(?{options}){text}" if options else text)

    def test(self, text: str) -> bool:
        """Whether it matches anywhere in the text. A last newline may follow the position of `$`."""
        self._check(text)
        if self._re.search(text) is not None:
            return True
        return self._dollar and text.endswith("\n") and self._re.search(text[:-1]) is not None

    def find(self, text: str) -> tuple[int, str] | None:
        """The position of the first match, counted from 0, and its text."""
        match = next(self.matches(text), None)
        return None if match is None else (match.start(), match[0])

    def matches(self, text: str) -> Iterator[Any]:
        """One match after the other."""
        self._check(text)
        if self._dollar and text.endswith("\n"):
            raise unsupported("`$` in a regular expression on a text that ends in a newline", "write \\z or (\\n|\\z)")
        iterator: Iterator[Any] = self._re.finditer(text)
        return iterator

    @property
    def groups(self) -> int:
        return int(self._re.groups)

    def _check(self, text: str) -> None:
        if self._words and not text.isascii():
            raise unsupported("\\b in a regular expression on a text outside ASCII", "name the characters around it")
        bounded(text, self._re.programsize)


def bounded(text: str, program: int) -> str:
    """The text; refused where matching it could take more than some seconds."""
    if len(text) * program > _STEPS_MAX:
        raise SqlError(3699, "Timeout exceeded in regular expression match: the text is too long for this pattern.")
    return text


class _Reader:
    """From MariaDB's notation to RE2's."""

    def __init__(self, source: str, lines: bool, ignores_case: bool) -> None:
        self.source = source
        self.ignores_case = ignores_case or re.search(r"\(\?[a-zA-Z]*i", source) is not None
        self.words = False
        self.dollar = False
        self.cased = False
        self.lines = lines or re.search(r"\(\?[a-zA-Z]*m", source) is not None

    def read(self) -> str:
        parts: list[str] = []
        inside = first = False  # inside brackets; nothing but ^ has been read there
        for match in _PIECE.finditer(self.source):
            piece = match[0]
            match match.lastgroup:
                case "edge":
                    raise unsupported(f"{piece} in a regular expression", _HINT)
                case "alone" if not inside:
                    part = f"(?-i:{_CLASSES[piece[3:8]]})"
                case "alone":
                    raise unsupported(f"{piece} in a class of a regular expression", "write [:upper:] or [:lower:]")
                case "property":
                    part = piece if inside else f"(?-i:{piece})"
                    self.cased |= inside and piece[2:4] != "{L}"
                case "raw":
                    part = piece
                case "escape":
                    part = self._escape(piece[1], inside)
                case "name":
                    part = _named(match, inside)
                    self.cased |= match["name"] in ("upper", "lower")
                case _ if inside:
                    closes = piece == "]" and not first
                    part = "\\" + piece if piece in "[]" and not closes else piece
                    inside, first = not closes, first and piece == "^" and parts[-1] == "["
                    parts.append(part)
                    continue
                case _:
                    part = piece
                    inside = first = piece == "["
                    self.dollar |= piece == "$" and not self.lines
                    parts.append(part)
                    continue
            first = False
            parts.append(part)
        if self.cased and self.ignores_case:
            raise unsupported(
                "upper and lower case in a class of a regular expression that ignores case",
                "compare with COLLATE utf8mb4_bin, or write (?-i)",
            )
        return "".join(parts)

    def _escape(self, letter: str, inside: bool) -> str:
        known = _INSIDE if inside else _OUTSIDE
        if letter in known:
            return known[letter]
        if letter in _NOT_HERE or (inside and letter in "bBWSvZ"):
            raise unsupported(f"\\{letter} in a regular expression", _HINT)
        self.words |= letter in "bB"
        return "\\" + letter if letter.isascii() else letter


def _named(match: re.Match[str], inside: bool) -> str:
    name = match["name"]
    if not inside:
        raise SqlError(1139, "Got error 'POSIX named classes are supported only within a class' from regexp")
    if name not in _CLASSES:
        raise SqlError(1139, "Got error 'unknown POSIX class name' from regexp")
    members = _CLASSES[name]
    if not match["negated"]:
        return members
    if not re.fullmatch(r"\\p\{\w+\}", members):
        raise unsupported(f"[:^{name}:] in a regular expression", "negate the whole class: [^[:name:]]")
    return members.replace("p", "P", 1)


@lru_cache(maxsize=_CACHED_MAX)
def pattern(source: str, flags: str) -> Pattern:
    """A regular expression in MariaDB's notation. Flags: i, c, m, n, as REGEXP_LIKE has them.

    Raises:
        SqlError: 1139 it is wrong; 1235 it needs what cannot be matched in linear time.
    """
    return Pattern(source, flags)


def _compiled(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PROGRAM_BYTES
    try:
        compiled = re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else b""
        words = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        if words.startswith(_LACKING):
            raise unsupported(f"this regular expression ({words})", _HINT) from None
        if words.startswith("pattern too large"):
            raise unsupported("a regular expression of this size", "write fewer repetitions") from None
        raise SqlError(1139, f"Got error '{words}' from regexp") from None
    finally:
        re2.purge()  # its own cache is not limited in bytes
    return compiled


@lru_cache(maxsize=_CACHED_MAX)
def _like(source: str, escape: str, exact: int) -> Any:
    if len(source) > PATTERN_MAX:
        raise unsupported(f"a LIKE pattern of more than {PATTERN_MAX} characters", "shorten it")
    parts: list[str] = []
    letters = iter(source)
    for letter in letters:
        if escape and letter == escape:
            parts.append(re2.escape(next(letters, letter)))
        elif letter != "%":
            parts.append("." if letter == "_" else re2.escape(letter))
        elif parts[-1:] != [".*"]:
            parts.append(".*")
    return _compiled(("(?s)" if exact else "(?si)") + "".join(parts))


def text_of(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else to_text(value)


@scalar()
def like(context: CallContext, text: Any, source: Any, escape: str, exact: int) -> int:
    """LIKE where SQLite's own does not do: case-sensitive, or with another escape character."""
    compiled, text = _like(text_of(source), escape, exact), text_of(text)
    return int(compiled.fullmatch(bounded(text, compiled.programsize)) is not None)


@scalar()
def regexp_like(context: CallContext, text: Any, source: Any, flags: str) -> int:
    return int(pattern(text_of(source), flags).test(text_of(text)))


@scalar(splits=True, large_result=True)
def regexp_substr(context: CallContext, text: Any, source: Any, flags: str) -> str | None:
    match = pattern(text_of(source), flags).find(text_of(text))
    return match[1] if match is not None else None


@scalar(splits=True)
def regexp_instr(context: CallContext, text: Any, source: Any, flags: str) -> int:
    match = pattern(text_of(source), flags).find(text_of(text))
    return match[0] + 1 if match is not None else 0


_GROUP = re.compile(r"[\\$](\d)|\\(.)", re.S)


@scalar(splits=True, large_result=True)
def regexp_replace(context: CallContext, text: Any, source: Any, new: str, flags: str) -> str:
    """REGEXP_REPLACE: `\\1` and `$1` are replaced by a group. An empty match ends it, as in MariaDB."""
    compiled, text = pattern(text_of(source), flags), text_of(text)
    if any(int(digit) > compiled.groups for digit, _ in _GROUP.findall(new) if digit):
        raise SqlError(1139, "Got error 'reference to non-existent group' from regexp")
    parts: list[str] = []
    end = size = 0
    for match in compiled.matches(text):
        if context.killed or not match[0]:
            break  # a statement that is killed ends with its error as soon as this function returns
        parts.append(text[end : match.start()])
        parts.append(_GROUP.sub(lambda group, match=match: (match[int(group[1])] or "") if group[1] else group[2], new))  # type: ignore[misc]
        end = match.end()
        size += getsizeof(parts[-2]) + getsizeof(parts[-1])
        context.check_allocation(size)
    return "".join([*parts, text[end:]])
