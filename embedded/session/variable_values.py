"""The values that system variables take: each of the type and in the range that MariaDB has for it.

A whole number out of its range is brought into it, as servers do; of a value of another type there is nothing to be
made, so it is refused. Names are in lower case. Pure.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from embedded.compile.errors import SqlError, unsupported
from embedded.compile.functions.dates import time_zone
from embedded.compile.text.keywords import keywords
from embedded.compile.text.literal_lifting import Unsigned
from embedded.compile.values.types import COLLATION_IDS

IDLE_MAX = 31_536_000  # seconds, a year: MySQL's own bound of wait_timeout
DEFAULT_SQL_MODE = (
    "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
)
BOOLEAN = keywords(
    "autocommit foreign_key_checks unique_checks sql_notes sql_warnings sql_auto_is_null sql_safe_updates "
    "sql_big_selects sql_log_bin sql_log_off sql_buffer_result sql_quote_show_create big_tables "
    "transaction_read_only tx_read_only profiling explicit_defaults_for_timestamp sql_require_primary_key "
    "session_track_schema old_passwords lower_case_file_system local_infile log_bin read_only super_read_only "
    "performance_schema innodb_read_only automatic_sp_privileges"
)
_FLOATS = frozenset(("max_statement_time", "timestamp"))
_SIGNED = frozenset(("innodb_autoinc_lock_mode", "max_user_connections"))
_LOCK_WAIT_MAX = 3600  # seconds; no client waits longer than this for a row
_U16, _U32, _U64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1
_RANGES = {
    "auto_increment_increment": (1, _U16),
    "auto_increment_offset": (1, _U16),
    "connect_timeout": (2, IDLE_MAX),
    "default_week_format": (0, 7),
    "group_concat_max_len": (4, 1 << 30),
    "information_schema_stats_expiry": (0, IDLE_MAX),
    "innodb_lock_wait_timeout": (0, _LOCK_WAIT_MAX),
    "interactive_timeout": (1, IDLE_MAX),
    "lock_wait_timeout": (0, IDLE_MAX),
    "max_allowed_packet": (1024, 1 << 30),
    "max_connections": (10, 100_000),
    "max_error_count": (0, _U16),
    "max_execution_time": (0, _U32),
    "max_join_size": (1, _U64),
    "max_prepared_stmt_count": (0, _U32),
    "max_user_connections": (-1, (1 << 31) - 1),
    "net_buffer_length": (1024, 1 << 20),
    "net_read_timeout": (1, IDLE_MAX),
    "net_write_timeout": (1, IDLE_MAX),
    "pseudo_thread_id": (0, _U32),
    "wait_timeout": (1, IDLE_MAX),
}
"""The least and the most of each, where that is not all of BIGINT UNSIGNED."""

_SQL_MODES = frozenset(
    (
        *DEFAULT_SQL_MODE.split(","),
        *("ALLOW_INVALID_DATES", "ANSI_QUOTES", "HIGH_NOT_PRECEDENCE", "IGNORE_SPACE", "NO_AUTO_VALUE_ON_ZERO"),
        *("NO_BACKSLASH_ESCAPES", "NO_DIR_IN_CREATE", "NO_UNSIGNED_SUBTRACTION", "PAD_CHAR_TO_FULL_LENGTH"),
        *("PIPES_AS_CONCAT", "REAL_AS_FLOAT", "STRICT_ALL_TABLES", "TIME_TRUNCATE_FRACTIONAL", "NO_AUTO_CREATE_USER"),
        *("TRADITIONAL", "ANSI", "NO_KEY_OPTIONS", "NO_FIELD_OPTIONS", "NO_TABLE_OPTIONS"),
    )
)
_REFUSED_MODES = frozenset(("HIGH_NOT_PRECEDENCE", "NO_UNSIGNED_SUBTRACTION", "PAD_CHAR_TO_FULL_LENGTH"))
_COMBINED_MODES = {
    "ANSI": ("REAL_AS_FLOAT", "PIPES_AS_CONCAT", "ANSI_QUOTES", "IGNORE_SPACE", "ONLY_FULL_GROUP_BY", "ANSI"),
}
_LEVELS = ("READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE")
_CHARSETS = frozenset(("utf8mb4", "utf8mb3", "utf8", "binary", "ascii", "latin1"))
_ENGINES = frozenset(("innodb", "myisam", "memory", "aria", "csv", "archive", "blackhole", "merge", "mrg_myisam"))
_LOCALE = re.compile(r"[a-z]{2,3}_[A-Z]{2}")


def typed(name: str, value: Any) -> Any:
    """A variable's value as an operand of a statement: of the type that it has in a server."""
    if type(value) is not int or name in BOOLEAN or name in _SIGNED:
        return value
    return float(value) if name in _FLOATS else Unsigned(value)


def shown(name: str, value: Any) -> str:
    """A variable's value as SHOW VARIABLES has it; switches read ON and OFF."""
    if name in BOOLEAN and value in (0, 1):
        return "ON" if value else "OFF"
    return f"{value:.6f}" if name in _FLOATS else str(value)


def checked(name: str, default: Any, value: Any) -> Any:
    """The value as it is stored, of the type of `default`.

    Raises:
        SqlError: the type is another (1232), or there is no such value (1231, or an error of that variable's own).
    """
    if name not in _FLOATS and (isinstance(value, float) or (isinstance(value, Decimal) and _is_fraction(value))):
        raise _wrong_type(name)
    if name in BOOLEAN:
        return _boolean(name, value)
    if name in _FLOATS:
        return _seconds(name, value)
    if isinstance(default, int):
        return _whole(name, value)
    return _word(name, value)


def _is_fraction(value: Decimal) -> bool:
    return not value.is_finite() or int(value.as_tuple().exponent) < 0


def _whole(name: str, value: Any) -> int:
    if not isinstance(value, int | Decimal):
        raise _wrong_type(name)
    low, high = _RANGES.get(name, (0, _U64))
    return min(max(int(value), low), high)


def _seconds(name: str, value: Any) -> float:
    if not isinstance(value, int | float | Decimal):
        raise _wrong_type(name)
    return min(max(float(value), 0.0), float(IDLE_MAX if name == "max_statement_time" else (1 << 31) - 1))


def _boolean(name: str, value: Any) -> int:
    if isinstance(value, Decimal):
        raise _wrong_type(name)
    text = str(value).upper()
    if text in ("1", "ON", "TRUE", "YES"):
        return 1
    if text in ("0", "OFF", "FALSE", "NO"):
        return 0
    raise _wrong(name, value)


def _word(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if name == "sql_mode":
        return _modes(name, value)
    if name == "transaction_isolation":
        return _level(name, value)
    if isinstance(value, int | Decimal):
        raise _wrong_type(name)
    if name == "character_set_results" and value is None:
        return "utf8mb4"  # MySQL: not converted
    if value is None:
        raise _wrong(name, value)
    text = str(value)
    if name.startswith("character_set_"):
        return _charset(text)
    if name.startswith("collation_") and text.lower() not in COLLATION_IDS:
        raise SqlError(1273, f"Unknown collation: '{text}'")
    if name.endswith("storage_engine") and text.lower() not in _ENGINES:
        raise SqlError(1286, f"Unknown storage engine '{text}'")
    if name == "time_zone" and time_zone(text) is None:
        raise SqlError(1298, f"Unknown or incorrect time zone: '{text}'")
    if name.startswith("lc_") and not _LOCALE.fullmatch(text):
        raise SqlError(1649, f"Unknown locale: '{text}'")
    return text


def _modes(name: str, value: Any) -> str:
    modes = [mode.strip().upper() for mode in str(value or "").split(",") if mode.strip()]
    for mode in modes:
        if mode not in _SQL_MODES:
            raise _wrong(name, mode)
        if mode in _REFUSED_MODES:
            raise unsupported(f"sql_mode {mode}", "leave it out")
    return ",".join(dict.fromkeys(each for mode in modes for each in _COMBINED_MODES.get(mode, (mode,))))


def _level(name: str, value: Any) -> str:
    level = str(value).upper().replace(" ", "-")
    if level not in _LEVELS:
        raise _wrong(name, value)
    return level


def _charset(text: str) -> str:
    charset = text.lower()
    if charset not in _CHARSETS:
        raise SqlError(1115, f"Unknown character set: '{text}'")
    return charset


def _wrong(name: str, value: Any) -> SqlError:
    return SqlError(1231, f"Variable '{name}' can't be set to the value of '{'NULL' if value is None else value}'")


def _wrong_type(name: str) -> SqlError:
    return SqlError(1232, f"Incorrect argument type to variable '{name}'")
