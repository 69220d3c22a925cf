"""The pure parts of what the console changes: verbs, their words, the form of a message, pieces of dead letters."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysql.constants import FIELD_TYPE

from console.database import Column, with_values, without_values
from console.pages.messages.dead_letters import errors_sql
from console.pages.messages.dead_pieces import PIECE, Selection, condition, piece
from console.pages.messages.editable import Changes, changes, digest, due_ns, due_text, editable, update
from console.pages.messages.message_rows import value
from console.pages.messages.message_verbs import VERBS, Clauses, offered, outcome_text, requested_ids, statement
from console.rates import Rates
from console.visits import BadInput, Visit
from engine.model.queue import QueueName

Q = QueueName("shop", "or`d%ers")
TEXT, BYTES = Column("body", FIELD_TYPE.BLOB), Column("data", FIELD_TYPE.BLOB, binary=True)
COLUMNS = (Column("id", FIELD_TYPE.LONGLONG, binary=True), TEXT, BYTES, Column("time_next", FIELD_TYPE.LONGLONG, True))
ROW = {"id": 1, "body": "one\ntwo", "data": b"\xff", "time_next": 5}


def visit(**fields: str) -> Visit:
    return Visit(None, fields, Rates(), 0.0, "")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verb", "clauses", "expected"),
    [
        ("ack", Clauses(), "ACK `shop`.`or``d%ers` 7, 'it''s %s'"),
        ("nack", Clauses(delay="5m", reason="a%s"), "NACK `shop`.`or``d%ers` 7, 'it''s %s' DELAY '5m' REASON 'a%s'"),
        ("reject", Clauses(reason="\\"), "REJECT `shop`.`or``d%ers` 7, 'it''s %s' REASON '\\\\'"),
        ("release", Clauses(), "RELEASE `shop`.`or``d%ers` 7, 'it''s %s'"),
        ("retry", Clauses(), "RETRY `shop`.`or``d%ers` NOW WHERE id IN (7, 'it''s %s')"),
        ("redrive", Clauses(), "REDRIVE `shop`.`or``d%ers` WHERE id IN (7, 'it''s %s')"),
    ],
)
def test_the_statement_of_a_verb(verb, clauses, expected):
    what = statement(verb, Q, [7, "it's %s"], clauses)
    assert with_values(*what) == expected
    assert "it's" not in without_values(what.sql) and "`or``d%ers`" in without_values(what.sql)


def test_a_verb_of_one_delivery():
    what = statement("release", Q, [7], Clauses(epoch=3, lease_token=1795829219837305))
    assert with_values(*what) == "RELEASE `shop`.`or``d%ers` WHERE id = 7 AND lease_token = 1795829219837305"
    what = statement("nack", Q, [7], Clauses(epoch=3))
    assert with_values(*what) == "NACK `shop`.`or``d%ers` WHERE id = 7 AND epoch = 3"


@pytest.mark.parametrize("verb", VERBS)
def test_words_of_every_outcome(verb):
    one = [outcome_text(verb, Q, ["7"], changed) for changed in (0, 1)]
    several = [outcome_text(verb, Q, ["7", "8", "9"], changed) for changed in range(4)]
    assert len({*one, *several}) == 6
    assert one[0].startswith("Nothing was changed. Message 7") and several[0].startswith("Nothing was changed.")
    assert several[1].startswith("1 of 3") and several[3].startswith("3 messages")
    assert outcome_text(verb, Q, ["7"], 0, "It is acked.") == "Nothing was changed. It is acked."


def test_what_is_offered_in_each_state():
    assert "nack" not in offered("ready", 0) and "nack" in offered("ready", 2)
    assert offered("dead", 0) == ("redrive", "ack")
    assert offered("acked", 1) == offered("rejected", 1) == ()


def test_ids_of_a_form():
    assert requested_ids(visit(id="5", id3="7", id2="5", id51="9"), 10) == ("5", "7")
    for wrong in ({}, {"id": ""}, {"id": "x" * 11}):
        with pytest.raises(BadInput):
            requested_ids(visit(**wrong), 10)


# --- the form of a message


def as_a_browser(text):
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30))
def test_a_value_that_a_browser_sends_back_is_no_change(text):
    columns = (TEXT,)
    (column,) = editable({"body": text}, columns)
    if column.closed:
        return
    fields = {"column1": "body", "was1": column.was, "value1": as_a_browser(column.text)}
    assert changes(visit(**fields), {"body": text}, columns, dead=True).values == {}
    fields["value1"] += "x"
    assert changes(visit(**fields), {"body": text}, columns, dead=True).values == {"body": text + "x"}, (
        "the breaks stay as they are"
    )


def test_values_that_a_form_does_not_keep():
    assert editable({"body": "a\r\nb\n"}, (TEXT,))[0].closed and editable({"body": "a\0"}, (TEXT,))[0].closed
    assert editable({"body": "x" * 65_537}, (TEXT,))[0].closed
    assert "65536 bytes" in editable({"data": "é".encode() * 40_000}, (BYTES,))[0].closed, "SUBSTRING counts bytes"
    assert not editable({"data": "é".encode() * 30_000}, (BYTES,))[0].closed
    assert editable({"p": b"\0"}, (Column("p", FIELD_TYPE.GEOMETRY, True),))[0].closed
    assert not editable({"body": None}, (TEXT,))[0].closed


def test_bytes_that_were_cut_are_shown_as_cut():
    """SUBSTRING counts the bytes of a BLOB, and may cut a character."""
    shown = value("data", "é".encode() * 60 + b"a", 120)
    assert (shown.text, shown.cut) == ("é" * 60, True)
    shown = value("data", (b"a" + "é".encode() * 60)[:121], 120)
    assert (shown.text, shown.cut) == ("a" + "é" * 59, True)
    assert value("data", b"\xff" * 121, 120).cut and not value("data", "é".encode() * 60, 120).cut


def test_bytes_and_null():
    def changed(**fields):
        return changes(visit(column1="data", **fields), ROW, COLUMNS, dead=True).values

    assert changed(value1="0x00FF") == {"data": b"\0\xff"}
    assert changed(null1="null", value1="0x00") == {"data": None}
    assert changed(was1=digest("0xff"), value1="0xff") == {}
    with pytest.raises(BadInput, match="hexadecimal"):
        changed(value1="0xf")
    with pytest.raises(BadInput, match="another client"):
        changed(was1=digest("0x00"), value1="0x01")
    assert digest(None) != digest("NULL") != digest("")


@pytest.mark.parametrize("name", ["id", "time_next", "attempts", "nothing", "body` = 1, `id"])
def test_columns_that_a_form_has_not(name):
    with pytest.raises(BadInput):
        changes(visit(column1=name, value1="1"), {**ROW, "attempts": 1}, COLUMNS, dead=True)


@pytest.mark.parametrize("text", ["", "soon", "1999-12-31T23:59", "2038-01-01", "2026-01-01T00:00Z", "2026-13-01"])
def test_what_is_no_time(text):
    with pytest.raises(BadInput):
        due_ns(text)


def test_times_are_whole_microseconds():
    ns = due_ns("2026-12-24 18:00:00.123456")
    assert ns == 1_798_135_200_123_456_000 and due_text(ns) == "2026-12-24T18:00:00"
    assert due_text(None) == ""


def test_the_update_of_a_message():
    what = update(Q, "a'b", Changes({"or`der%": "x", "time_next": 7}, moved=True), 2, 9_000)
    assert with_values(*what) == (
        "UPDATE `shop`.`or``d%ers` SET `or``der%` = 'x', `time_next` = 7 WHERE id = 'a''b' AND time_acked IS NULL"
        " AND epoch = 2 AND COALESCE(time_next, 0) <> 9223372036854775806"
        " AND NOT COALESCE(epoch > 0 AND time_next > 9000 AND MOD(time_next, 1000) IN (1, 3), FALSE)"
    )


def test_kinds_of_values_in_the_form():
    (column,) = editable({"a": Decimal("1.50")}, (Column("a", FIELD_TYPE.NEWDECIMAL, True),))
    assert (column.text, column.null, column.lines) == ("1.50", False, 1)


def moved(**fields):
    return changes(visit(**fields), ROW, COLUMNS, dead=False).moved


def test_a_time_that_a_browser_sends_back_is_no_change():
    for shown, sent in (("19:00:00", "19:00"), ("19:00:07", "19:00:07"), ("19:00:00", "19:00:00.000")):
        assert not moved(was_due=f"2026-11-25T{shown}", due=f"2026-11-25T{sent}")
    assert moved(was_due="2026-11-25T19:00:00", due="2026-11-25T19:01")
    assert moved(was_due="", due="2026-11-25T19:00") and moved(due="2026-11-25T19:00")
    assert not moved(was_due="2026-11-25T19:00:00", due="")


# --- dead letters


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (Selection("all"), ""),
        (Selection("no_error"), " WHERE last_error IS NULL"),
        (Selection("error", "it's %s"), " WHERE SUBSTRING(last_error, 1, 200) = 'it''s %s'"),
        (Selection("id", id="7"), " WHERE id = 7"),
        (Selection("all", at_ns=9), " WHERE COALESCE(time_dead, 0) <= 9"),
        (Selection("no_error", at_ns=9), " WHERE last_error IS NULL AND COALESCE(time_dead, 0) <= 9"),
    ],
)
def test_no_piece_is_without_a_bound(of, expected):
    where = condition(of, (*COLUMNS, Column("time_dead", FIELD_TYPE.LONGLONG, True)))
    redriven, discarded = (with_values(*piece(what, Q, where)) for what in ("redrive", "discard"))
    assert redriven == f"REDRIVE `shop`.`or``d%ers`{expected} LIMIT {PIECE}"
    assert discarded.endswith(f"ORDER BY priority, time_next, id LIMIT {PIECE}") and "time_acked IS NULL" in discarded
    assert expected.removeprefix(" WHERE ") in discarded
    for what, text in (("redrive", redriven), ("discard", discarded)):
        over_shards = with_values(*piece(what, Q, where, over_shards=True))
        assert "LIMIT" not in over_shards and text.startswith(over_shards), "it would be that of each shard"


def test_groups_of_a_queue_that_lacks_columns():
    sql = errors_sql(Q, ["id", "priority", "time_next", "time_acked", "epoch"])
    assert "NULL AS error" in sql and "NULL AS died" in sql and "last_error" not in sql and sql.count("LIMIT") == 2
