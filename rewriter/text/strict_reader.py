"""StrictReader: SQL read so strictly that no server can read it differently.

For texts on which a right depends. What a server might read differently is not read at all: executable comments and
hints, comments in comments, `--` without a space after it, NUL, strings and comments that do not end, unknown
introducers, numbers that run into letters, bytes above 127 outside of quotes (a space in one character set, a letter in
another). In the character sets of `SAFE_CHARSETS` a quote byte is always a quote; the caller refuses others. The caller
also ensures that double quotes are strings (no ANSI_QUOTES) and passes whether backslashes escape.

Long lists of values are skipped by one pattern in portions, so that a thread that reads them lets others run.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

SAFE_CHARSETS = frozenset(("utf8mb4", "utf8mb3", "utf8", "latin1", "latin2", "latin5", "ascii", "binary", "cp1250",
                           "cp1251", "cp1252", "cp1256", "cp1257", "greek", "hebrew", "koi8r", "koi8u"))  # fmt: skip
"""Character sets in which no byte of a longer character can be taken for a quote or a backslash."""

# A line comment ends at its newline for every reader only if it contains no carriage return without a newline; and what
# other control characters are worth, readers do not agree upon.
_COMMENT_REST = rb"[^\r\n]*+(?:\r?+(?=\n)|\Z)"
_SPACE = (
    rb"(?>(?:[ \t\r\n]++|#"
    + _COMMENT_REST
    + rb"|--(?=[ \t\r\n]|\Z)"
    + _COMMENT_REST
    + rb"|/\*(?![!+]|[Mm]!)(?>(?:[^*/]++|\*(?!/)|/(?!\*))*)\*/)*)"
)
_LETTER = rb"[\w$\x80-\xff]"
_WORD = rb"(?!\d)[\w$]++(?![\x80-\xff])"
_QUOTED_NAME = rb"`(?>(?:[^`\x00]++|``)+)`"
_INTRODUCER = rb"(?>(?:_(?:utf8mb4|utf8mb3|utf8|binary|latin1|ascii)" + _SPACE + rb"|[Nn])?)"
_ESCAPED = rb"(?:'(?>(?:[^'\\]++|\\.|'')*)'|\"(?>(?:[^\"\\]++|\\.|\"\")*)\")"
_PLAIN = rb"(?:'(?>(?:[^']++|'')*)'|\"(?>(?:[^\"]++|\"\")*)\")"
_QUOTED_TEXT = rb"'(?>(?:[^'\\\x00]++|\\[^\x00]|'')*)'"
_PLAIN_TEXT = rb"'(?>(?:[^'\x00]++|'')*)'"
_NUMBER = (
    rb"(?:0[xX][0-9A-Fa-f]++|(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?|[xXbB]'[0-9A-Fa-f]*+')(?!"
    + _LETTER
    + rb"|\.)"
)
_HEX_TEXT = rb"_utf8mb4" + _SPACE + rb"X'[0-9A-Fa-f]*+'(?!" + _LETTER + rb"|\.)"
_ARITHMETIC = rb"[+%]|\*(?!/)|-(?!-)|/(?!\*)"
_PORTION = 4096  # atoms skipped in one call: some milliseconds, after which other threads may run


def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern, re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Lexis:
    """The patterns that depend on whether a backslash escapes."""

    string: re.Pattern[bytes]
    row: re.Pattern[bytes]
    scalar: re.Pattern[bytes]
    values: re.Pattern[bytes]
    terms: re.Pattern[bytes]


def _lexis(quoted: bytes) -> _Lexis:
    string = _INTRODUCER + quoted
    scalar = _NUMBER + rb"|" + _HEX_TEXT + rb"|" + string + rb"|\?|" + _ARITHMETIC
    atoms = rb"[ \t\r\n]++|[(),]|(?:NULL|DEFAULT|TRUE|FALSE)(?!" + _LETTER + rb")|" + scalar
    portion = (
        rb"{1,%d})" % _PORTION
    )  # of an atomic group: `(...){1,n}+` gives back what it must not before Python 3.11.5
    literal = _NUMBER + rb"|(?>(?:_binary ?)?)" + (_QUOTED_TEXT if quoted is _ESCAPED else _PLAIN_TEXT)
    words = rb"(?:NULL|DEFAULT|TRUE|FALSE)(?!" + _LETTER + rb")"
    value = rb"[ \t\r\n]*+(?>[+-]?+(?:" + literal + rb")|" + words + rb")[ \t\r\n]*+"
    return _Lexis(
        row=_compiled(rb"\(" + value + rb"(?>(?:," + value + rb")*)(\))[ \t\r\n]*+;?[ \t\r\n]*+\Z"),
        string=_compiled(string),
        scalar=_compiled(scalar),
        values=_compiled(rb"(?>(?:" + atoms + rb")" + portion),
        terms=_compiled(rb"(?>(?:" + atoms + rb"|[=<>!&|^~])" + portion),
    )


_BY_ESCAPES = {True: _lexis(_ESCAPED), False: _lexis(_PLAIN)}
_SPACES = _compiled(_SPACE)
_A_WORD = _compiled(_WORD)
_A_NAME = _compiled(rb"(?:(" + _WORD + rb")|(" + _QUOTED_NAME + rb"))")
_A_NUMBER = _compiled(_NUMBER)
_A_VARIABLE = _compiled(rb"@@(?>(?:(global|session|local)\.)?)([a-z_]\w*+)(?!" + _LETTER + rb"|\.)")
_COMPARISON = _compiled(rb"[=<>!]")
_CALLED = _compiled(_SPACE + rb"\(")
_END = _compiled(rb"(?>(?:;" + _SPACE + rb")*)\Z")


class Unreadable(Exception):
    """The text is not of the expected form, or not readable with certainty."""


class StrictReader:
    """See the module. `accept_*` reads or changes nothing; `take_*` reads or raises Unreadable."""

    def __init__(self, sql: bytes, *, backslash_escapes: bool = True) -> None:
        self.sql = sql
        self._lexis = _BY_ESCAPES[backslash_escapes]
        self._at = 0
        self._skip(0)

    def _skip(self, position: int) -> None:
        match = _SPACES.match(self.sql, position)
        assert match is not None  # it may be empty
        self._at = match.end()

    def _accept(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        match = pattern.match(self.sql, self._at)
        if match is not None:
            self._skip(match.end())
        return match

    @property
    def word(self) -> str:
        """The bare word that comes next, in upper case; empty where something else does."""
        match = _A_WORD.match(self.sql, self._at)
        return "" if match is None else match[0].decode("latin-1").upper()

    @property
    def called(self) -> bool:
        """Whether a parenthesis follows the word or name that comes next."""
        match = _A_NAME.match(self.sql, self._at)
        return match is not None and _CALLED.match(self.sql, match.end()) is not None

    @property
    def ended(self) -> bool:
        """Whether nothing follows but semicolons."""
        return _END.match(self.sql, self._at) is not None

    @property
    def place(self) -> int:
        """The current position, for `go_back`."""
        return self._at

    def go_back(self, place: int) -> None:
        self._at = place

    def at_symbol(self, symbol: bytes) -> bool:
        return self.sql.startswith(symbol, self._at)

    def accept(self, *words: str) -> bool:
        """All of these words in a row, or none."""
        start = self._at
        for word in words:
            if self.word != word:
                self._at = start
                return False
            self._accept(_A_WORD)
        return True

    def accept_any(self, *words: str) -> str:
        """One of these words, or the empty string."""
        return self.accept_one(words)

    def accept_one(self, words: Collection[str]) -> str:
        """As `accept_any`, of many."""
        match = _A_WORD.match(self.sql, self._at)
        word = "" if match is None else match[0].decode("latin-1").upper()
        if match is None or word not in words:
            return ""
        self._skip(match.end())
        return word

    def take(self, *words: str) -> None:
        if not self.accept(*words):
            raise Unreadable

    def accept_symbol(self, symbol: bytes) -> bool:
        if not self.at_symbol(symbol):
            return False
        self._skip(self._at + len(symbol))
        return True

    def take_symbol(self, symbol: bytes) -> None:
        if not self.accept_symbol(symbol):
            raise Unreadable

    def accept_function(self, names: frozenset[str]) -> str:
        """One of these functions and its opening parenthesis, with nothing between: else it may be a stored one."""
        match = _A_WORD.match(self.sql, self._at)
        if match is None or self.sql[match.end() : match.end() + 1] != b"(":
            return ""
        name = match[0].decode("latin-1").upper()
        if name not in names:
            return ""
        self._skip(match.end() + 1)
        return name

    def take_name(self) -> str:
        """An identifier, without its quotes."""
        match = self._accept(_A_NAME)
        if match is None:
            raise Unreadable
        written = match[1] if match[2] is None else match[2][1:-1].replace(b"``", b"`")
        try:
            return written.decode()
        except UnicodeDecodeError:
            raise Unreadable from None

    def accept_string(self) -> str | None:
        """A string without escapes or doubled quotes, its value; others are not for settings and names."""
        start = self._at
        match = self._accept(self._lexis.string)
        if match is None:
            return None
        text = match[0]
        inner = text[1:-1]
        if text[:1] not in (b"'", b'"') or b"\\" in inner or text[:1] in inner or not inner.isascii():
            self._at = start
            return None
        return inner.decode()

    def accept_scalar(self) -> bool:
        """A literal, a `?` or a sign of arithmetic."""
        return self._accept(self._lexis.scalar) is not None

    def accept_comparison(self) -> bool:
        """`=`, `<`, `>` or `!`: longer signs are several of them."""
        return self._accept(_COMPARISON) is not None

    def accept_number(self) -> str | None:
        match = self._accept(_A_NUMBER)
        return None if match is None else match[0].decode()

    def accept_variable(self) -> tuple[str, str] | None:
        """`@@name` or `@@scope.name`: scope (perhaps empty) and name, in lower case."""
        match = self._accept(_A_VARIABLE)
        return None if match is None else ((match[1] or b"").decode().lower(), match[2].decode().lower())

    def skip_values(self) -> bool:
        """Literals, `?`, commas, parentheses and arithmetic; whether there were any. A comment ends them."""
        return self._skip_atoms(self._lexis.values)

    def skip_terms(self) -> bool:
        """As `skip_values`, and comparisons."""
        return self._skip_atoms(self._lexis.terms)

    def _skip_atoms(self, pattern: re.Pattern[bytes]) -> bool:
        start = self._at
        while match := pattern.match(self.sql, self._at):
            self._at = match.end()
        self._skip(self._at)
        return self._at > start


def end_of_row(sql: bytes, start: int, *, backslash_escapes: bool) -> int | None:
    """Where the parenthesis is that ends a row of literals which begins at `start` and ends the text; None where there
    is something else. Strings are in single quotes."""
    match = _BY_ESCAPES[backslash_escapes].row.match(sql, start)
    return None if match is None else match.start(1)
