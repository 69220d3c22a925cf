"""WholeAnswers: never another verdict than the walker's, and the common answers are recognised, repeated ones too."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mysql_mimic.types import Commands
from wire_peers import packet

from engine.model.queue import ColumnMeta
from mysql_client.packets import MalformedAnswer
from mysql_wire import replies
from mysql_wire.answer_walker import AnswerWalker
from mysql_wire.flags import CACHE_METADATA, DEPRECATE_EOF
from mysql_wire.outcome import Outcome
from mysql_wire.status_flags import CURSOR_EXISTS, MORE_RESULTS
from mysql_wire.whole_answer import WholeAnswers, with_insert_id

QUERY = int(Commands.COM_QUERY)


def answer(*payloads: bytes) -> bytes:
    return b"".join(packet(payload, number & 255) for number, payload in enumerate(payloads, 1))


def result(capabilities: int, *rows: bytes, columns: int = 1, status: int = 2, name: str = "c") -> bytes:
    definition = replies.column_definition(ColumnMeta(name, 0xFD), capabilities)
    middle = () if capabilities & DEPRECATE_EOF else (replies.eof_packet(status=2),)
    end = replies.end_packet(capabilities, status=status)
    return answer(replies.column_count(columns, capabilities), *[definition] * columns, *middle, *rows, end)


def walked(chunk: bytes, capabilities: int) -> Outcome | None:
    """What the walker makes of it, if it is exactly one whole answer."""
    walker = AnswerWalker(capabilities)
    walker.begin(QUERY)
    try:
        used = walker.feed(chunk)
    except MalformedAnswer:
        return None
    return walker.outcome if walker.done and used == len(chunk) else None


flags = pytest.mark.parametrize(
    "capabilities", [0, DEPRECATE_EOF, CACHE_METADATA, CACHE_METADATA | DEPRECATE_EOF], ids=hex
)


@flags
def test_ordinary_answers_are_recognised_the_first_time_and_again(capabilities: int) -> None:
    whole = WholeAnswers(capabilities)
    ok = answer(replies.ok_packet(capabilities, status=3, affected_rows=7))
    rows = result(capabilities, b"\x01a", b"\xfb", status=3)
    for _ in range(3):
        assert whole.recognise(ok) == Outcome(status=3, affected_rows=7)
        assert whole.recognise(rows) == Outcome(status=3)
        assert whole.recognise(result(capabilities, columns=3)) == Outcome(status=2)
        assert whole.recognise(result(capabilities, b"\x01b", name="d")) == Outcome(status=2)  # as long as `rows`


@flags
def test_what_is_no_whole_answer_is_left_to_the_walker(capabilities: int) -> None:
    whole = WholeAnswers(capabilities)
    rows = result(capabilities, b"\x01a")
    assert whole.recognise(rows) is not None
    for cut in range(len(rows)):
        assert whole.recognise(rows[:cut]) is None
    assert whole.recognise(rows + answer(replies.ok_packet(capabilities))) is None
    assert whole.recognise(result(capabilities, b"\x01a", status=2 | MORE_RESULTS)) is None
    assert whole.recognise(answer(replies.err_packet(capabilities, 1064, "42000", "no"))) is None
    assert whole.recognise(answer(b"\xfb/file")) is None
    beginning = rows[: rows.index(b"\x01a") - 4]
    assert whole.recognise(beginning + packet(replies.err_packet(capabilities, 1317, "70100", "killed"), 4)) is None


def test_a_cursor_that_is_left_open_has_no_rows() -> None:
    definition = replies.column_definition(ColumnMeta("c", 0xFD), 0)
    opened = answer(replies.column_count(1, 0), definition, replies.eof_packet(status=2 | CURSOR_EXISTS))
    assert WholeAnswers(0).recognise(opened) is None


_ROWS = st.lists(st.one_of(st.just(b"\xfb"), st.binary(max_size=300).map(lambda v: replies.text_row([v]))), max_size=5)


@given(st.data(), st.sampled_from([0, DEPRECATE_EOF, CACHE_METADATA, CACHE_METADATA | DEPRECATE_EOF]))
@settings(deadline=None)
def test_agrees_with_the_walker_on_whole_cut_joined_and_damaged_answers(data: st.DataObject, capabilities: int) -> None:
    whole = WholeAnswers(capabilities)
    for _ in range(4):
        rows = data.draw(_ROWS)
        chunk = bytearray(result(capabilities, *rows, columns=data.draw(st.sampled_from([1, 2, 251]))))
        if data.draw(st.booleans()):
            at = data.draw(st.integers(0, len(chunk) - 1))
            chunk[at] = data.draw(st.integers(0, 255))
        taken = bytes(chunk[: data.draw(st.integers(0, len(chunk)))]) if data.draw(st.booleans()) else bytes(chunk)
        recognised = whole.recognise(taken)
        assert recognised is None or recognised == walked(taken, capabilities)


@given(st.integers(0, 300), st.sampled_from((0, 1, 250, 251, 252, 65_535, 65_536, 2**24, 2**63)))
def test_the_first_id_is_read_from_an_ok(affected: int, first_id: int) -> None:
    chunk = answer(replies.ok_packet(0, status=2, affected_rows=affected, last_insert_id=first_id))
    outcome = WholeAnswers(0).recognise(chunk)
    assert outcome is not None
    assert with_insert_id(outcome, chunk).last_insert_id == (first_id if affected else 0)
    assert with_insert_id(outcome, chunk) == outcome, "nothing else is changed"


def test_rows_have_no_first_id() -> None:
    chunk = result(0, b"\x01a")
    outcome = WholeAnswers(0).recognise(chunk)
    assert outcome is not None and with_insert_id(outcome, chunk).last_insert_id == 0
