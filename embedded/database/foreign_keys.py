"""Turning SQLite's foreign keys on and off inside a transaction, where its PRAGMA has no effect.

SQLite's C interface does it at any moment (`SQLITE_DBCONFIG_ENABLE_FKEY`). It is sound here, because all our foreign
keys are immediate: nothing is counted from one statement to the next. Python offers that call from 3.12 on; on 3.11
it is reached through ctypes.
"""

from __future__ import annotations

import _sqlite3
import contextlib
import ctypes
import sqlite3
import sys

ENABLE_FKEY = 1002  # SQLITE_DBCONFIG_ENABLE_FKEY


def switch_foreign_keys(raw: sqlite3.Connection, on: bool) -> bool:
    """Enforce foreign keys, or not, from the next statement on. False: this Python cannot do it."""
    if sys.version_info >= (3, 12):
        raw.setconfig(ENABLE_FKEY, on)
    elif sys.implementation.name == "cpython" and sys.platform == "linux":
        _config(raw, on)
    (state,) = raw.execute("PRAGMA foreign_keys").fetchone()
    return bool(state) == on


def _config(raw: sqlite3.Connection, on: bool) -> None:
    """`sqlite3_db_config` of the very library that Python's module uses; nothing is done where that has none."""
    # In CPython 3.11 the handle is the first field of the connection object, after the object's own head.
    handle = ctypes.c_void_p.from_address(id(raw) + object.__basicsize__)
    # A module that is built in has no file: its library is in the process itself, or cannot be reached.
    with contextlib.suppress(AttributeError, OSError):
        call = ctypes.CDLL(getattr(_sqlite3, "__file__", None)).sqlite3_db_config
        call(handle, ctypes.c_int(ENABLE_FKEY), ctypes.c_int(on), ctypes.c_void_p(None))
