"""Queue options: reading, bounds, and the table comment, which must read back as it was written."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.model.errors import InvalidOption, InvalidQueueTable
from engine.model.option_values import parse_duration
from engine.model.options import (
    OF_ONE_QUEUE,
    QueueOptions,
    check_dead_letter,
    from_comment,
    option_items,
    parse_options,
    to_comment,
)

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("500ms", SECOND // 2),
        ("30s", 30 * SECOND),
        ("5m", 300 * SECOND),
        ("2h", 7200 * SECOND),
        ("1d", 86400 * SECOND),
        (30, 30 * SECOND),
        ("1.5", 1_500_000_000),
        ("0.0000000001", 0),
        (" 2 S ", 2 * SECOND),
        ("30.0e0", 30 * SECOND),
        ("2.5e-7", 250),
        (".5", SECOND // 2),
        ("5.", 5 * SECOND),
        ("+3E1 s", 30 * SECOND),
        (30.0, 30 * SECOND),
        (1e-07, 100),
    ],
)
def test_durations(text: str | int, nanoseconds: int) -> None:
    assert parse_duration("ack_wait", text) == nanoseconds


@pytest.mark.parametrize(
    "text", ["", "-1", "1w", "1e9", "1e99999", "1e", ".", "e5", "one", "1s1s", "٣s", "nan", "10000d"]
)
def test_what_is_no_duration_is_refused_with_the_options_name(text: str) -> None:
    with pytest.raises(InvalidOption, match="ack_wait"):
        parse_duration("ack_wait", text)


def test_an_unknown_option_is_refused_with_the_list_of_allowed_ones() -> None:
    with pytest.raises(InvalidOption, match=r"unknown queue option 'ackwait'; did you mean ack_wait\? allowed: "):
        parse_options({"ackwait": 3})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", 0),
        ("batch_size", "1.5"),
        ("cache_size", -1),
        ("prefetch", "many"),
        ("ack_wait", "1ms"),
        ("poll_interval", 0),
        ("message_cols", "payload"),
        ("message_cols", "id|a|A"),
        ("message_cols", "id||a"),
        ("max_attempts", "often"),
        ("max_rate", 0),
        ("max_rate", "fast"),
        ("max_rate", "999999999.9999999"),
        ("max_rate", "9" * 40),
        ("max_concurrency", 0),
        ("order_key", "a" * 65),
        ("group_key", "a\0b"),
        ("dead_letter", ""),
        ("on_failure", "panic"),
    ],
)
def test_absurd_values_are_refused(name: str, value: str | int) -> None:
    with pytest.raises(InvalidOption, match=name):
        parse_options({name: value})


def test_attempts_and_dead_letters_are_kept_in_the_comment() -> None:
    options = parse_options({"max_attempts": 5, "dead_letter": "lost", "dead_letter_of": "q"})
    assert from_comment(to_comment(options), "t") == options
    assert "max_attempts=5,dead_letter=lost" in to_comment(options)


def test_how_often_a_message_is_delivered() -> None:
    assert QueueOptions().attempts_max == 0
    assert parse_options({"max_attempts": 3}).attempts_max == 3
    assert parse_options({"on_failure": "dead_letter"}).attempts_max == 0
    assert parse_options({"on_failure": "dead_letter", "order_key": "a"}).attempts_max == 1
    assert parse_options({"on_failure": "dead_letter", "order_key": "a", "max_attempts": 4}).attempts_max == 1


def test_a_queue_is_not_its_own_dead_letter_queue() -> None:
    with pytest.raises(InvalidOption, match="dead_letter"):
        check_dead_letter(parse_options({"dead_letter": "Q"}), "q")
    check_dead_letter(parse_options({"dead_letter": "other"}), "q")


def test_limits_and_order_are_kept_in_the_comment() -> None:
    given = {"max_rate": "2.5/s", "max_concurrency": 3, "order_key": "*", "on_failure": "skip", "paused": 1}
    options = parse_options(given)
    assert from_comment(to_comment(options), "t") == options
    assert "max_rate=2.5,max_concurrency=3,order_key=*,on_failure=skip,paused=1" in to_comment(options)
    assert options.limited and options.waits_for_settlement and not QueueOptions().limited


def test_options_at_their_defaults_leave_no_trace_in_the_comment() -> None:
    assert not any(
        name in to_comment(QueueOptions())
        for name in ("max_attempts", "dead_letter", "max_rate", "order_key", "on_failure")
    )


def test_a_long_ack_wait_lifts_the_default_bound_of_the_backoff() -> None:
    assert parse_options({"ack_wait": "2h"}).max_backoff_ns == 7200 * SECOND
    with pytest.raises(InvalidOption, match=r"max_backoff is shorter than min_backoff .*: 3600s and 7200s"):
        parse_options({"ack_wait": "2h", "max_backoff": "1h"})


def test_names_are_read_without_case_and_over_the_configured_defaults() -> None:
    base = QueueOptions(prefetch=7)
    assert parse_options({"ACK_WAIT": 5}, base) == QueueOptions(ack_wait_ns=5 * SECOND, prefetch=7)


def test_a_lower_prefetch_does_not_change_the_batch_size() -> None:
    narrow = parse_options({"prefetch": 1})
    assert (narrow.batch_size, narrow.batch_max) == (100, 1)
    wide = parse_options({"prefetch": 500}, narrow, altered=narrow)
    assert (wide.batch_size, wide.batch_max) == (100, 100)


def test_a_vitess_comment_is_read_and_foreign_pieces_are_ignored() -> None:
    comment = (
        "vitess_message,vt_ack_wait=0.5,vt_purge_after=86400,vt_batch_size=10,vt_cache_size=50,vt_poller_interval=2,x"
    )
    assert from_comment(comment, "t") == QueueOptions(
        ack_wait_ns=SECOND // 2, batch_size=10, cache_size=50, poll_interval_ns=2 * SECOND
    )


@pytest.mark.parametrize(
    "key", ["vt_ack_wait", "vt_purge_after", "vt_batch_size", "vt_cache_size", "vt_poller_interval"]
)
def test_a_missing_vitess_key_is_named(key: str) -> None:
    comment = ",".join(piece for piece in to_comment(QueueOptions()).split(",") if not piece.startswith(f"{key}="))
    with pytest.raises(InvalidQueueTable, match=f"attribute {key} not specified for message table: t"):
        from_comment(comment, "t")


def test_an_unreadable_value_in_a_comment_is_named() -> None:
    comment = to_comment(QueueOptions()).replace("vt_batch_size=100", "vt_batch_size=lots")
    with pytest.raises(InvalidQueueTable, match=r"vt_batch_size.*table t"):
        from_comment(comment, "t")


durations = st.integers(10_000_000, 3650 * 86400 * SECOND)
options = st.builds(
    QueueOptions,
    ack_wait_ns=durations,
    min_backoff_ns=st.none() | durations,
    max_backoff_ns=durations,
    purge_after_ns=st.integers(0, 86400 * SECOND),
    batch_size=st.integers(1, 10_000),
    prefetch=st.integers(1, 1_000_000),
    cache_size=st.integers(1, 10_000_000),
    poll_interval_ns=durations,
    message_cols=st.just(()) | st.just(("id", "payload")),
)


@given(options)
def test_the_comment_reads_back_as_it_was_written(options: QueueOptions) -> None:
    assert from_comment(to_comment(options), "t") == options
    assert len(to_comment(options)) < 2048  # what MySQL allows a table comment


def test_show_create_lists_what_makes_the_queue_under_any_defaults() -> None:
    listed = option_items(QueueOptions())
    assert not set(listed).intersection(OF_ONE_QUEUE)
    others = parse_options({"ack_wait": 1, "min_backoff": 2, "max_attempts": 7, "prefetch": 5, "batch_size": 5})
    assert parse_options(listed, others) == QueueOptions()
    changed = parse_options({"ack_wait": "1500ms", "prefetch": 5, "batch_size": 5, "message_cols": "id|a b"})
    items = {"ack_wait": "1.5s", "batch_size": 5, "prefetch": 5, "message_cols": "id|a b"}
    assert option_items(changed) == {**listed, **items}
    assert parse_options(option_items(changed), others) == changed


characters = st.characters(max_codepoint=0xFFFF, exclude_characters="\0", exclude_categories=("Cs",))
names = st.text(characters, min_size=1, max_size=64).map(lambda text: text.strip() or "x")


@pytest.mark.parametrize("option", ["dead_letter", "dead_letter_of", "order_key", "group_key"])
@pytest.mark.parametrize("name", ["\udcff", "a\udc80b", "😀", "", "a\0", "x" * 65])
def test_what_no_database_takes_for_a_name_is_refused(option: str, name: str) -> None:
    with pytest.raises(InvalidOption, match=f"{option}: .* is not a name"):
        parse_options({option: name}, QueueOptions())
    with pytest.raises(InvalidOption, match="is not a list of column names"):
        parse_options({"message_cols": f"id|{name}"}, QueueOptions())


@settings(derandomize=True)
@given(names, names, names, names.filter(lambda text: not set(text) & set("|,") and text.lower() != "id"))
@example("a' SELECT 1#", "a,b=c", "100%27", "x\\'")
def test_names_are_kept_in_the_comment_whatever_they_hold(of: str, dead: str, key: str, column: str) -> None:
    options = QueueOptions(dead_letter_of=of, dead_letter=dead, order_key=key, message_cols=("id", column))
    assert from_comment(to_comment(options), "t") == options
    assert re.fullmatch(r"[\w$%,=.|*]+", to_comment(options), re.ASCII)


def test_a_name_that_was_written_unescaped_is_read() -> None:
    comment = to_comment(QueueOptions()) + ",dead_letter_of=漢字,vt_message_cols=id|größe"
    assert from_comment(comment, "t") == QueueOptions(dead_letter_of="漢字", message_cols=("id", "größe"))
