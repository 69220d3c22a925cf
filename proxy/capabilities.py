"""Capability flags as plain integers, and which of them the proxy can carry between a client and a server.

A flag is carried if the bytes it makes the two exchange pass through the relay unchanged, or are understood by it.
"""

from __future__ import annotations

import codecs
from functools import lru_cache

from mysql_mimic.charset import Collation
from mysql_mimic.types import Capabilities

CONNECT_WITH_DB = int(Capabilities.CLIENT_CONNECT_WITH_DB)
PROTOCOL_41 = int(Capabilities.CLIENT_PROTOCOL_41)
SSL = int(Capabilities.CLIENT_SSL)
FOUND_ROWS = int(Capabilities.CLIENT_FOUND_ROWS)
SECURE_CONNECTION = int(Capabilities.CLIENT_SECURE_CONNECTION)
PLUGIN_AUTH = int(Capabilities.CLIENT_PLUGIN_AUTH)
CONNECT_ATTRS = int(Capabilities.CLIENT_CONNECT_ATTRS)
LENENC_AUTH = int(Capabilities.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA)
DEPRECATE_EOF = int(Capabilities.CLIENT_DEPRECATE_EOF)

CARRIED = int(
    Capabilities.CLIENT_LONG_PASSWORD
    | Capabilities.CLIENT_FOUND_ROWS
    | Capabilities.CLIENT_LONG_FLAG
    | Capabilities.CLIENT_CONNECT_WITH_DB
    | Capabilities.CLIENT_NO_SCHEMA
    | Capabilities.CLIENT_ODBC
    | Capabilities.CLIENT_LOCAL_FILES
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
    | Capabilities.CLIENT_CAN_HANDLE_EXPIRED_PASSWORDS
    | Capabilities.CLIENT_SESSION_TRACK
    | Capabilities.CLIENT_DEPRECATE_EOF
    | Capabilities.CLIENT_QUERY_ATTRIBUTES
    | Capabilities.MULTI_FACTOR_AUTHENTICATION
)
"""Left out: TLS and compression (each line has its own), OPTIONAL_RESULTSET_METADATA (results without definitions
cannot be walked), and the three highest bits (local to clients; progress reports in MariaDB)."""


@lru_cache(maxsize=512)
def python_encoding(collation_id: int) -> str:
    """The Python codec of a collation; UTF-8 where MySQL's character set has none, as for unknown and binary ones."""
    try:
        name = Collation(collation_id).charset.name
    except ValueError:
        return "utf-8"
    if name == "latin1":
        return "cp1252"  # which is what MySQL means by it
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "utf-8"
