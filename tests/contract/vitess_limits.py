"""What a vtgate of Vitess 24 does in another way than MySQL, or not at all: tests of it are skipped there.

None of it concerns messages: every client of a vtgate has these limits. docs/servers.md has what users of queues meet.
"""

from __future__ import annotations

_ACCOUNTS = "a vtgate has no accounts: CREATE USER, GRANT"
_CHANGE_USER = "a vtgate does not know COM_CHANGE_USER"
_ERRORS = "errors of a vtgate have its own numbers and texts"
_LOCKS = "LOCK TABLES and FLUSH TABLES do nothing"
_MODES = "a vtgate refuses changes of sql_mode, and SET ... = DEFAULT"
_PLANNER = "a vtgate's planner cannot do it"
_PROCESSES = "a vtgate's process list has the connections of tablets"
_TABLET_NAMES = "information_schema has the tablets' names for databases"
_KEYSPACE = "a keyspace of vtcombo stays after DROP DATABASE"
_BYTES = "a vtgate takes texts in UTF-8 only"
_CHARACTER_SET = "a vtgate does not know ALTER DATABASE"
_TRIGGERS = "a vtgate does not know triggers"
_PURGE = "tablets purge tables of messages by themselves"
_WARNINGS = "a vtgate does not pass on the warnings of a tablet"
_OWN_VALUES = "a vtgate computes what needs no table itself, otherwise than MySQL"
_CUTS = "a vtgate 24.0.4 cuts the connection at an INSERT into an unknown table of information_schema"

LIMITS = {
    "test_a_queue_named_in_another_script_in_a_latin1_database": _CHARACTER_SET,
    "test_what_is_for_who_may_see_all_connections": _ACCOUNTS,
    "test_an_account_of_the_database_sees_what_it_is_granted": _ACCOUNTS,
    "test_an_account_of_the_database_learns_that_it_may_not_read_the_dead_letters": _ACCOUNTS,
    "test_a_topic_that_cannot_be_read_is_shown_with_the_reason": _ACCOUNTS,
    "test_an_account_that_may_not_write_the_lease_sends_as_before": _ACCOUNTS,
    "test_rights_that_are_taken_away_in_a_session_count": _ACCOUNTS,
    "test_what_an_account_loses_later_the_schedule_keeps": _ACCOUNTS,
    "test_a_proxy_that_may_not_make_the_table_says_so": _ACCOUNTS,
    "test_the_option_is_taken_back": _PURGE,
    "test_a_transaction_that_is_open_is_waited_for_and_what_it_commits_is_counted": _LOCKS,
    "test_no_name_without_qualifier_means_a_table_of_another_database": _CUTS,
    "test_a_result_that_meets_a_locked_table_is_no_empty_one": _LOCKS,
    "test_numbers_without_sign_do_not_become_negative": _ERRORS,
    "test_error_numbers": _ERRORS,
    "test_what_a_condition_cannot_be": _ERRORS,
    "test_what_is_no_condition_is_refused": _ERRORS,
    "test_columns_and_values_of_these_names_are_what_they_were": _ERRORS,
    "test_what_cannot_be_is_refused_and_changes_nothing": _ERRORS,
    "test_what_the_first_layout_cannot_do_without_is_named": _ERRORS,
    "test_a_condition_means_what_it_means_to_the_session": _MODES,
    "test_a_backslash_is_what_the_session_says": _MODES,
    "test_a_moment_is_one_of_the_sessions_time_zone": _MODES,
    "test_who_goes_on_to_information_schema_is_there": _MODES,
    "test_session_variables": _MODES,
    "test_show_and_describe": _OWN_VALUES,
    "test_expressions": _OWN_VALUES,
    "test_a_session_begun_anew_has_it_no_more": _CHANGE_USER,
    "test_another_user_may_begin_in_it": _CHANGE_USER,
    "test_another_user_does_not_inherit_it": _CHANGE_USER,
    "test_information_schema_lists_it_to_who_names_it": _TABLET_NAMES,
    "test_sqlalchemy_reflects_it": _TABLET_NAMES,
    "test_who_goes_on_by_a_prepared_use_is_there": _TABLET_NAMES,
    "test_a_real_database_of_that_name_wins": _KEYSPACE,
    "test_a_real_database_of_that_name_is_left_alone": _KEYSPACE,
    "test_a_view_or_a_clear_refusal": _PLANNER,
    "test_a_table_that_its_user_has_partitioned": "a vtgate reads ADD PARTITION with one partition only",
    "test_a_rollback_in_a_prepared_text_undoes_acks_also_in_memory": _PLANNER,
    "test_what_is_enqueued_with_a_time_limit_is_offered_at_once": "SET STATEMENT is MariaDB's",
    "test_what_shows_queues_is_answered_with_a_time_limit": "SET STATEMENT is MariaDB's",
    "test_answers_are_those_of_the_clients_own_statement": _WARNINGS,
    "test_an_enqueue_tells_what_the_backend_tells": _WARNINGS,
    "test_a_stream_is_in_the_process_list": _PROCESSES,
    "test_the_process_list_shows_the_statement_that_asks_for_it_as_it_was_written": _PROCESSES,
    "test_kill_query_of_oneself_is_1317": _PROCESSES,
    "test_wait_returns_as_soon_as_something_comes": _PROCESSES,
    "test_a_dead_receiver_is_noticed_with_nothing_to_send": _PROCESSES,
    "test_bytes_that_are_no_characters": _BYTES,
    "test_values_with_quotes_in_another_character_set": _BYTES,
    "test_a_reason_in_any_language_is_kept": _CHARACTER_SET,
    "test_a_table_of_old_takes_what_it_can": _CHARACTER_SET,
    "test_the_insert_writes_the_lease": _TRIGGERS,
    "test_it_writes_the_lease": _TRIGGERS,
    "test_types_that_are_sent_once_are_known_to_the_database": _TRIGGERS,
    "test_values_are_as_those_of_an_ordinary_table": "a vtgate takes an unsigned parameter for a signed one",
    "test_an_execution_that_is_malformed_is_the_databases_affair": "a vtgate takes an execution without its types",
    "test_forms": "a vtgate prepares what its tablet will refuse",
    "test_character_sets_and_modes": "a vtgate knows no other character sets and modes",
    "test_other_inserts_go_as_they_are": _TRIGGERS,
    "test_in_a_transaction_nothing_is_leased_before_the_commit": _TRIGGERS,
    "test_a_trigger_that_postpones_it_counts": _TRIGGERS,
    "test_a_message_that_a_trigger_refuses_stays_alone": _TRIGGERS,
    "test_a_message_whose_trigger_waits_for_a_lock_keeps_no_other": _TRIGGERS,
    "test_messages_of_a_receiver_that_is_gone_come_at_once_but_for_one_that_a_trigger_refuses": _TRIGGERS,
    "test_an_acked_message_that_a_trigger_refuses_to_delete_stays_alone": _TRIGGERS,
    "test_a_generated_column_that_does_not_depend_on_the_lease_changes_nothing": _TRIGGERS,
    "test_a_trigger_that_refuses_the_lease_changes_nothing": _TRIGGERS,
    "test_a_trigger_that_sets_time_next_alone_costs_no_attempt": _TRIGGERS,
    "test_table_is_no_way_to_a_stream": _ERRORS,
    "test_nothing_may_come_after_it": _ERRORS,
    "test_at_the_end_it_is_nothing": _ERRORS,
    "test_a_stream_shows_moments_as_the_table_does": _MODES,
    "test_a_stream_that_is_shut_down_with_the_proxy_is_1053": _PROCESSES,
    "test_a_wait_goes_on_when_the_lock_ends_in_its_time": _LOCKS,
    "test_a_locking_read_waits_for_acks_that_are_not_committed": _PROCESSES,
    "test_accounts_and_rights_of_the_database": _ACCOUNTS,
    "test_acked_and_purged": _PURGE,
    "test_only_what_is_archived_is_purged": _PURGE,
    "test_filters_of_bytes_that_are_no_characters": _BYTES,
    "test_bound_values": _OWN_VALUES,
    "test_a_nack_keeps_error_time_and_receiver": _ACCOUNTS,
    "test_accounts_of_the_database": _ACCOUNTS,
    "test_to_look_takes_the_right_to_read": _ACCOUNTS,
    "test_a_limited_account_is_not_told_the_proxys_own_account": _ACCOUNTS,
    "test_a_condition_reads_no_column_that_its_account_may_not": _ACCOUNTS,
    "test_a_right_that_is_missing_is_told_and_messages_go_row_by_row": _ACCOUNTS,
    "test_no_reason_ends_a_worker_where_backslashes_escape_nothing": _MODES,
    "test_behind_a_string_that_ends_with_a_backslash_it_is_refused_as_well": _MODES,
    "test_a_backslash_that_escapes_nothing_is_kept": _MODES,
    "test_a_backslash_is_refused_where_the_database_would_read_it": _MODES,
    "test_what_no_tick_could_send_is_refused_in_a_session_that_would_take_it": _WARNINGS,
    "test_turning_autocommit_on_where_it_is_on_ends_nothing": "a vtgate commits at SET autocommit = 1",
    "test_a_name_that_differs_in_an_accent_is_another_queues": _PURGE,
    "test_a_stream_in_a_transaction_leaves_the_table_to_others": "a vtgate asks no tablet at PREPARE",
    "test_why_a_message_cannot_be_leased_is_for_who_may_receive": _TRIGGERS,
    "test_a_result_in_a_transaction_does_not_wait_behind_an_alter": "a vtgate asks no tablet at PREPARE",
}
