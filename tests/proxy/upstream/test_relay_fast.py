"""RelayUpstream's fast path and LOAD DATA LOCAL, on recording transports."""

from __future__ import annotations

import asyncio

import pytest
from relay_peers import BEGUN, QUERY, Relay, answer, mark, ok, result
from wire_peers import packet, packets_of, settle

from mysql_wire import replies
from mysql_wire.flags import DEPRECATE_EOF
from mysql_wire.outcome import Outcome
from proxy.errors import StreamClosed
from proxy.upstream.repeats import REPEATS_MAX

# --- the fast path


@pytest.mark.parametrize("capabilities", [0, DEPRECATE_EOF])
async def test_fast_command_passes_both_ways_without_waking_the_reader(capabilities: int) -> None:
    relay = Relay(capabilities, fast=True)
    reader = await relay.parked()
    for _ in range(3):
        relay.stream.data_received(packet(QUERY))
        assert relay.server.take() == packet(QUERY)  # at once, in the same callback
        data = answer(result(capabilities))
        for at in range(0, len(data), 11):
            relay.link.data_received(data[at : at + 11])
        assert relay.client.take() == data
    await settle()
    assert not reader.done()
    assert relay.decisions == [(3, b"SELECT 1")] * 3
    assert [command for command, _ in relay.answers] == [3, 3, 3]
    assert all(outcome.ok for _, outcome in relay.answers) and relay.upstream.status == BEGUN
    reader.cancel()


async def test_another_command_may_go_in_the_place_of_a_fast_one() -> None:
    relay = Relay(fast=True)
    relay.instead = packet(b"\x03UPDATE q SET a = 1")
    reader = await relay.parked()
    for _ in range(2):
        relay.stream.data_received(packet(b"\x03ACK q 1"))
        assert relay.server.take() == relay.instead
        data = answer([ok()])
        relay.link.data_received(data)
        assert relay.client.take() == data
    assert [command for command, _ in relay.answers] == [3, 3]  # each end is told, also of an answer like the last one
    reader.cancel()


async def test_where_the_server_refuses_it_the_clients_own_command_is_sent() -> None:
    relay = Relay(fast=True)
    relay.instead, own = packet(b"\x03INSERT INTO q (a, epoch) VALUES (1, 1)"), packet(QUERY)
    unknown = replies.err_packet(0, 1054, "42S22", "Unknown column 'epoch' in 'field list'")
    duplicate = replies.err_packet(0, 1062, "23000", "Duplicate entry")
    reader = await relay.parked()
    for last in (ok(), unknown):
        relay.own = own
        relay.stream.data_received(own)
        assert relay.server.take() == relay.instead
        relay.link.data_received(answer([unknown]))
        assert relay.client.take() == b"" and relay.server.take() == own
        relay.link.data_received(answer([last]))
        assert relay.client.take() == answer([last])
    relay.own = b""
    relay.stream.data_received(own)
    relay.link.data_received(answer([duplicate]))
    assert relay.server.take() == relay.instead and relay.client.take() == answer([duplicate])
    assert [outcome.errno for _, outcome in relay.answers] == [0, 1054, 1062] and relay.refusals == [1054, 1054, 1062]
    reader.cancel()


async def test_fast_path_is_left_when_decide_says_no() -> None:
    relay = Relay(fast=False)
    reader = await relay.parked()
    relay.stream.data_received(packet(QUERY))
    assert await reader == QUERY
    assert relay.server.take() == b"" and relay.answers == []


@pytest.mark.parametrize(
    "data",
    [
        packet(QUERY, 1),
        packet(QUERY) + packet(QUERY),
        packet(b"\x19\x01\x00\x00\x00"),
        packet(b"\x12dump"),
        packet(b"\x11root"),
        packet(b"\x01"),
        packet(b"\x03" + bytes(70_000)),
    ],
)
async def test_fast_path_takes_only_one_small_answered_command(data: bytes) -> None:
    relay = Relay(fast=True)
    assert not relay.upstream.try_fast(data)
    assert relay.decisions == [] and relay.server.take() == b""


async def test_commands_sent_ahead_are_answered_in_turn() -> None:
    relay = Relay(fast=True)
    reader = await relay.parked()
    relay.stream.data_received(packet(QUERY))
    relay.stream.data_received(packet(b"\x0e"))
    assert relay.server.take() == packet(QUERY)
    relay.link.data_received(answer([ok()]))
    assert relay.server.take() == packet(b"\x0e")
    relay.link.data_received(answer([ok()]))
    assert [command for command, _ in relay.answers] == [3, 14]
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)


async def test_fast_command_whose_line_is_lost_before_the_answer() -> None:
    relay = Relay(fast=True)
    reader = await relay.parked()
    relay.stream.data_received(packet(QUERY))
    relay.link.connection_lost(None)
    assert relay.client.take() == b"" and relay.client.closing
    assert relay.answers[0][1].errno == 2013 and len(relay.losses) == 1
    with pytest.raises(StreamClosed):
        await reader


async def test_fast_command_whose_line_is_lost_in_mid_answer() -> None:
    relay = Relay(fast=True)
    reader = await relay.parked()
    relay.stream.data_received(packet(QUERY))
    relay.link.data_received(answer(result(DEPRECATE_EOF))[:30])
    relay.link.connection_lost(None)
    with pytest.raises(StreamClosed):
        await reader
    assert relay.client.aborted and relay.answers == []


async def test_client_killed_during_a_fast_command_leaves_its_outcome() -> None:
    relay = Relay(fast=True)
    reader = await relay.parked()
    relay.stream.data_received(packet(b"\x03INSERT INTO q VALUES (1)"))
    relay.stream.connection_lost(None)
    with pytest.raises(StreamClosed):
        await reader
    closing = asyncio.create_task(relay.upstream.close())
    await settle()
    relay.link.data_received(answer([ok(affected_rows=1)]))
    await settle()
    assert relay.answers == [(3, Outcome(status=BEGUN, affected_rows=1))]
    relay.link.connection_lost(None)
    await closing


# --- LOAD DATA LOCAL


@pytest.mark.parametrize("fast", [False, True])
async def test_file_of_the_client_is_carried_up_to_the_empty_packet(fast: bool) -> None:
    relay = Relay(fast=fast)
    if fast:
        task: asyncio.Task[bytes] | asyncio.Task[Outcome] = await relay.parked()
        relay.stream.data_received(packet(QUERY))
    else:
        task = await relay.begin()
    relay.server.take()
    relay.link.data_received(answer([b"\xfbdata.csv"]))
    await settle()
    assert relay.client.take() == answer([b"\xfbdata.csv"])
    lines = packet(b"1,2\n", 2) + packet(b"3,4\n", 3) + packet(b"", 4)
    for byte in lines:
        relay.stream.data_received(bytes((byte,)))
        await settle()
    assert relay.server.take() == lines
    relay.link.data_received(answer([ok(affected_rows=2)], first=5))
    assert relay.client.take() == answer([ok(affected_rows=2)], first=5)
    if fast:
        assert relay.answers[0][1].affected_rows == 2
        relay.stream.data_received(packet(b"\x0e"))
        relay.link.data_received(answer([ok()]))
        assert len(relay.answers) == 2
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    else:
        assert await task == Outcome(status=BEGUN, affected_rows=2)
        assert relay.stream.seq == 6


async def test_file_in_the_middle_of_a_multi_statement_is_renumbered_both_ways() -> None:
    relay = Relay()
    task = await relay.begin(seq=10, more=True)
    relay.server.take()
    relay.link.data_received(answer([b"\xfbf"]))
    await settle()
    assert packets_of(relay.client.take()) == [(10, b"\xfbf")]
    relay.stream.data_received(packet(b"x", 11) + packet(b"", 12))
    await settle()
    assert packets_of(relay.server.take()) == [(2, b"x"), (3, b"")]
    relay.link.data_received(answer([ok()], first=4))
    await task
    assert packets_of(relay.client.take()) == [(13, mark(ok()))]
    assert relay.stream.seq == 14


@pytest.mark.parametrize("fast", [False, True])
async def test_file_that_breaks_off_is_not_committed(fast: bool) -> None:
    """The line is cut: an empty packet would mean that the file was whole."""
    relay = Relay(fast=fast)
    task = await relay.parked() if fast else await relay.begin()
    if fast:
        relay.stream.data_received(packet(QUERY))
    relay.link.data_received(answer([b"\xfbf"]))
    await settle()
    relay.server.take()
    relay.stream.data_received(packet(b"half", 2))
    relay.stream.connection_lost(None)
    await settle()
    assert relay.server.take() == packet(b"half", 2) and relay.server.aborted
    with pytest.raises(StreamClosed):
        await task


async def test_file_with_a_wrong_sequence_id_is_refused() -> None:
    relay = Relay()
    task = await relay.begin()
    relay.link.data_received(answer([b"\xfbf"]))
    await settle()
    relay.client.take()
    relay.stream.data_received(packet(b"x", 9))
    await settle()
    assert relay.client.take()[4:].startswith(b"\xff\x84\x04#08S01Got packets out of order")
    assert relay.server.aborted and not relay.upstream.alive
    with pytest.raises(StreamClosed):
        await task


async def test_an_error_of_a_clients_own_number_has_a_servers() -> None:
    """A vtgate sends 2006 where its database has gone; libmariadb takes that for a malformed packet."""
    relay = Relay(fast=True)
    reader = await relay.parked()
    relay.stream.data_received(packet(QUERY))
    relay.link.data_received(answer([replies.err_packet(0, 0, "HY000", "gone").replace(b"\x00\x00#", b"\xd6\x07#", 1)]))
    assert relay.client.take() == answer([replies.err_packet(0, 1218, "08S01", "gone")])
    reader.cancel()


async def test_rows_that_look_like_such_an_error_pass_untouched() -> None:
    relay = Relay(fast=True)
    reader = await relay.parked()
    relay.stream.data_received(packet(QUERY))
    data = answer(result(DEPRECATE_EOF, [b"\x0a\xff\xd6\x07#HY000"]))
    at = data.index(b"\xff\xd6")
    for chunk in (data[: at - 4], data[at - 4 :]):
        relay.link.data_received(chunk)
    assert relay.client.take() == data
    reader.cancel()


# --- a command that the database has rolled back

DEADLOCK = replies.err_packet(0, 1213, "40001", "Deadlock found when trying to get lock")
VERB = b"\x03UPDATE q SET a = 1"
AUTOCOMMIT = 2


async def test_a_deadlock_of_a_fast_command_is_not_shown() -> None:
    relay = Relay(fast=True)
    relay.instead = packet(VERB)
    reader = await relay.parked()
    relay.stream.data_received(packet(b"\x03ACK q 1"))
    for _ in range(2):
        assert relay.server.take() == packet(VERB)
        relay.link.data_received(answer([DEADLOCK]))
        assert relay.client.take() == b"" and relay.answers == []
    assert relay.server.take() == packet(VERB)
    relay.link.data_received(answer([ok(AUTOCOMMIT)]))
    assert relay.client.take() == answer([ok(AUTOCOMMIT)])
    assert [outcome.ok for _, outcome in relay.answers] == [True]
    reader.cancel()


async def test_a_deadlock_of_a_slow_command_is_not_shown() -> None:
    relay = Relay()
    relay.stream.seq = 1
    task = asyncio.create_task(relay.upstream.command(VERB, more=True, repeatable=True))
    await settle()
    assert relay.server.take() == packet(VERB)
    relay.link.data_received(answer([DEADLOCK]))
    assert relay.client.take() == b"" and relay.server.take() == packet(VERB)
    relay.link.data_received(answer([ok(AUTOCOMMIT)]))
    assert (await task).ok and relay.client.take() == answer([mark(ok(AUTOCOMMIT))])


async def test_repeats_come_to_an_end() -> None:
    relay = Relay(fast=True)
    relay.instead = packet(VERB)
    reader = await relay.parked()
    for _ in range(2):
        relay.stream.data_received(packet(b"\x03ACK q 1"))
        for _ in range(REPEATS_MAX):
            relay.link.data_received(answer([DEADLOCK]))
            assert relay.client.take() == b""
        assert relay.server.take() == packet(VERB) * (REPEATS_MAX + 1)
        relay.link.data_received(answer([DEADLOCK]))
        assert relay.client.take() == answer([DEADLOCK])
    assert [outcome.errno for _, outcome in relay.answers] == [1213, 1213]
    reader.cancel()


async def test_repeats_are_counted_for_each_command() -> None:
    relay = Relay(fast=True)
    relay.instead = packet(VERB)
    reader = await relay.parked()
    for _ in range(REPEATS_MAX + 2):
        relay.stream.data_received(packet(b"\x03ACK q 1"))
        for payload in (DEADLOCK, ok(AUTOCOMMIT)):
            relay.link.data_received(answer([payload]))
        assert relay.client.take() == answer([ok(AUTOCOMMIT)])
    reader.cancel()


@pytest.mark.parametrize("status", [0, BEGUN])
async def test_nothing_is_repeated_in_a_transaction(status: int) -> None:
    relay = Relay(fast=True)
    reader = await relay.parked()
    relay.stream.data_received(packet(QUERY))
    relay.link.data_received(answer([ok(status)]))
    relay.instead = packet(VERB)
    relay.stream.data_received(packet(b"\x03ACK q 1"))
    relay.server.take(), relay.client.take()
    relay.link.data_received(answer([DEADLOCK]))
    assert relay.client.take() == answer([DEADLOCK]) and relay.server.take() == b""
    reader.cancel()


async def test_a_clients_own_statement_is_not_repeated() -> None:
    relay = Relay(fast=True)
    reader = await relay.parked()
    relay.instead = packet(VERB)
    relay.stream.data_received(packet(b"\x03ACK q 1"))
    relay.link.data_received(answer([ok(AUTOCOMMIT)]))
    relay.instead = None
    relay.stream.data_received(packet(QUERY))
    relay.server.take(), relay.client.take()
    relay.link.data_received(answer([DEADLOCK]))
    assert relay.client.take() == answer([DEADLOCK]) and relay.server.take() == b""
    reader.cancel()


async def test_an_error_that_comes_in_parts_is_passed_on() -> None:
    relay = Relay(fast=True)
    reader = await relay.parked()
    relay.instead = packet(VERB)
    relay.stream.data_received(packet(b"\x03ACK q 1"))
    relay.server.take()
    for part in (answer([DEADLOCK])[:9], answer([DEADLOCK])[9:]):
        relay.link.data_received(part)
    assert relay.client.take() == answer([DEADLOCK]) and relay.server.take() == b""
    reader.cancel()
