"""RelayUpstream on recording transports: what reaches client and server, byte for byte, and how lines are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from mysql_mimic.types import Commands
from wire_peers import RecordingTransport, packet, packets_of, settle

from engine.model import ColumnMeta
from proxy import relay as relay_module
from proxy import wire
from proxy.answer import MORE_RESULTS
from proxy.capabilities import DEPRECATE_EOF
from proxy.errors import BackendLost, ProxyError, StreamClosed
from proxy.framing import PAYLOAD_MAX, frame
from proxy.link import BackendLink
from proxy.relay import RelayUpstream
from proxy.stream import PacketStream
from proxy.upstream import Collected, Outcome

QUERY = b"\x03SELECT 1"
BEGUN = 0x0003  # in transaction, autocommit


def answer(payloads: Iterable[bytes], first: int = 1) -> bytes:
    return b"".join(packet(p, n & 255) for n, p in enumerate(payloads, first))


def ok(status: int = BEGUN, affected_rows: int = 0) -> bytes:
    return wire.ok_packet(0, status=status, affected_rows=affected_rows)


def err(message: str = "no") -> bytes:
    return wire.err_packet(0, 1146, "42S02", message)


def result(capabilities: int, rows: Iterable[bytes] = (b"\x01a", b"\xfb"), status: int = BEGUN) -> list[bytes]:
    payloads = [wire.column_count(1), wire.column_definition(ColumnMeta("näme", 0xFD, table="t"), capabilities)]
    if not capabilities & DEPRECATE_EOF:
        payloads.append(wire.eof_packet(status=status))
    return [*payloads, *rows, wire.end_packet(capabilities, status=status)]


class Relay:
    """A relay between two recorded sockets."""

    def __init__(self, capabilities: int = DEPRECATE_EOF, *, fast: bool = False) -> None:
        self.stream = PacketStream(lambda stream: None, max_packet_bytes=64 << 20)
        self.client = RecordingTransport(self.stream)
        self.stream.connection_made(self.client)
        self.link = BackendLink()
        self.server = RecordingTransport(self.link)
        self.link.connection_made(self.server)
        self.answers: list[tuple[int, Outcome]] = []
        self.losses: list[Outcome] = []
        self.decisions: list[tuple[int, bytes]] = []
        self.fast = fast
        self.upstream = RelayUpstream(
            self.link,
            self.stream,
            capabilities=capabilities,
            status=2,
            decide=self.decide,
            on_answer=lambda command, outcome: self.answers.append((command, outcome)),
            on_lost=self.losses.append,
        )
        self.stream.fast_path = self.upstream.try_fast

    def decide(self, command: int, body: bytes) -> bool:
        self.decisions.append((command, body))
        return self.fast

    async def begin(
        self, payload: bytes = QUERY, *, seq: int = 1, more: bool = False, hold: bool = False
    ) -> asyncio.Task[Outcome]:
        """A command under way, as after the client's packets have been read up to `seq`."""
        self.stream.seq = seq
        task = asyncio.create_task(self.upstream.command(payload, more=more, hold=hold))
        await settle()
        return task

    async def parked(self) -> asyncio.Task[bytes]:
        """A command reader that sleeps, so that the fast path is open."""
        task = asyncio.create_task(self.stream.read_command())
        await settle()
        return task


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
    relay.link.data_received(answer([wire.prepare_ok(77, columns=0, parameters=0)]))
    assert (await task).statement_id == 77
    assert relay.upstream.status == 2


@pytest.mark.parametrize("command", [Commands.COM_STMT_CLOSE, Commands.COM_STMT_SEND_LONG_DATA])
async def test_command_without_answer_returns_at_once(command: int) -> None:
    relay = Relay()
    payload = bytes((command,)) + b"\x01\x00\x00\x00"
    task = await relay.begin(payload)
    assert await task == Outcome(status=2)
    assert relay.server.take() == packet(payload) and relay.client.take() == b""


@pytest.mark.parametrize("payload", [b"", b"\x12", b"\x1e", b"\xfa", b"\x11root\x00"])
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
    for index in ends:
        expected[index] = mark(expected[index])
    assert [payload for _, payload in sent] == expected


def mark(payload: bytes) -> bytes:
    """The status flags of an OK (one-byte numbers) or EOF packet, with MORE_RESULTS."""
    at = 3
    return payload[:at] + bytes((payload[at] | MORE_RESULTS,)) + payload[at + 1 :]


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
    task = await relay.begin(hold=True)
    relay.link.data_received(answer([ok()]))
    assert (await task).ok
    assert relay.client.take() == b""
    await relay.upstream.deliver()
    assert relay.client.take() == answer([ok()])
    await relay.upstream.deliver()
    assert relay.client.take() == b""


async def test_held_answer_in_a_multi_statement() -> None:
    relay = Relay()
    task = await relay.begin(seq=5, more=True, hold=True)
    relay.link.data_received(answer([ok()]))
    assert (await task).status == BEGUN
    await relay.upstream.deliver()
    assert packets_of(relay.client.take()) == [(5, mark(ok()))]


async def test_answer_too_large_to_hold_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "HELD_MAX_BYTES", 100)
    relay = Relay()
    task = await relay.begin(hold=True)
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
    rows = [wire.text_row([b"x" * n]) for n in (0, 1, 250, 251, 70_000)]
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
    monkeypatch.setattr(relay_module, "HELD_MAX_BYTES", 1000)
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


async def test_line_lost_before_the_answer_is_an_error_for_the_client() -> None:
    relay = Relay()
    task = await relay.begin(seq=4)
    relay.link.connection_lost(ConnectionResetError("reset by peer"))
    outcome = await task
    assert (outcome.errno, outcome.sqlstate, outcome.message) == (
        1105, "08S01", "backend connection lost: reset by peer",
    )  # fmt: skip
    assert packets_of(relay.client.take()) == [(4, wire.err_packet(0, 1105, "08S01", outcome.message))]
    assert not relay.upstream.alive and relay.losses == [Outcome(1105, outcome.message, "08S01", 2)]
    with pytest.raises(BackendLost):
        await relay.upstream.command(QUERY)
    assert not relay.client.closing


async def test_line_lost_in_mid_answer_cuts_the_client_off() -> None:
    relay = Relay()
    task = await relay.begin()
    relay.link.data_received(answer(result(DEPRECATE_EOF))[:30])
    relay.link.connection_lost(None)
    with pytest.raises(StreamClosed):
        await task
    assert relay.client.aborted


async def test_line_lost_under_a_held_answer_is_delivered_as_an_error() -> None:
    relay = Relay()
    task = await relay.begin(hold=True)
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
    assert isinstance(outcome, Outcome) and (outcome.errno, outcome.sqlstate) == (1105, "08S01")
    assert relay.client.take() == b""


async def test_server_that_says_why_it_closes_an_idle_line() -> None:
    relay = Relay()
    relay.link.data_received(packet(wire.err_packet(0, 4031, "HY000", "disconnected because of inactivity")))
    await settle()
    assert relay.losses[0].message == "backend connection lost: disconnected because of inactivity"
    assert not relay.upstream.alive and relay.client.take() == b""


@pytest.mark.parametrize("junk", [packet(b""), packet(b"\x00"), packet(b"\xfb\x00")[:4] + b"\xfe" * 40])
async def test_senseless_answer_ends_the_line(junk: bytes) -> None:
    relay = Relay()
    task = await relay.begin()
    relay.link.data_received(junk)
    relay.link.connection_lost(None)
    try:
        assert (await task).errno == 1105
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
    assert (await task).errno == 1105


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
    [(seq, payload)] = packets_of(relay.client.take())
    assert seq == 1 and payload.startswith(b"\xff\x51\x04#08S01backend connection lost")
    assert relay.answers[0][1].errno == 1105 and len(relay.losses) == 1
    relay.stream.data_received(packet(b"\x0e"))
    assert await reader == b"\x0e"  # the line is dead, so nothing is fast any more


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
        relay.stream.data_received(packet(b"\x16SELECT ?"))
        relay.link.data_received(answer([wire.prepare_ok(1, columns=0, parameters=0)]))
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
