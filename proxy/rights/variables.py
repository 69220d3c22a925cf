"""Session variables by what may be done with them, and values of switches. Names in lower case."""

from __future__ import annotations

from rewriter.text.tokens import word_set

HARMLESS = word_set(
    "names autocommit sql_mode time_zone character_set_client character_set_connection character_set_results "
    "collation_connection wait_timeout interactive_timeout net_read_timeout net_write_timeout lock_wait_timeout "
    "innodb_lock_wait_timeout max_execution_time max_statement_time tx_isolation transaction_isolation tx_read_only "
    "transaction_read_only sql_auto_is_null sql_safe_updates sql_select_limit sql_notes sql_warnings "
    "session_track_schema session_track_system_variables session_track_state_change session_track_gtids "
    "session_track_transaction_info group_concat_max_len sql_quote_show_create lc_time_names lc_messages "
    "sql_big_selects completion_type"
) | {"character set"}
"""What an account that is limited to its queues may set: it changes how its own statements are read and answered."""

REPEATABLE = HARMLESS | word_set(
    "foreign_key_checks unique_checks default_storage_engine optimizer_switch default_week_format "
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
    "warning_count error_count foreign_key_checks unique_checks have_ssl have_openssl in_transaction "
    "explicit_defaults_for_timestamp net_buffer_length innodb_version pseudo_thread_id"
)
"""What drivers and frameworks read when they connect."""

HIDDEN = frozenset(("init_connect",))
"""Of these, the ones an account that is limited to its queues may not see, because others wrote them: they are
empty."""

# Every other is taken for one by which a quote or a backslash may be something else.
_PLAIN_MODES = word_set(
    "REAL_AS_FLOAT PIPES_AS_CONCAT IGNORE_SPACE ONLY_FULL_GROUP_BY NO_UNSIGNED_SUBTRACTION NO_DIR_IN_CREATE "
    "NO_KEY_OPTIONS NO_TABLE_OPTIONS NO_FIELD_OPTIONS MYSQL323 MYSQL40 NO_AUTO_VALUE_ON_ZERO STRICT_TRANS_TABLES "
    "STRICT_ALL_TABLES NO_ZERO_IN_DATE NO_ZERO_DATE ALLOW_INVALID_DATES ERROR_FOR_DIVISION_BY_ZERO TRADITIONAL "
    "NO_AUTO_CREATE_USER HIGH_NOT_PRECEDENCE NO_ENGINE_SUBSTITUTION PAD_CHAR_TO_FULL_LENGTH EMPTY_STRING_IS_NULL "
    "SIMULTANEOUS_ASSIGNMENT TIME_ROUND_FRACTIONAL TIME_TRUNCATE_FRACTIONAL"
)

_SWITCHES = {"0": False, "1": True, "off": False, "on": True, "false": False, "true": True}


def switch_value(value: str | None) -> bool | None:
    """What a switch is set to; None where it is unknown."""
    return None if value is None else _SWITCHES.get(value.lower())


def without_parsing_modes(modes: str) -> str:
    """An sql_mode without those of its modes that change how SQL is parsed, and without any that is not known.

    It is put into one of our statements, so only names may get there, whatever a server returns.
    """
    return ",".join(name for name in _modes(modes) if name in _PLAIN_MODES)


def changes_parsing(modes: str) -> bool:
    """Whether an sql_mode changes how SQL is parsed (what a quote or a backslash is), or may: one that is not known."""
    return any(name and name not in _PLAIN_MODES for name in _modes(modes))


def _modes(modes: str) -> list[str]:
    return [mode.strip(" ").upper() for mode in modes.split(",")]
