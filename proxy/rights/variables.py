"""Session variables by what may be done with them, and values of switches. Names in lower case."""

from __future__ import annotations

import re

from rewriter.text.tokens import word_set

HARMLESS = word_set(
    "names autocommit sql_mode time_zone character_set_client character_set_connection character_set_results "
    "collation_connection wait_timeout interactive_timeout net_read_timeout net_write_timeout lock_wait_timeout "
    "innodb_lock_wait_timeout max_execution_time max_statement_time tx_isolation transaction_isolation tx_read_only "
    "transaction_read_only sql_auto_is_null sql_safe_updates sql_select_limit sql_notes sql_warnings "
    "session_track_schema session_track_system_variables session_track_state_change session_track_gtids "
    "session_track_transaction_info group_concat_max_len sql_quote_show_create lc_time_names lc_messages"
) | {"character set"}
"""What an account that is limited to its queues may set: it changes how its own statements are read and answered."""

REPEATABLE = HARMLESS | word_set(
    "foreign_key_checks unique_checks sql_big_selects default_storage_engine optimizer_switch default_week_format "
    "div_precision_increment tmp_table_size max_heap_table_size sort_buffer_size join_buffer_size"
)
"""What can be set in another session to the same effect. Not here: what applies once (insert_id) or creates something
(profiling, pseudo_thread_id)."""

READABLE = HARMLESS | word_set(
    "auto_increment_increment auto_increment_offset character_set_server character_set_database character_set_system "
    "collation_server collation_database default_storage_engine hostname identity init_connect innodb_read_only "
    "last_insert_id license lower_case_table_names lower_case_file_system max_allowed_packet max_connections "
    "performance_schema port protocol_version query_cache_size query_cache_type read_only super_read_only "
    "server_id server_uuid system_time_zone version version_comment version_compile_machine version_compile_os "
    "warning_count error_count foreign_key_checks unique_checks have_ssl have_openssl sql_big_selects in_transaction "
    "explicit_defaults_for_timestamp net_buffer_length innodb_version pseudo_thread_id"
)
"""What drivers and frameworks read when they connect."""

HIDDEN = frozenset(("init_connect",))
"""Of these, the ones an account that is limited to its queues may not see, because others wrote them: they are
empty."""

_PARSING_MODES = word_set("NO_BACKSLASH_ESCAPES ANSI_QUOTES ANSI ORACLE MSSQL DB2 MAXDB POSTGRESQL")
_MODE = re.compile(r"\w+", re.ASCII)

_SWITCHES = {"0": False, "1": True, "off": False, "on": True, "false": False, "true": True}


def switch_value(value: str | None) -> bool | None:
    """What a switch is set to; None where it is unknown."""
    return None if value is None else _SWITCHES.get(value.lower())


def without_parsing_modes(modes: str) -> str:
    """An sql_mode without those of its modes that change how SQL is parsed, and without anything that is no mode's
    name.

    It is put into one of our statements, so only names may get there, whatever a server returns.
    """
    names = (mode.strip() for mode in modes.split(","))
    return ",".join(name for name in names if _MODE.fullmatch(name) and name.upper() not in _PARSING_MODES)


def changes_parsing(modes: str) -> bool:
    """Whether an sql_mode changes how SQL is parsed: what a quote or a backslash is."""
    return not set(modes.upper().replace(" ", "").split(",")).isdisjoint(_PARSING_MODES)
