"""Capability flags as plain integers, and which of them the proxy can carry between a client and a server.

A flag is carried if the bytes it makes the two exchange pass through the relay unchanged, or are understood by it.
MariaDB's extended capabilities are the bits above the 32 of MySQL; on the wire they are in bytes that MySQL leaves
unused, and only where the flag that MySQL calls LONG_PASSWORD (MariaDB: CLIENT_MYSQL) is not set.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

from mysql_mimic.charset import Collation
from mysql_mimic.types import Capabilities

from mysql_wire.errors import ProxyError

LONG_PASSWORD = int(Capabilities.CLIENT_LONG_PASSWORD)
CONNECT_WITH_DB = int(Capabilities.CLIENT_CONNECT_WITH_DB)
PROTOCOL_41 = int(Capabilities.CLIENT_PROTOCOL_41)
COMPRESS = int(Capabilities.CLIENT_COMPRESS)
SSL = int(Capabilities.CLIENT_SSL)
FOUND_ROWS = int(Capabilities.CLIENT_FOUND_ROWS)
INTERACTIVE = int(Capabilities.CLIENT_INTERACTIVE)
SECURE_CONNECTION = int(Capabilities.CLIENT_SECURE_CONNECTION)
PLUGIN_AUTH = int(Capabilities.CLIENT_PLUGIN_AUTH)
CONNECT_ATTRS = int(Capabilities.CLIENT_CONNECT_ATTRS)
LENENC_AUTH = int(Capabilities.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA)
DEPRECATE_EOF = int(Capabilities.CLIENT_DEPRECATE_EOF)
OPTIONAL_METADATA = int(Capabilities.CLIENT_OPTIONAL_RESULTSET_METADATA)

PROGRESS = 1 << 32
"""ERR packets numbered 0xFFFF report the progress of a long statement; the answer goes on after them."""
BULK_OPERATIONS = 1 << 34
"""COM_STMT_BULK_EXECUTE, and indicators among the parameters of COM_STMT_EXECUTE."""
EXTENDED_METADATA = 1 << 35
"""Column definitions have one more field."""
CACHE_METADATA = 1 << 36
"""As OPTIONAL_METADATA of MySQL: a byte after the column count shows whether definitions follow."""
BULK_UNIT_RESULTS = 1 << 37
"""A bulk execution may be answered with a result set: the affected rows and insert id of each of its rows."""
EXTENDED_SHIFT = 32

EMBEDDED = int(
    Capabilities.CLIENT_LONG_PASSWORD
    | Capabilities.CLIENT_FOUND_ROWS
    | Capabilities.CLIENT_LONG_FLAG
    | Capabilities.CLIENT_CONNECT_WITH_DB
    | Capabilities.CLIENT_COMPRESS
    | Capabilities.CLIENT_ODBC
    | Capabilities.CLIENT_IGNORE_SPACE
    | Capabilities.CLIENT_PROTOCOL_41
    | Capabilities.CLIENT_INTERACTIVE
    | Capabilities.CLIENT_IGNORE_SIGPIPE
    | Capabilities.CLIENT_TRANSACTIONS
    | Capabilities.CLIENT_RESERVED
    | Capabilities.CLIENT_SECURE_CONNECTION
    | Capabilities.CLIENT_MULTI_STATEMENTS
    | Capabilities.CLIENT_MULTI_RESULTS
    | Capabilities.CLIENT_PS_MULTI_RESULTS
    | Capabilities.CLIENT_PLUGIN_AUTH
    | Capabilities.CLIENT_CONNECT_ATTRS
    | Capabilities.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    | Capabilities.CLIENT_DEPRECATE_EOF
)
"""What an embedded backend offers. No LOCAL_FILES, session tracking or query attributes: they would have no effect."""

CARRIED = int(
    EMBEDDED
    | Capabilities.CLIENT_LOCAL_FILES
    | Capabilities.CLIENT_CAN_HANDLE_EXPIRED_PASSWORDS
    | Capabilities.CLIENT_SESSION_TRACK
    | Capabilities.CLIENT_OPTIONAL_RESULTSET_METADATA
    | Capabilities.CLIENT_QUERY_ATTRIBUTES
    | Capabilities.MULTI_FACTOR_AUTHENTICATION
    | PROGRESS
    | BULK_OPERATIONS
    | EXTENDED_METADATA
    | CACHE_METADATA
    | BULK_UNIT_RESULTS
)
"""Left out: NO_SCHEMA (by it a server reads `x.t` as `t` of the current database, so a statement that was judged would
be on another table), TLS (each connection has its own), compression by zstd (clients that know it know the other, too),
and the three highest of MySQL's bits (local to clients). COMPRESS is undone and done again: see `compressed_line`.
Of the others IGNORE_SPACE and MULTI_STATEMENTS change how a text is read: the one is a mode, which may be set, too,
and the other is taken from accounts that are limited (`proxy.upstream.opener`). Servers do not use ODBC."""


@lru_cache(maxsize=512)
def python_encoding(collation_id: int, *, of_result: bool = False) -> str:
    """The Python codec of a collation; UTF-8 where MySQL's character set has none, as for unknown and binary ones.
    `of_result`: see `encoding_named`."""
    try:
        name = Collation(collation_id).charset.name
    except ValueError:
        return "utf-8"
    return encoding_named(name, of_result=of_result)


_CODECS = {
    "latin1": "cp1252",  # which is what MySQL means by it
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin7": "iso8859-13",
    "greek": "iso8859-7",
    "hebrew": "iso8859-8",
    "koi8r": "koi8-r",
    "koi8u": "koi8-u",
    "macce": "mac-latin2",
    "macroman": "mac-roman",
    "sjis": "shift_jis",
    "ujis": "euc-jp",
    "eucjpms": "euc-jp",
    "euckr": "euc-kr",
    "tis620": "tis-620",
}
"""MySQL's names for character sets, where Python's differ."""

WIDE = {"utf16": "utf-16-be", "utf16le": "utf-16-le", "ucs2": "utf-16-be", "utf32": "utf-32-be"}
"""Those in which ASCII is not one byte a character."""

_SJIS = rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]"
_CHARACTERS = {
    name: re.compile(rb"[\x00-\x7f]++|" + character + rb"|[\x80-\xff]")
    for name, character in (
        ("gbk", rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]"),
        ("gb18030", rb"[\x81-\xfe](?:[\x40-\x7e\x80-\xfe]|[0-9][\x81-\xfe][0-9])"),
        ("big5", rb"[\xa1-\xf9][\x40-\x7e\xa1-\xfe]"),
        ("shift_jis", _SJIS),
        ("cp932", _SJIS),
    )
}
"""How a server finds the characters in bytes. Source: strings/ctype-gbk.cc of MySQL, and the files beside it."""

BACKSLASH_IN_CHARACTERS = frozenset(_CHARACTERS)
"""Codecs in which the byte of a backslash may be half a character: the end of a string cannot be found in the bytes
alone."""


def decoded(text: bytes, codec: str) -> str:
    """A client's text. Bytes that are no character are carried through, for the database to judge.

    Raises:
        ProxyError: 1300, a server finds other characters in it than the codec does, which lacks some: where the second
            byte of one is that of a backslash, a string would end elsewhere.
    """
    result, characters = text.decode(codec, "surrogateescape"), _CHARACTERS.get(codec)
    if characters is None or text.isascii():
        return result
    for piece in characters.findall(text):
        if len(piece) > 1 and piece[0] >= 0x80 and not _is_one_character(piece, codec):
            raise ProxyError(1300, f"Invalid {codec} character string: '{piece.hex().upper()}': SET NAMES utf8mb4")
    return result


@lru_cache(maxsize=4096)
def _is_one_character(piece: bytes, codec: str) -> bool:
    try:
        character = piece.decode(codec)
    except UnicodeDecodeError:
        return False
    return len(character) == 1 and character.encode(codec) == piece


@lru_cache(maxsize=64)
def encoding_named(name: str, *, of_result: bool = False) -> str:
    """The Python codec of a MySQL character set; UTF-8 as above. `of_result`: answers may be in some that no client's
    statements may be in; in place of these MySQL takes its default."""
    if name in WIDE:
        return WIDE[name] if of_result else "utf-8"
    name = _CODECS.get(name, name)
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "utf-8"
