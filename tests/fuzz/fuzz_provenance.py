"""Where an executed statement comes from: the client sent it, or the gate made it out of what the client sent.

What the gate makes is known by its form: see `fuzz_made`.
"""

from __future__ import annotations

import re

import fuzz_wire as w
from fuzz_made import is_made

_CODECS = (
    'utf-8', 'cp1252', 'latin-1', 'ascii', 'gbk', 'gb18030', 'big5', 'sjis', 'cp932', 'euc_jp', 'euc_kr',
    'gb2312', 'cp1250', 'cp1251', 'cp1256', 'cp1257', 'cp850', 'cp852', 'cp866', 'iso8859-2', 'iso8859-7',
    'iso8859-8', 'iso8859-9', 'iso8859-13', 'mac-roman', 'mac-latin2', 'koi8-r', 'koi8-u', 'tis-620',
)  # fmt: skip

FORBIDDEN = {
    *(b"ft", b"fg", b"fo", b"fl", b"fq2", b"fq_dead", b"nowhere", b"t1", b"tmp"),
    *(b"fe2", b"fe3", b"fe2_group_g", b"fe2_group_h", b"fe_group_h"),
}
"""Tables to which the limited account of the fuzzer's gate has no right, as its statements call them."""

_TABLE = re.compile(
    rb"(?:(?<![\w$\x80-\xff])(?:from|join|into|update|table|describe|ignore)|\b\.)[\s(`]+([\w$\x80-\xff]+)"
)
_QUIET = re.compile(
    rb"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|/\*(?!M?!)(?:[^*]|\*(?!/))*\*/"
    rb"|(?:#|--(?=[\x00-\x20]|\Z))[^\n]*",
    re.DOTALL,
)


def tables_in(text: bytes) -> set[bytes]:
    """What a statement names as a table outside of strings and comments, as a server reads it by default; not all."""
    return set(_TABLE.findall(_QUIET.sub(b" ", text).lower()))


_STATEMENTS = (w.EXECUTE, w.LONG_DATA, w.STMT_CLOSE, w.STMT_RESET, w.FETCH, w.BULK_EXECUTE)


class Provenance:
    """What one client sent. Its bytes are searched as they are: framing is the gate's business, not ours."""

    def __init__(self, sent: bytes) -> None:
        self._joined = _payloads(sent)

    def explains(self, payload: bytes) -> bool:
        """A command that reached the server."""
        if payload[:1] == b"\x01" or payload in self._joined:
            return True  # the gate's own goodbye, or as it was sent
        if payload[0] == w.CHANGE_USER:
            return b"\x11" in self._joined  # written anew, as its parts were understood
        if payload[0] in _STATEMENTS and len(payload) >= 5:
            # Lines that are opened anew have other ids for the same statement.
            return payload[5:] in self._joined and payload[:1] in self._joined
        text = payload[1:].removeprefix(b"\0\x01") if payload[0] in (w.QUERY, w.PREPARE) else None
        return text is not None and self._text(text)

    def explains_sql(self, sql: str) -> bool:
        """A statement of the embedded backend: text in some charset."""
        codecs = _CODECS[:1] if sql.isascii() else _CODECS  # ASCII is the same in all of them
        return any(self._text(sql.encode(codec, "surrogateescape")) for codec in codecs if _fits(sql, codec))

    def _text(self, text: bytes) -> bool:
        return text in self._joined or is_made(text, self._joined)


def _payloads(sent: bytes) -> bytes:
    """The bytes without the headers of continuations, so that a statement over 16 MiB is one text."""
    return sent if len(sent) <= w.FULL else b"\0".join(_joined(sent))


def _joined(sent: bytes) -> list[bytes]:
    found, part = [], b""
    for packet in w.packets_of(sent)[0]:
        part += packet.payload
        if len(packet.payload) < w.FULL:
            found.append(part)
            part = b""
    return [*found, part]


def _fits(sql: str, codec: str) -> bool:
    try:
        sql.encode(codec, "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
