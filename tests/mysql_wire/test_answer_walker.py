"""AnswerWalker: every shape of answer, whole, byte by byte and in any chunks, with bytes of the next answer behind."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mysql_mimic.types import Commands
from wire_peers import packet

from engine.model.queue import ColumnMeta
from mysql_client.packets import MalformedAnswer
from mysql_wire import replies
from mysql_wire.answer_walker import SHAPES, AnswerWalker, Shape
from mysql_wire.flags import CACHE_METADATA, OPTIONAL_METADATA, PROGRESS
from mysql_wire.outcome import Outcome
from mysql_wire.packets import PAYLOAD_MAX, frame
from mysql_wire.status_flags import CURSOR_EXISTS, MORE_RESULTS

QUERY, EXECUTE = Commands.COM_QUERY, Commands.COM_STMT_EXECUTE
COLUMN = ColumnMeta("c", 0xFD)
IN_TRANSACTION = 0x0003


def sequence(payloads: Iterable[bytes], first: int = 1) -> bytes:
    return b"".join(packet(p, n & 255) for n, p in enumerate(payloads, first))


def capabilities(deprecate_eof: bool) -> int:
    return replies.DEPRECATE_EOF if deprecate_eof else 0


def ok(status: int = 2, affected_rows: int = 0, info: str = "") -> bytes:
    return replies.ok_packet(0, status=status, affected_rows=affected_rows, info=info)


def err(errno: int = 1064, message: str = "no") -> bytes:
    return replies.err_packet(0, errno, "42000", message)


def result(
    deprecate_eof: bool,
    rows: Iterable[bytes] = (b"\x01a",),
    *,
    columns: int = 2,
    status: int = 2,
    end: bytes | None = None,
) -> list[bytes]:
    """The payloads of one result set."""
    flags = capabilities(deprecate_eof)
    payloads = [replies.column_count(columns, flags), *[replies.column_definition(COLUMN, flags)] * columns]
    if not deprecate_eof:
        payloads.append(replies.eof_packet(status=2))
    return [*payloads, *rows, replies.end_packet(flags, status=status) if end is None else end]


def walk(walker: AnswerWalker, command: int, chunks: Iterable[bytes]) -> int:
    """Feed chunks until the end; returns how many bytes were taken."""
    walker.begin(command)
    taken = 0
    for chunk in chunks:
        used = walker.feed(chunk)
        taken += used
        if walker.done or walker.wants_client_data:
            break
        assert used == len(chunk)
    return taken


def check(answer: bytes, command: int, expected: Outcome, *, deprecate_eof: bool, further: int = 0) -> None:
    """Whole, byte by byte, and with the next answer behind. `further`: capabilities."""
    walker = AnswerWalker(capabilities(deprecate_eof) | further)
    for chunks in ([answer], [bytes((b,)) for b in answer], [answer + b"\x07\x00\x00\x01\x00rest"]):
        assert walk(walker, command, chunks) == len(answer)
        assert walker.done and walker.outcome == expected
    last = 0
    at = 0
    while at < len(answer):
        last, at = answer[at + 3], at + 4 + int.from_bytes(answer[at : at + 3], "little")
    assert walker.last_sequence == last


both = pytest.mark.parametrize("dep", [False, True], ids=["eof", "deprecate-eof"])


@both
def test_ok_tells_status_and_affected_rows(dep: bool) -> None:
    check(sequence([ok(IN_TRANSACTION, 70_000)]), QUERY, Outcome(status=3, affected_rows=70_000), deprecate_eof=dep)
    check(sequence([ok(2, 5, "Rows matched: 5")]), QUERY, Outcome(status=2, affected_rows=5), deprecate_eof=dep)


@both
def test_ok_tells_the_first_id_that_was_given(dep: bool) -> None:
    walker = AnswerWalker(capabilities(dep))
    for first in (7, 70_000, 1 << 40):
        answer = sequence([replies.ok_packet(0, status=2, affected_rows=2, last_insert_id=first)])
        for cut in range(len(answer)):
            walker.begin(QUERY)
            for piece in filter(None, (answer[:cut], answer[cut:])):
                walker.feed(piece)
            assert walker.done and (walker.outcome.affected_rows, walker.outcome.last_insert_id) == (2, first)


@both
def test_ok_with_session_state_behind_it(dep: bool) -> None:
    tracked = struct.pack("<BBBHH", 0, 0, 0, 0x4002, 0) + b"\x00" + b"\x0f\x00\x0dautocommit..x"
    check(sequence([tracked]), QUERY, Outcome(status=0x4002), deprecate_eof=dep)


@both
def test_error_tells_number_state_and_text(dep: bool) -> None:
    check(sequence([err(1146, "Table 'ä' …")]), QUERY, Outcome(1146, "Table 'ä' …", "42000"), deprecate_eof=dep)
    check(sequence([b"\xff\x10\x04Too many"]), QUERY, Outcome(1040, "Too many", "HY000"), deprecate_eof=dep)


@both
def test_result_set(dep: bool) -> None:
    check(
        sequence(result(dep, [b"\x01a\xfb", b"\xfb\x01b"] * 200, status=0x22)),
        QUERY,
        Outcome(status=0x22),
        deprecate_eof=dep,
    )
    check(sequence(result(dep, [])), QUERY, Outcome(status=2), deprecate_eof=dep)
    check(sequence(result(dep, columns=300)), QUERY, Outcome(status=2), deprecate_eof=dep)


@both
@pytest.mark.parametrize("flag", [CACHE_METADATA, OPTIONAL_METADATA], ids=["mariadb", "mysql"])
def test_result_without_definitions(dep: bool, flag: int) -> None:
    described = result(dep, [b"\x01a\xfb"] * 3, status=0x22)
    described[0] += b"\x01"
    check(sequence(described), EXECUTE, Outcome(status=0x22), deprecate_eof=dep, further=flag)
    for rows in ([b"\x01a\xfb"] * 3, []):
        bare = [b"\x02\x00", *described[3:-4], *rows, described[-1]]
        check(sequence(bare), EXECUTE, Outcome(status=0x22), deprecate_eof=dep, further=flag)


@both
def test_cursor_without_definitions(dep: bool) -> None:
    """Its header ends the answer; with DEPRECATE_EOF that is the OK packet that looks like the end of no rows."""
    opened = replies.end_packet(capabilities(dep), status=2 | CURSOR_EXISTS)
    expected = Outcome(status=2 | CURSOR_EXISTS)
    check(sequence([b"\x02\x00", opened]), EXECUTE, expected, deprecate_eof=dep, further=CACHE_METADATA)


@both
def test_prepared_statement_without_definitions(dep: bool) -> None:
    bare = [replies.prepare_ok(9, 0, columns=2, parameters=3) + b"\x00"] + ([] if dep else [replies.eof_packet()] * 2)
    described = [
        replies.prepare_ok(9, OPTIONAL_METADATA, columns=1, parameters=0),
        replies.column_definition(COLUMN, 0),
    ]
    described += [] if dep else [replies.eof_packet()]
    for payloads in (bare, described):
        prepared = Outcome(statement_id=9)
        command = Commands.COM_STMT_PREPARE
        check(sequence(payloads), command, prepared, deprecate_eof=dep, further=OPTIONAL_METADATA)


@both
def test_progress_reports_are_no_errors(dep: bool) -> None:
    report = b"\xff\xff\xff\x01\x01\x02\x10\x27\x00\x05stage"
    rows = result(dep, [b"\x01a\xfb", report, report, b"\x01b\xfb"])
    for payloads, expected in (
        ([report, report, ok(2, 5)], Outcome(status=2, affected_rows=5)),
        ([report, err(1317, "enough")], Outcome(1317, "enough", "42000")),
        ([report, *rows], Outcome(status=2)),
    ):
        check(sequence(payloads), QUERY, expected, deprecate_eof=dep, further=PROGRESS)
    # To a client that never heard of them they are what they look like.
    check(sequence([report]), QUERY, Outcome(0xFFFF, report[3:].decode(), "HY000"), deprecate_eof=dep)


@both
def test_error_in_the_middle_of_rows(dep: bool) -> None:
    answer = sequence(result(dep, [b"\x01a"] * 3, end=err(1317, "interrupted")))
    check(answer, QUERY, Outcome(1317, "interrupted", "42000"), deprecate_eof=dep)


@both
def test_binary_rows(dep: bool) -> None:
    check(sequence(result(dep, [b"\x00\x00\xfe\xff", b"\x00\x00\xff"])), EXECUTE, Outcome(status=2), deprecate_eof=dep)


@both
def test_several_results(dep: bool) -> None:
    more = 2 | MORE_RESULTS
    payloads = [*result(dep, status=more), *result(dep, [], status=more), ok(more), ok(2, 7)]
    check(sequence(payloads), QUERY, Outcome(status=2, affected_rows=7), deprecate_eof=dep)
    check(sequence([ok(more), err()]), QUERY, Outcome(1064, "no", "42000"), deprecate_eof=dep)


def test_row_that_begins_like_an_eof_packet() -> None:
    row = b"\xfe" + (3).to_bytes(8, "little") + b"abc"
    check(sequence(result(False, [row])), QUERY, Outcome(status=2), deprecate_eof=False)


@both
def test_rows_of_16_mib_and_more(dep: bool) -> None:
    """Their first byte is 0xFE, and the packets that continue them begin with anything at all."""
    head = sequence(result(dep, []))
    head, end = head[: head.rindex(b"\xfe") - 4], replies.end_packet(capabilities(dep), status=2)
    big = b"\xfe" + PAYLOAD_MAX.to_bytes(8, "little") + b"x" * (PAYLOAD_MAX - 9)
    for tail in (b"\xfe\x00\x00\x02\x00", b"\xff\x15\x04#28000no", b""):
        answer = head + frame(big + tail, 9) + packet(end, 11)
        walker = AnswerWalker(capabilities(dep))
        pieces = [answer[at : at + 65_536] for at in range(0, len(answer), 65_536)]
        assert walk(walker, QUERY, pieces) == len(answer)
        assert walker.done and walker.outcome == Outcome(status=2)


@both
def test_cursor_has_no_rows_until_they_are_fetched(dep: bool) -> None:
    flags = capabilities(dep)
    opened = [replies.column_count(1, flags), replies.column_definition(COLUMN, flags)]
    opened.append(replies.end_packet(flags, status=2 | CURSOR_EXISTS))
    check(sequence(opened), EXECUTE, Outcome(status=2 | CURSOR_EXISTS), deprecate_eof=dep)
    fetched = [b"\x00\x00\x01a", b"\x00\x00\x01b", replies.end_packet(flags, status=2 | 0x80)]
    check(sequence(fetched), Commands.COM_STMT_FETCH, Outcome(status=0x82), deprecate_eof=dep)
    check(sequence([err()]), Commands.COM_STMT_FETCH, Outcome(1064, "no", "42000"), deprecate_eof=dep)


@both
@pytest.mark.parametrize(("columns", "parameters"), [(0, 0), (2, 0), (0, 3), (2, 3), (1, 1)])
def test_prepared_statement(dep: bool, columns: int, parameters: int) -> None:
    flags = capabilities(dep)
    payloads = [replies.prepare_ok(0x01020304, flags, columns=columns, parameters=parameters)]
    for count in (parameters, columns):
        payloads += [replies.column_definition(COLUMN, flags)] * count
        if count and not dep:
            payloads.append(replies.eof_packet())
    check(sequence(payloads), Commands.COM_STMT_PREPARE, Outcome(statement_id=0x01020304), deprecate_eof=dep)


@both
def test_statement_that_cannot_be_prepared(dep: bool) -> None:
    check(sequence([err()]), Commands.COM_STMT_PREPARE, Outcome(1064, "no", "42000"), deprecate_eof=dep)


@both
def test_field_list(dep: bool) -> None:
    flags = capabilities(dep)
    payloads = [replies.column_definition(COLUMN, flags) + b"\xfb"] * 3 + [replies.end_packet(flags, status=2)]
    check(sequence(payloads), Commands.COM_FIELD_LIST, Outcome(status=2), deprecate_eof=dep)
    check(sequence([err()]), Commands.COM_FIELD_LIST, Outcome(1064, "no", "42000"), deprecate_eof=dep)


@both
def test_statistics_is_one_packet_of_text(dep: bool) -> None:
    check(sequence([b"Uptime: 1  Threads: 2"]), Commands.COM_STATISTICS, Outcome(), deprecate_eof=dep)
    check(sequence([err()]), Commands.COM_STATISTICS, Outcome(1064, "no", "42000"), deprecate_eof=dep)


@both
@pytest.mark.parametrize("answer", [replies.eof_packet(status=2), b"\xfe\x00\x00\x02\x00\x00\x00", ok()])
def test_set_option_and_debug_end_with_either_form(dep: bool, answer: bytes) -> None:
    check(sequence([answer]), Commands.COM_SET_OPTION, Outcome(status=2), deprecate_eof=dep)
    check(sequence([answer]), Commands.COM_DEBUG, Outcome(status=2), deprecate_eof=dep)


@pytest.mark.parametrize("command", [c for c, shape in SHAPES.items() if shape is Shape.NOTHING])
def test_commands_without_an_answer(command: int) -> None:
    walker = AnswerWalker(capabilities(True))
    walker.begin(command)
    assert walker.done and walker.outcome == Outcome()


@both
def test_events_of_a_binlog(dep: bool) -> None:
    """They end with an EOF packet of the older form whatever was agreed, with an error, or not at all."""
    events = [b"\x00" + b"e" * 300, b"\x00\xef\x01event"] * 4
    for command in (Commands.COM_BINLOG_DUMP, Commands.COM_BINLOG_DUMP_GTID):
        check(sequence([*events, replies.eof_packet(status=2)]), command, Outcome(status=2), deprecate_eof=dep)
        check(sequence([*events, err(1236)]), command, Outcome(1236, "no", "42000"), deprecate_eof=dep)
        check(sequence([err(1236)]), command, Outcome(1236, "no", "42000"), deprecate_eof=dep)
    check(sequence([ok()]), Commands.COM_REGISTER_SLAVE, Outcome(status=2), deprecate_eof=dep)


def test_commands_that_nobody_knows_cannot_be_walked() -> None:
    walker = AnswerWalker(capabilities(True))
    for command in (Commands.COM_TABLE_DUMP, Commands.COM_SHUTDOWN, 0x20, 0xFB):
        with pytest.raises(KeyError):
            walker.begin(command)


@both
def test_load_data_local_stops_for_the_clients_data(dep: bool) -> None:
    walker = AnswerWalker(capabilities(dep))
    request = packet(b"\xfb/tmp/data.csv", 1)
    assert walk(walker, QUERY, [bytes((b,)) for b in request]) == len(request)
    assert walker.wants_client_data and not walker.done and walker.last_sequence == 1
    walker.client_data_sent()
    assert walker.feed(packet(ok(2, 3), 4)) == 11
    assert walker.done and walker.outcome.affected_rows == 3 and walker.last_sequence == 4


@both
def test_a_procedures_own_cursor_is_not_the_clients(dep: bool) -> None:
    """MariaDB leaves the flag set after it; the rows and the procedure's OK are still to come."""
    flagged = 2 | CURSOR_EXISTS | MORE_RESULTS
    payloads = result(dep, [b"\x00\x00\x01\x00\x00\x00"], columns=1, status=flagged)
    if not dep:
        payloads[2] = replies.eof_packet(status=flagged)
    check(sequence([*payloads, ok()]), EXECUTE, Outcome(status=2), deprecate_eof=dep)


# --- properties

_ROW = st.one_of(
    st.just(b"\xfb"),
    st.binary(max_size=40).map(lambda v: replies.text_row([v])),
    st.binary(min_size=251, max_size=600).map(lambda v: replies.text_row([v, None])),
)


@st.composite
def answers(draw: st.DrawFn, deprecate_eof: bool) -> bytes:
    payloads: list[bytes] = []
    count = draw(st.integers(1, 4))
    for number in range(count):
        status = 2 | (MORE_RESULTS if number < count - 1 else 0)
        if draw(st.booleans()):
            payloads.append(ok(status, draw(st.sampled_from([0, 250, 251, 70_000, 1 << 40]))))
        else:
            rows = draw(st.lists(_ROW, max_size=12))
            payloads += result(deprecate_eof, rows, columns=draw(st.sampled_from([1, 2, 251])), status=status)
    if draw(st.booleans()):
        payloads[-1] = err(1205, "x" * draw(st.integers(0, 400)))
    return sequence(payloads)


@given(st.data(), st.booleans(), st.lists(st.integers(0, 1 << 16), max_size=20), st.binary(max_size=10))
@settings(deadline=None)
def test_chunking_changes_nothing(data: st.DataObject, dep: bool, points: list[int], behind: bytes) -> None:
    answer = data.draw(answers(dep))
    whole = AnswerWalker(capabilities(dep))
    assert walk(whole, QUERY, [answer + behind]) == len(answer)
    assert whole.done
    edges = sorted({0, len(answer) + len(behind), *(p % (len(answer) + 1) for p in points)})
    chunked = AnswerWalker(capabilities(dep))
    stream = answer + behind
    assert walk(chunked, QUERY, [stream[a:b] for a, b in itertools.pairwise(edges)]) == len(answer)
    assert (chunked.done, chunked.outcome, chunked.last_sequence) == (True, whole.outcome, whole.last_sequence)


@given(st.sampled_from(sorted(SHAPES)), st.booleans(), st.lists(st.binary(min_size=1, max_size=60), max_size=8))
def test_junk_raises_only_answer_errors(command: int, dep: bool, chunks: list[bytes]) -> None:
    walker = AnswerWalker(capabilities(dep))
    walker.begin(command)
    for chunk in chunks:
        if walker.done:
            return
        walker.client_data_sent()
        try:
            used = walker.feed(chunk)
        except MalformedAnswer:
            return
        assert 0 <= used <= len(chunk)
        assert used == len(chunk) or walker.done or walker.wants_client_data


@given(st.sampled_from(sorted(SHAPES)), st.booleans(), st.lists(st.binary(max_size=30), min_size=1, max_size=6))
def test_junk_in_whole_packets_raises_only_answer_errors(command: int, dep: bool, payloads: list[bytes]) -> None:
    walker = AnswerWalker(capabilities(dep))
    walker.begin(command)
    if not walker.done:
        try:
            walker.feed(sequence(payloads))
        except MalformedAnswer:
            pass
