"""System and user variables of a session: what clients read and set.

Those that are implemented have an effect (autocommit, sql_mode, time_zone ...); those that only describe a server are
constants; those whose setting would promise what is not implemented are refused unless set to what is true anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from embedded.compile.binding import utc_now
from embedded.compile.errors import SqlError, unsupported
from embedded.compile.text.literal_lifting import LexicalModes
from embedded.compile.values.types import DEFAULT_COLLATION
from embedded.session.variable_values import DEFAULT_SQL_MODE, checked, shown, typed

# Name to default. A tuple (value,) is read-only.
_CONSTANTS: dict[str, Any] = {
    "auto_increment_increment": 1,
    "auto_increment_offset": 1,
    "autocommit": 1,
    "automatic_sp_privileges": (1,),
    "back_log": (128,),
    "basedir": ("/",),
    "big_tables": 0,
    "bulk_insert_buffer_size": 8388608,
    "character_set_client": "utf8mb4",
    "character_set_connection": "utf8mb4",
    "character_set_database": "utf8mb4",
    "character_set_filesystem": "binary",
    "character_set_results": "utf8mb4",
    "character_set_server": "utf8mb4",
    "character_set_system": ("utf8mb3",),
    "collation_connection": DEFAULT_COLLATION,
    "collation_database": DEFAULT_COLLATION,
    "collation_server": DEFAULT_COLLATION,
    "completion_type": "NO_CHAIN",
    "connect_timeout": 10,
    "datadir": ("/",),
    "default_authentication_plugin": ("caching_sha2_password",),
    "default_storage_engine": "InnoDB",
    "default_tmp_storage_engine": "InnoDB",
    "default_week_format": 0,
    "div_precision_increment": (4,),
    "event_scheduler": ("OFF",),
    "explicit_defaults_for_timestamp": 1,
    "foreign_key_checks": 1,
    "group_concat_max_len": 1048576,
    "have_openssl": ("DISABLED",),
    "have_ssl": ("DISABLED",),
    "hostname": ("localhost",),
    "identity": 0,
    "information_schema_stats_expiry": 86400,
    "init_connect": ("",),
    "innodb_autoinc_lock_mode": (2,),
    "innodb_flush_log_at_trx_commit": (1,),
    "innodb_lock_wait_timeout": 5,
    "innodb_read_only": (0,),
    "innodb_version": ("8.0",),
    "insert_id": 0,
    "interactive_timeout": 28800,
    "last_insert_id": 0,
    "lc_messages": "en_US",
    "lc_time_names": "en_US",
    "license": ("Apache-2.0",),
    "local_infile": (0,),
    "lock_wait_timeout": 31536000,
    "log_bin": (0,),
    "lower_case_file_system": (0,),
    "lower_case_table_names": (0,),
    "max_allowed_packet": 67108864,
    "max_connections": 151,
    "max_error_count": 64,
    "max_execution_time": 0,
    "max_join_size": 18446744073709551615,
    "max_statement_time": 0,
    "max_prepared_stmt_count": 16382,
    "max_user_connections": 0,
    "net_buffer_length": 16384,
    "net_read_timeout": 30,
    "net_write_timeout": 60,
    "old_passwords": 0,
    "optimizer_switch": "",
    "performance_schema": (0,),
    "port": (0,),
    "profiling": 0,
    "protocol_version": (10,),
    "pseudo_thread_id": 0,
    "query_cache_size": (0,),
    "query_cache_type": ("OFF",),
    "read_only": (0,),
    "server_id": (1,),
    "session_track_schema": 1,
    "session_track_system_variables": "",
    "socket": ("",),
    "sql_auto_is_null": 0,
    "sql_big_selects": 1,
    "sql_buffer_result": 0,
    "sql_log_bin": 1,
    "sql_log_off": 0,
    "sql_mode": DEFAULT_SQL_MODE,
    "sql_notes": 1,
    "sql_quote_show_create": 1,
    "sql_require_primary_key": 0,
    "sql_safe_updates": 0,
    "sql_select_limit": 18446744073709551615,
    "sql_warnings": 0,
    "storage_engine": "InnoDB",
    "super_read_only": (0,),
    "system_time_zone": ("UTC",),
    "time_zone": "SYSTEM",
    "timestamp": 0,
    "tmp_table_size": 16777216,
    "transaction_isolation": "READ-COMMITTED",
    "transaction_read_only": 0,
    "tx_isolation": "READ-COMMITTED",
    "tx_read_only": 0,
    "unique_checks": 1,
    "version": ("",),
    "version_comment": ("queuegate, embedded backend",),
    "version_compile_machine": ("",),
    "version_compile_os": ("",),
    "wait_timeout": 28800,
}
NAMES = tuple(_CONSTANTS)
"""All that there are."""

_ALIASES = {"tx_isolation": "transaction_isolation", "tx_read_only": "transaction_read_only"}
# Variables that act only in a real server: any other value would promise what is not implemented.
_FIXED = {
    "sql_auto_is_null": "IS NULL does not find the last inserted row here",
    "sql_safe_updates": "updates without a key are not refused here",
    "sql_big_selects": "large SELECTs are not refused here",
    "auto_increment_increment": "numbers follow each other here",
    "auto_increment_offset": "numbers follow each other here",
    "sql_require_primary_key": "tables without a primary key are not refused here",
    "big_tables": "",
    "timestamp": "NOW() is the machine's clock here",
    "insert_id": "name the value in the INSERT",
    "max_join_size": "large joins are not refused here",
    "default_week_format": "give WEEK() its mode",
    "lc_time_names": "names of days and months are English here",
    "completion_type": "write AND CHAIN",
}


USER_MAX = 64 << 20  # characters or bytes of all user variables of a session: as much as the largest packet
_LARGE = 4096  # of a value that is counted


@dataclass(eq=False, slots=True)
class Variables:
    """A session's variables over the database's global ones. `constants` are what this server is, `settings` its
    configuration of variables that clients may set."""

    shared: dict[str, Any]
    constants: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    session: dict[str, Any] = field(default_factory=dict)
    user: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str, scope: str = "") -> Any:
        """A system variable.

        Raises:
            SqlError: 1193 no such variable.
        """
        lower = name.lower()
        key = _ALIASES.get(lower, lower)
        if key in self.constants:
            return self.constants[key]
        if key not in _CONSTANTS:
            raise SqlError(1193, f"Unknown system variable '{name}'")
        if scope != "global" and key in self.session:
            return self.session[key]
        return self.shared[key] if key in self.shared else self._default(key)

    def _default(self, key: str) -> Any:
        if key == "timestamp":
            return utc_now().timestamp()
        default = self.settings.get(key, _CONSTANTS[key])
        return default[0] if isinstance(default, tuple) else default

    def chosen(self, name: str) -> Any:
        """The value that a client has set, None where none has."""
        return self.session.get(name, self.shared.get(name))

    def look_up(self, text: str) -> Any:
        """The value of `@name` or `@@[scope.]name` in a statement."""
        if not text.startswith("@@"):
            return self.user.get(text[1:].strip("`'\"").lower())
        name = text[2:].replace("`", "").replace(" ", "")
        scope, _, rest = name.rpartition(".")
        return typed(rest.lower(), self.get(rest, scope.lower()))

    def check(self, name: str, value: Any) -> Any:
        """The value as it will be stored.

        Raises:
            SqlError: 1193 unknown, 1238 read-only, 1231 wrong value, 1235 not implemented.
        """
        key = _ALIASES.get(name, name)
        if key in self.constants or isinstance(_CONSTANTS.get(key), tuple):
            raise SqlError(1238, f"Variable '{name}' is a read only variable")
        if key not in _CONSTANTS:
            raise SqlError(1193, f"Unknown system variable '{name}'")
        if isinstance(value, str) and value.upper() == "DEFAULT":
            return self.shared.get(key, self.settings.get(key, _CONSTANTS[key]))
        stored = checked(key, _CONSTANTS[key], value)
        if key in _FIXED and stored != _CONSTANTS[key]:
            raise unsupported(f"SET {name} = {stored}", _FIXED[key])
        return stored

    def assign(self, scope: str, name: str, value: Any) -> None:
        """Store a value that was checked."""
        key = _ALIASES.get(name, name)
        (self.shared if scope == "global" else self.session)[key] = value

    def store_user(self, new: Mapping[str, Any]) -> None:
        """User variables get these values.

        Raises:
            SqlError: 1301 with the others of the session they are too large.
        """
        self.check_size(new)
        self.user.update(new)

    def check_size(self, new: Mapping[str, Any]) -> None:
        """See `store_user`. Small values need no check of the others."""
        if max(map(_size, new.values()), default=0) <= _LARGE:
            return
        if sum(map(_size, {**self.user, **new}.values())) > USER_MAX:
            raise SqlError(1301, f"The user variables of a session may have {USER_MAX} characters or bytes together")

    def all(self, scope: str) -> list[tuple[str, str]]:
        """Every variable with its value as SHOW VARIABLES prints it."""
        names = sorted({*_CONSTANTS, *self.constants})
        return [(name, shown(name, typed(name, self.get(name, scope)))) for name in names]

    def reset(self) -> None:
        self.session.clear()
        self.user.clear()

    @property
    def sql_modes(self) -> frozenset[str]:
        return frozenset(str(self.get("sql_mode")).split(","))

    @property
    def select_limit(self) -> int | None:
        """The most rows that a SELECT without LIMIT returns; None for all."""
        limit = self.get("sql_select_limit")
        return max(int(limit), 0) if limit < 1 << 63 else None


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes) else 0


@lru_cache(maxsize=64)
def lexical_modes(sql_mode: str) -> LexicalModes:
    """How strings and names are written under an sql_mode."""
    modes = sql_mode.split(",")
    return LexicalModes("ANSI_QUOTES" in modes, "NO_BACKSLASH_ESCAPES" in modes)
