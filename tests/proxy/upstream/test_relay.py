"""RelayUpstream on recording transports: what reaches client and server, byte for byte, and how lines are lost."""

from __future__ import annotations

import asyncio

import pytest
from mysql_mimic.types import Commands
from relay_peers import BEGUN, QUERY, Relay, answer, err, mark, ok, result
from wire_peers import packet, packets_of, settle

from engine.model.queue import ColumnMeta
from mysql_wire import replies
from mysql_wire.errors import ProxyError
from mysql_wire.flags import DEPRECATE_EOF
from mysql_wire.outcome import Collected, Outcome
from mysql_wire.packets import PAYLOAD_MAX, frame
from proxy.errors import BackendLost, SessionLost, StreamClosed
from proxy.upstream import answer_output

# --- commands


@pytest.mark.parametrize("capabilities", [0, DEPRECATE_EOF])
@pytest.mark.parametrize("step", [1, 7, 10_000])
async def test_answer_passes_untouched_in_any_chunks(capabilities: int, step: int) -> None:
    relay = Relay(capabilities)
    task = await relay.begin()
    assert relay.server.take() == packet(QUERY)
    data = answer(result(capabilities))
    for at in range(0, len(data), step):
        assert not task.done()
        relay.link.data_received(data[at : at + step])
        assert bytes(relay.client.written) == data[: at + step]  # passed on as it comes
    outcome = await task
    assert outcome.ok and relay.upstream.status == BEGUN
    assert relay.stream.seq == len(packets_of(data)) + 1
    assert relay.upstream.alive


async def test_error_is_the_outcome_and_keeps_the_status() -> None:
    relay = Relay()
    task = await relay.begin()
    relay.link.data_received(answer([err("Table 'x' doesn't exist")]))
    assert await task == Outcome(1146, "Table 'x' doesn't exist", "42S02")
    assert relay.upstream.status == 2


async def test_prepare_tells_the_id_and_keeps_the_status() -> None:
    relay = Relay()
    task = await relay.begin(b"\x16SELECT 1")
    relay.link.data_received(answer([replies.prepare_ok(77, 0, columns=0, parameters=0)]))
    assert (await task).statement_id == 77
    assert relay.upstream.status == 2


@pytest.mark.parametrize("command", [Commands.COM_STMT_CLOSE, Commands.COM_STMT_SEND_LONG_DATA])
async def test_command_without_answer_returns_at_once(command: int) -> None:
    relay = Relay()
    payload = bytes((command,)) + b"\x01\x00\x00\x00"
    task = await relay.begin(payload)
    assert await task == Outcome(status=2)
    assert relay.server.take() == packet(payload) and relay.client.take() == b""


@pytest.mark.parametrize("payload", [b"", b"\x13", b"\x20", b"\xfb", b"\x11root\x00"])
async def test_commands_that_cannot_be_relayed(payload: bytes) -> None:
    relay = Relay()
    with pytest.raises(ProxyError) as caught:
        await relay.upstream.command(payload)
    assert caught.value.errno == 1047
    assert relay.server.take() == b""


async def test_command_of_16_mib_and_its_answer_are_numbered_on() -> None:
    relay = Relay()
    payload = b"\x03" + b"x" * PAYLOAD_MAX
    task = await relay.begin(payload, seq=2)
    assert relay.server.take() == frame(payload)
    data = answer([ok()], first=2)  # as servers do, on from the command's own packets
    relay.link.data_received(data)
    assert (await task).ok
    assert relay.client.take() == data and relay.stream.seq == 3


# --- the middle of a multi-statement


@pytest.mark.parametrize("capabilities", [0, DEPRECATE_EOF])
@pytest.mark.parametrize("step", [1, 13, 10_000])
async def test_results_of_a_multi_statement_are_numbered_on_and_marked(capabilities: int, step: int) -> None:
    relay = Relay(capabilities)
    seq = 1
    sent: list[tuple[int, bytes]] = []
    statements = [result(capabilities, [b"\x01a"] * 300), [ok(affected_rows=7)], result(capabilities, [])]
    for number, payloads in enumerate(statements):
        task = await relay.begin(seq=seq, more=number < 2)
        data = answer(payloads)
        for at in range(0, len(data), step):
            relay.link.data_received(data[at : at + step])
        outcome = await task
        assert outcome.ok and outcome.status == BEGUN
        seq = relay.stream.seq
        sent += packets_of(relay.client.take())
    assert [number for number, _ in sent] == [n & 255 for n in range(1, len(sent) + 1)]
    assert seq == (len(sent) + 1) & 255
    expected = [payload for payloads in statements for payload in payloads]
    ends = [len(statements[0]) - 1, len(statements[0])]
    definitions_end = [] if capabilities & DEPRECATE_EOF else [2]
    for index in (*definitions_end, *ends):
        expected[index] = mark(expected[index])
    assert [payload for _, payload in sent] == expected


async def test_error_ends_a_multi_statement_unmarked() -> None:
    relay = Relay()
    task = await relay.begin(seq=9, more=True)
    relay.link.data_received(answer([err()]))
    assert (await task).errno == 1146
    assert packets_of(relay.client.take()) == [(9, err())]
    assert relay.stream.seq == 10


# --- held and collected


async def test_held_answer_waits_for_deliver() -> None:
    relay = Relay()
    task = await relay.begin(buffered=True)
    relay.link.data_received(answer([ok()]))
    assert (await task).ok
    assert relay.client.take() == b""
    await relay.upstream.deliver()
    assert relay.client.take() == answer([ok()])
    await relay.upstream.deliver()
    assert relay.client.take() == b""


async def test_held_answer_in_a_multi_statement() -> None:
    relay = Relay()
    task = await relay.begin(seq=5, more=True, buffered=True)
    relay.link.data_received(answer([ok()]))
    assert (await task).status == BEGUN
    await relay.upstream.deliver()
    assert packets_of(relay.client.take()) == [(5, mark(ok()))]


async def test_answer_too_large_to_hold_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_output, "BUFFERED_MAX_BYTES", 100)
    relay = Relay()
    task = await relay.begin(buffered=True)
    data = answer(result(DEPRECATE_EOF, [b"\x20" + b"x" * 32] * 20))
    for byte in data:
        relay.link.data_received(bytes((byte,)))
    assert (await task).ok
    await relay.upstream.deliver()
    assert relay.client.take() == data


async def collecting(relay: Relay, sql: str = "SHOW TABLES") -> asyncio.Task[Collected | Outcome]:
    task = asyncio.create_task(relay.upstream.collect(sql))
    await settle()
    return task


@pytest.mark.parametrize("capabilities", [0, DEPRECATE_EOF])
async def test_collect_decodes_a_result(capabilities: int) -> None:
    relay = Relay(capabilities)
    task = await collecting(relay, "SHOW TABLES LIKE 'ä'")
    assert relay.server.take() == packet("\x03SHOW TABLES LIKE 'ä'".encode())
    rows = [replies.text_row([b"x" * n]) for n in (0, 1, 250, 251, 70_000)]
    relay.link.data_received(answer(result(capabilities, [*rows, b"\xfb"])))
    collected = await task
    assert isinstance(collected, Collected)
    assert collected.columns == (ColumnMeta("näme", 0xFD, table="t"),)
    assert [row[0] and len(row[0]) for row in collected.rows] == [b"", 1, 250, 251, 70_000, None]
    assert relay.client.take() == b"" and relay.upstream.status == BEGUN


async def test_collect_of_a_statement_without_rows_and_of_a_failing_one() -> None:
    relay = Relay()
    task = await collecting(relay, "UPDATE t SET x = 1")
    relay.link.data_received(answer([ok(affected_rows=3)]))
    assert await task == Outcome(status=BEGUN, affected_rows=3)
    task = await collecting(relay)
    relay.link.data_received(answer([err()]))
    assert await task == Outcome(1146, "no", "42S02")


async def test_collect_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_output, "BUFFERED_MAX_BYTES", 1000)
    relay = Relay()
    task = await collecting(relay)
    data = answer(result(DEPRECATE_EOF, [b"\x20" + b"x" * 32] * 200))
    for at in range(0, len(data), 500):
        relay.link.data_received(data[at : at + 500])
    outcome = await task
    assert isinstance(outcome, Outcome) and outcome.errno == 1105
    assert relay.upstream.alive


async def test_collect_of_a_file_request_sends_no_file() -> None:
    relay = Relay()
    task = await collecting(relay, "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE t")
    relay.server.take()
    relay.link.data_received(answer([b"\xfb/etc/passwd"]))
    assert relay.server.take() == packet(b"", 2)
    relay.link.data_received(answer([ok()], first=3))
    assert await task == Outcome(status=BEGUN)


# --- back-pressure


async def test_client_that_does_not_read_stops_the_reading_of_the_server() -> None:
    relay = Relay()
    task = await relay.begin()
    relay.stream.pause_writing()
    assert not relay.server.reading
    relay.stream.resume_writing()
    assert relay.server.reading
    relay.link.data_received(answer([ok()]))
    await task


async def test_server_that_does_not_read_holds_up_the_command() -> None:
    relay = Relay()
    relay.link.pause_writing()
    payload = b"\x18" + bytes(100)
    task = await relay.begin(payload)
    assert not task.done()
    relay.link.resume_writing()
    assert (await task).ok


# --- losing the line


async def test_line_lost_before_the_answer_closes_the_clients_connection() -> None:
    """As the server would have done: libmariadb takes an error of a client's own number for a malformed packet."""
    relay = Relay()
    task = await relay.begin(seq=4)
    relay.link.connection_lost(ConnectionResetError("reset by peer"))
    outcome = await task
    assert (outcome.errno, outcome.sqlstate, outcome.message) == (
        2013, "08S01", "Lost connection to MySQL server during query (reset by peer)",
    )  # fmt: skip
    assert relay.client.take() == b"" and relay.client.closing and not relay.client.aborted
    assert not relay.upstream.alive and relay.losses == [Outcome(2013, outcome.message, "08S01", 2)]
    with pytest.raises(BackendLost):
        await relay.upstream.command(QUERY)


async def test_line_lost_before_the_answer_is_an_error_where_the_session_goes_on() -> None:
    relay = Relay(loss_hint="; and so on")
    task = await relay.begin(seq=4)
    relay.link.connection_lost(ConnectionResetError("reset by peer"))
    outcome = await task
    assert (outcome.errno, outcome.message) == (1105, "backend connection lost: reset by peer; and so on")
    assert packets_of(relay.client.take()) == [(4, replies.err_packet(0, 1105, "08S01", outcome.message))]
    with pytest.raises(BackendLost):
        await relay.upstream.command(QUERY)
    assert not relay.client.closing


async def test_a_command_after_the_line_is_lost_closes_the_clients_connection() -> None:
    """The second of several statements, or one after a stream that has outlived the line."""
    relay = Relay()
    relay.link.connection_lost(None)
    assert not relay.client.closing
    with pytest.raises(BackendLost):
        await relay.upstream.collect("SELECT 1")
    assert relay.client.take() == b"" and relay.client.closing


async def test_line_lost_in_mid_answer_cuts_the_client_off() -> None:
    relay = Relay()
    task = await relay.begin()
    relay.link.data_received(answer(result(DEPRECATE_EOF))[:30])
    relay.link.connection_lost(None)
    with pytest.raises(StreamClosed):
        await task
    assert relay.client.aborted


async def test_line_lost_under_a_held_answer_delivers_nothing() -> None:
    relay = Relay()
    task = await relay.begin(buffered=True)
    relay.link.data_received(answer(result(DEPRECATE_EOF))[:30])
    relay.link.connection_lost(None)
    assert (await task).errno == 2013
    with pytest.raises(StreamClosed):
        await relay.upstream.deliver()
    assert relay.client.take() == b"" and relay.client.closing


async def test_line_lost_under_a_held_answer_is_delivered_as_an_error_where_the_session_goes_on() -> None:
    relay = Relay(loss_hint="; and so on")
    task = await relay.begin(buffered=True)
    relay.link.data_received(answer(result(DEPRECATE_EOF))[:30])
    relay.link.connection_lost(None)
    assert (await task).errno == 1105
    await relay.upstream.deliver()
    [(seq, payload)] = packets_of(relay.client.take())
    assert (seq, payload[:1]) == (1, b"\xff")


async def test_line_lost_while_collecting() -> None:
    relay = Relay()
    task = await collecting(relay)
    relay.link.connection_lost(None)
    outcome = await task
    assert isinstance(outcome, Outcome) and (outcome.errno, outcome.sqlstate) == (2013, "08S01")
    assert relay.client.take() == b"" and relay.client.closing


async def test_line_lost_while_collecting_for_a_client_that_stays() -> None:
    """The proxy's own statement during a stream: the stream goes on, and the next statement is refused as this one."""
    relay = Relay()
    relay.client_stays = True
    task = await collecting(relay)
    relay.link.connection_lost(None)
    outcome = await task
    assert isinstance(outcome, Outcome) and outcome.errno == 2013
    with pytest.raises(SessionLost):
        await relay.upstream.collect("SELECT 1")
    assert relay.client.take() == b"" and not relay.client.closing


async def test_server_that_says_why_it_closes_an_idle_line() -> None:
    relay = Relay()
    on_closing_error = packet(replies.err_packet(0, 4031, "HY000", "disconnected because of inactivity"))
    relay.link.data_received(on_closing_error)
    await settle()
    assert relay.closing_errors == [on_closing_error]  # what becomes of it is the connection's to say
    assert (
        relay.losses[0].message == "Lost connection to MySQL server during query (disconnected because of inactivity)"
    )
    assert not relay.upstream.alive and relay.client.take() == b""


@pytest.mark.parametrize("junk", [packet(b""), packet(b"\x00"), packet(b"\xfb\x00")[:4] + b"\xfe" * 40])
async def test_senseless_answer_ends_the_line(junk: bytes) -> None:
    relay = Relay()
    task = await relay.begin()
    relay.link.data_received(junk)
    relay.link.connection_lost(None)
    try:
        assert (await task).errno == 2013
    except StreamClosed:
        assert relay.client.aborted
    assert not relay.upstream.alive


async def test_cancelled_command_closes_the_line() -> None:
    """What it still carries would be taken for the answer to the next command."""
    relay = Relay()
    task = await relay.begin()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not relay.upstream.alive and relay.server.aborted


async def test_client_gone_in_mid_answer_ends_the_line() -> None:
    relay = Relay()
    task = await relay.begin()
    relay.stream.connection_lost(None)
    relay.link.data_received(answer(result(DEPRECATE_EOF))[:30])
    await settle()
    assert relay.server.aborted
    with pytest.raises(StreamClosed):
        await task


async def test_stuck_client_that_goes_does_not_leave_the_server_waiting() -> None:
    relay = Relay()
    task = await relay.begin()
    relay.link.data_received(answer(result(DEPRECATE_EOF))[:30])
    relay.stream.pause_writing()
    assert not relay.server.reading
    relay.stream.connection_lost(None)
    assert relay.server.reading
    relay.link.data_received(answer(result(DEPRECATE_EOF))[30:40])
    await settle()
    assert relay.server.aborted
    with pytest.raises(StreamClosed):
        await task


async def test_client_gone_before_a_short_answer_is_still_noted() -> None:
    """The statement took effect; the engine wants to know of it."""
    relay = Relay()
    task = await relay.begin()
    relay.stream.connection_lost(None)
    relay.link.data_received(answer([ok(affected_rows=1)]))
    assert (await task).affected_rows == 1


async def test_close_says_goodbye_and_may_be_called_twice() -> None:
    relay = Relay()
    closing = asyncio.create_task(relay.upstream.close())
    await settle()
    assert relay.server.take() == packet(b"\x01")
    relay.link.connection_lost(None)  # the server hangs up: a rollback is over
    await closing
    await relay.upstream.close()
    assert relay.losses == []


@pytest.mark.parametrize("quit_received", [True, False])
async def test_a_client_that_hung_up_without_a_word_says_none_to_the_server(quit_received: bool) -> None:
    relay = Relay()
    relay.stream.quit_received = quit_received
    relay.stream.eof_received()
    closing = asyncio.create_task(relay.upstream.close())
    await settle()
    assert relay.server.take() == (packet(b"\x01") if quit_received else b"")
    assert relay.server.eof_written is not quit_received and not relay.server.closing
    relay.link.connection_lost(None)
    await closing


async def test_cancelled_close_closes_all_the_same() -> None:
    relay = Relay()
    closing = asyncio.create_task(relay.upstream.close())
    await settle()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert relay.server.closing


async def test_close_under_a_command_cuts_the_line() -> None:
    relay = Relay()
    task = await relay.begin()
    await relay.upstream.close()
    assert relay.server.aborted
    assert (await task).errno == 2013


# --- replicas


async def test_replica_answers_while_it_is_sent_events() -> None:
    relay = Relay()
    dump = b"\x12" + bytes(10) + b"binlog.000001"
    task = await relay.begin(dump)
    assert relay.server.take() == packet(dump)
    relay.link.data_received(answer([b"\x00\xef\x01event"]))
    relay.stream.data_received(packet(b"\xef12345678binlog.000001"))
    await settle()
    assert relay.server.take() == packet(b"\xef12345678binlog.000001")
    relay.link.data_received(answer([replies.eof_packet(status=2)], 2))
    # What comes behind the end is the next command, however soon it comes.
    relay.stream.data_received(packet(QUERY))
    assert (await task).ok
    assert await relay.stream.read_command() == QUERY
    assert relay.server.take() == b""


@pytest.mark.parametrize("quit_received", [packet(b"\x01"), packet(b"\xef", 3), packet(QUERY)])
async def test_replica_that_says_anything_else_is_gone(quit_received: bytes) -> None:
    relay = Relay()
    task = await relay.begin(b"\x12" + bytes(10))
    relay.link.data_received(answer([b"\x00event"]))
    relay.stream.data_received(quit_received)
    with pytest.raises(StreamClosed):
        await task
    assert relay.server.aborted and relay.client.aborted


async def test_dump_that_cannot_begin_ends_with_the_line() -> None:
    relay = Relay()
    task = await relay.begin(b"\x12" + bytes(10))
    relay.link.connection_lost(None)
    assert (await task).errno == 2013
    assert relay.client.take() == b"" and relay.client.closing


async def test_nothing_is_written_to_a_client_that_has_ended_its_tls() -> None:
    """asyncio drops what is, and complains in the log of every piece of a large answer."""
    relay = Relay()
    task = await relay.begin()
    relay.link.data_received(answer(result(DEPRECATE_EOF))[:30])
    relay.client.take()
    relay.stream.encrypted = True
    assert relay.stream.eof_received() is False
    relay.link.data_received(answer(result(DEPRECATE_EOF))[30:])
    assert (await task).ok and relay.client.take() == b""


async def test_an_error_of_a_clients_own_number_has_a_servers() -> None:
    """As on the fast path; also after a result of another statement."""
    relay = Relay()
    gone = replies.err_packet(0, 0, "HY000", "gone").replace(b"\x00\x00#", b"\xd6\x07#", 1)
    for before in ([], [ok(8)]):
        task = await relay.begin()
        relay.link.data_received(answer([*before, gone]))
        assert (await task).errno == 2006
        assert relay.client.take() == answer([*before, replies.err_packet(0, 1218, "08S01", "gone")])
