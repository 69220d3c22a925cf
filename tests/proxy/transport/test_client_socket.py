"""ClientSocket: framing, bounds, sequence, the fast path, closing. On a recording transport, chunk by chunk."""

from __future__ import annotations

import asyncio
import itertools
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mysql_mimic.stream import ConnectionClosed
from wire_peers import LOOPS, RecordingTransport, packet, packets_of, run_on, settle

from mysql_wire.errors import PacketsOutOfOrder, PacketTooLarge, ReadTimeout
from mysql_wire.packets import PAYLOAD_MAX, frame
from proxy.errors import StreamClosed
from proxy.transport import client_timers, tcp
from proxy.transport.client_socket import PENDING_BYTES_MAX, ClientSocket


def connect(max_packet_bytes: int = 1 << 20, *, tls: bool = False) -> tuple[ClientSocket, RecordingTransport]:
    met: list[ClientSocket] = []
    stream = ClientSocket(met.append, max_packet_bytes=max_packet_bytes)
    transport = RecordingTransport(stream, tls=tls)
    stream.connection_made(transport)
    assert met == [stream]
    return stream, transport


async def over_tcp() -> tuple[ClientSocket, asyncio.StreamReader, asyncio.StreamWriter]:
    """A stream for packets of at most 1000 bytes, and the client's end of it."""
    running = asyncio.get_running_loop()
    accepted: asyncio.Future[ClientSocket] = running.create_future()
    server = await running.create_server(
        lambda: ClientSocket(accepted.set_result, max_packet_bytes=1000), "127.0.0.1", 0
    )
    listening = server.sockets[0].dup()  # tuned as those that the proxy listens on
    tcp.tune_listening(listening)
    listening.close()
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    stream = await accepted
    server.close()
    return stream, reader, writer


async def reading(stream: ClientSocket, *, command: bool = False) -> asyncio.Task[bytes]:
    """A reader that is parked by the time this returns."""
    task = asyncio.create_task(stream.read_command() if command else stream.read())
    await settle()
    return task


# --- reading


@pytest.mark.parametrize("step", [1, 2, 3, 5])
async def test_header_split_over_segments_is_read(step: int) -> None:
    """mysql-mimic reads `read(4)`, so half a header killed the connection."""
    stream, _ = connect()
    task = await reading(stream)
    data = packet(b"\x03SELECT 1")
    for at in range(0, len(data), step):
        assert not task.done()
        stream.data_received(data[at : at + step])
        await settle()
    assert await task == b"\x03SELECT 1"
    assert stream.seq == 1


async def test_packets_of_one_segment_are_read_in_turn() -> None:
    stream, _ = connect()
    stream.data_received(packet(b"a", 0) + packet(b"", 1) + packet(b"ccc", 2))
    assert [await stream.read() for _ in range(3)] == [b"a", b"", b"ccc"]
    assert stream.seq == 3


async def test_sequence_wraps_at_256() -> None:
    stream, _ = connect()
    stream.data_received(b"".join(packet(b"x", n & 255) for n in range(257)))
    for _ in range(257):
        await stream.read()
    assert stream.seq == 1


async def test_payload_of_16_mib_is_joined() -> None:
    stream, _ = connect(1 << 25)
    payload = bytes(PAYLOAD_MAX) + b"tail"
    stream.data_received(frame(payload[:PAYLOAD_MAX])[: 4 + PAYLOAD_MAX])
    stream.data_received(packet(b"tail", 1))
    assert await stream.read() == payload


async def test_payload_that_fills_its_packet_is_ended_by_an_empty_one() -> None:
    stream, transport = connect(1 << 25)
    payload = b"x" * PAYLOAD_MAX
    await stream.write(payload)
    sent = transport.take()
    assert [(seq, len(body)) for seq, body in packets_of(sent)] == [(0, PAYLOAD_MAX), (1, 0)]
    stream.reset_seq()
    stream.data_received(sent)
    assert await stream.read() == payload
    assert stream.seq == 2


async def test_wrong_sequence_id_is_1156_and_the_end() -> None:
    stream, transport = connect()
    stream.data_received(packet(b"\x03SELECT 1", 7) + packet(b"\x03DROP TABLE t"))
    with pytest.raises(PacketsOutOfOrder) as caught:
        await stream.read_command()
    assert (caught.value.errno, caught.value.sqlstate, caught.value.fatal) == (1156, "08S01", True)
    with pytest.raises(PacketsOutOfOrder):  # what follows is never looked at
        await stream.read_command()
    await stream.write(b"\xffsorry")
    stream.close()
    assert transport.eof_written and not transport.closing  # lingers, so that the message arrives
    stream.data_received(b"more and more")
    stream.eof_received()
    await settle()
    assert transport.closing


async def test_on_tls_the_end_comes_once_the_client_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a TLS line cannot be closed, and a client must not take a line for open on which nobody answers."""
    monkeypatch.setattr(client_timers, "QUIET_SECONDS", 0.01)
    stream, transport = connect(tls=True)
    stream.data_received(packet(b"\x03SELECT 1", 7))
    with pytest.raises(PacketsOutOfOrder):
        await stream.read_command()
    stream.close()
    stream.data_received(b"more and more")
    assert not transport.closing
    await asyncio.wait_for(stream.wait_lost(), 20)
    assert transport.closing and not transport.eof_written and not transport.aborted


async def test_too_large_a_packet_is_refused_at_its_header() -> None:
    stream, _ = connect(1000)
    stream.data_received((1001).to_bytes(3, "little") + b"\x00")
    with pytest.raises(PacketTooLarge) as caught:
        await stream.read()
    assert caught.value.errno == 1153
    for _ in range(100):
        stream.data_received(bytes(10_000))
    assert "unread=0 " in repr(stream)


async def test_largest_packet_is_accepted_and_limit_can_be_raised() -> None:
    stream, _ = connect(10)
    stream.data_received(packet(bytes(10)))
    assert await stream.read() == bytes(10)
    stream.commands.max_packet_bytes = 20
    stream.data_received(packet(bytes(20), 1))
    assert await stream.read() == bytes(20)


async def test_limit_holds_for_the_sum_of_continued_packets() -> None:
    stream, _ = connect(PAYLOAD_MAX + 5)
    stream.data_received(PAYLOAD_MAX.to_bytes(3, "little") + b"\x00" + bytes(PAYLOAD_MAX))
    stream.data_received((6).to_bytes(3, "little") + b"\x01")
    with pytest.raises(PacketTooLarge):
        await stream.read()


async def test_end_of_file_is_connection_closed_after_what_was_sent() -> None:
    stream, _ = connect()
    stream.data_received(packet(b"\x03SELECT 1") + b"\x09\x00")
    stream.eof_received()
    assert stream.closed
    assert await stream.read_command() == b"\x03SELECT 1"
    with pytest.raises(ConnectionClosed):
        await stream.read_command()


async def test_parked_reader_hears_of_a_lost_line() -> None:
    stream, _ = connect()
    task = await reading(stream, command=True)
    stream.connection_lost(ConnectionResetError())
    with pytest.raises(StreamClosed):
        await task


async def test_cancelled_read_loses_nothing() -> None:
    stream, _ = connect()
    task = await reading(stream)
    stream.data_received(packet(b"whole")[:6])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stream.data_received(packet(b"whole")[6:])
    assert await stream.read() == b"whole"


async def test_client_that_talks_ahead_is_not_read_without_bound() -> None:
    stream, transport = connect()
    while transport.reading:
        stream.data_received(packet(bytes(60_000)))
        assert f"unread={PENDING_BYTES_MAX * 2}" not in repr(stream)
    for _ in range(5):
        await stream.read_command()
    await reading(stream, command=True)
    assert transport.reading


async def test_a_packet_begun_and_not_finished_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_timers, "STALL_SECONDS", 0.01)
    stream, _ = connect()
    stream.data_received(b"\x05\x00")
    with pytest.raises(ReadTimeout) as caught:
        await stream.read_command()
    assert caught.value.errno == 1159


async def test_an_idle_client_does_not_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_timers, "STALL_SECONDS", 0.0)
    stream, _ = connect()
    task = await reading(stream, command=True)
    stream.data_received(packet(b"\x0e"))
    assert await task == b"\x0e"
    again = await reading(stream, command=True)
    assert not again.done()
    again.cancel()


# --- clients that go


async def test_wait_gone_returns_at_end_of_file() -> None:
    stream, _ = connect()
    waiter = stream.disconnected()
    await settle()
    assert not waiter.done()
    stream.eof_received()
    await waiter
    await stream.disconnected()  # and at once ever after


async def test_goodbye_in_mid_stream_is_seen() -> None:
    stream, _ = connect()
    waiter = stream.disconnected()
    await settle()
    stream.data_received(b"\x01\x00\x00\x00")
    assert not stream.commands.quits
    stream.data_received(b"\x01")
    assert stream.commands.quits
    await waiter
    assert await stream.read_command() == b"\x01"


# --- writing


async def test_writes_are_framed_in_sequence_and_sent_at_drain() -> None:
    stream, transport = connect()
    await stream.write(b"one", drain=False)
    stream.write_many([b"two", b""])
    assert transport.take() == b""
    await stream.drain()
    assert packets_of(transport.take()) == [(0, b"one"), (1, b"two"), (2, b"")]
    assert stream.seq == 3


async def test_framed_bytes_do_not_overtake() -> None:
    stream, transport = connect()
    stream.write_many([b"first"])
    stream.write_framed(packet(b"second", 1))
    assert packets_of(transport.take()) == [(0, b"first"), (1, b"second")]


async def test_much_written_is_sent_without_drain() -> None:
    stream, transport = connect()
    stream.write_many([bytes(1000)] * 100)
    assert len(transport.written) >= 64 * 1024


async def test_drain_waits_while_the_client_does_not_read() -> None:
    stream, _ = connect()
    told: list[str] = []

    class Recorded:
        def pause_reading(self) -> None:
            told.append("pause")

        def resume_reading(self) -> None:
            told.append("resume")

    stream.source = Recorded()
    stream.pause_writing()
    task = asyncio.create_task(stream.write(b"x"))
    await settle()
    assert not task.done()
    stream.resume_writing()
    await task
    assert told == ["pause", "resume"]


async def test_drain_of_a_lost_line_raises() -> None:
    stream, _ = connect()
    stream.pause_writing()
    task = asyncio.create_task(stream.write(b"x"))
    await settle()
    stream.connection_lost(None)
    with pytest.raises(StreamClosed):
        await task
    stream.write_framed(b"into the void")
    with pytest.raises(StreamClosed):
        await stream.drain()


async def test_close_sends_what_was_written_and_may_be_called_twice() -> None:
    stream, transport = connect()
    stream.write_many([b"bye"])
    stream.close()
    stream.close()
    assert packets_of(transport.take()) == [(0, b"bye")]
    await stream.disconnected()
    with pytest.raises(StreamClosed):
        await stream.read()


async def test_nothing_is_read_after_our_own_close() -> None:
    stream, _ = connect()
    stream.data_received(packet(b"\x03DROP TABLE t"))
    stream.close()
    stream.data_received(packet(b"\x03DROP TABLE t"))
    with pytest.raises(StreamClosed):
        await stream.read_command()


# --- fast path


class Taker:
    """A fast path that takes what begins with the given commands."""

    def __init__(self, stream: ClientSocket, wanted: bytes) -> None:
        self.seen: list[bytes] = []
        self._wanted = wanted
        stream.fast_path = self

    def __call__(self, data: bytes) -> bool:
        if len(data) < 5 or data[4] not in self._wanted or len(data) != 4 + data[0]:
            return False
        self.seen.append(data)
        return True


async def test_fast_path_takes_raw_bytes_and_the_reader_sleeps() -> None:
    stream, _ = connect()
    taker = Taker(stream, b"\x03")
    task = await reading(stream, command=True)
    stream.data_received(packet(b"\x03SELECT 1"))
    stream.data_received(packet(b"\x03SELECT 2"))  # sent ahead: kept, then offered
    await settle()
    assert taker.seen == [packet(b"\x03SELECT 1")] and not task.done()
    stream.fast_done()
    assert taker.seen == [packet(b"\x03SELECT 1"), packet(b"\x03SELECT 2")]
    stream.fast_done()
    stream.data_received(packet(b"\x16SELECT ?"))
    assert await task == b"\x16SELECT ?"


async def test_fast_path_is_offered_a_command_cut_by_the_network() -> None:
    stream, _ = connect()
    taker = Taker(stream, b"\x03")
    await reading(stream, command=True)
    for byte in packet(b"\x03SELECT 1"):
        stream.data_received(bytes((byte,)))
    assert taker.seen == [packet(b"\x03SELECT 1")]


async def test_a_cut_command_that_went_fast_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_timers, "STALL_SECONDS", 0.0)
    stream, _ = connect()
    taker = Taker(stream, b"\x03")
    task = await reading(stream, command=True)
    stream.data_received(packet(b"\x03SELECT 123456789")[:7])
    stream.data_received(packet(b"\x03SELECT 123456789")[7:])
    assert len(taker.seen) == 1
    stream.fast_done()
    await settle()
    stream.data_received(packet(b"\x16"))  # shorter than the one before
    assert await task == b"\x16"


async def test_fast_path_sees_nothing_while_a_command_is_being_served() -> None:
    stream, _ = connect()
    taker = Taker(stream, b"\x03")
    task = await reading(stream, command=True)
    stream.data_received(packet(b"\x16PREPARE"))
    stream.data_received(packet(b"\x03SELECT 1"))  # the reader was woken but has not run yet
    assert taker.seen == []
    assert await task == b"\x16PREPARE"
    assert await stream.read_command() == b"\x03SELECT 1"


async def test_client_that_hangs_up_during_the_fast_path() -> None:
    stream, _ = connect()
    Taker(stream, b"\x03")
    task = await reading(stream, command=True)
    stream.data_received(packet(b"\x03SELECT SLEEP(1)"))
    stream.data_received(b"\x01\x00")
    stream.eof_received()
    await settle()
    assert stream.closed and not task.done()  # the answer is still being written
    stream.fast_done()
    with pytest.raises(StreamClosed):
        await task


async def test_read_inside_the_fast_path_gets_the_client_data() -> None:
    """LOAD DATA LOCAL: the answer needs the client's next packets, while the command reader sleeps on."""
    stream, _ = connect()
    Taker(stream, b"\x03")
    task = await reading(stream, command=True)
    stream.data_received(packet(b"\x03LOAD"))
    stream.seq = 2
    inner = await reading(stream)
    stream.data_received(packet(b"line\n", 2))
    assert await inner == b"line\n"
    assert not task.done()
    stream.reset_seq()
    stream.fast_done()
    stream.data_received(packet(b"\x0e"))
    stream.fast_path = None
    stream.fast_done()
    assert await task == b"\x0e"


async def test_read_inside_the_fast_path_hears_of_a_client_that_hangs_up() -> None:
    stream, _ = connect()
    Taker(stream, b"\x03")
    task = await reading(stream, command=True)
    stream.data_received(packet(b"\x03LOAD"))
    stream.seq = 2
    inner = await reading(stream)
    stream.data_received(packet(b"half a line", 2)[:6])
    stream.eof_received()
    with pytest.raises(StreamClosed):
        await inner
    assert not task.done()
    task.cancel()


# --- properties


def cut(data: bytes, points: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(p % (len(data) + 1) for p in points)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=8), st.lists(st.integers(0, 400), max_size=12))
@settings(deadline=None, max_examples=80)
def test_chunking_changes_nothing(payloads: list[bytes], points: list[int]) -> None:
    async def scenario() -> list[bytes]:
        stream, _ = connect()
        chunks = cut(b"".join(packet(p, n) for n, p in enumerate(payloads)), points)

        async def feed() -> None:
            for chunk in chunks:
                stream.data_received(chunk)
                await asyncio.sleep(0)

        feeder = asyncio.create_task(feed())
        got = [await stream.read() for _ in payloads]
        await feeder
        return got

    assert run_on("asyncio", scenario()) == payloads


@given(st.lists(st.binary(max_size=60), max_size=6))
@settings(deadline=None, max_examples=80)
def test_junk_raises_only_declared_errors(chunks: list[bytes]) -> None:
    async def scenario() -> None:
        stream, _ = connect(100)
        for chunk in chunks:
            stream.data_received(chunk)
        stream.eof_received()
        with pytest.raises((StreamClosed, PacketTooLarge, PacketsOutOfOrder)):
            while True:
                await stream.read()

    run_on("asyncio", scenario())


# --- a real socket, on both loops


@pytest.mark.parametrize("loop", LOOPS)
def test_real_socket_exchange_and_goodbye(loop: str) -> None:
    async def scenario() -> None:
        near, far = socket.socketpair()
        connected: list[ClientSocket] = []
        running = asyncio.get_running_loop()
        await running.create_connection(lambda: ClientSocket(connected.append, max_packet_bytes=1 << 25), sock=near)
        reader, writer = await asyncio.open_connection(sock=far)
        stream = connected[0]
        payload = bytes(range(256)) * 80_000  # 20 MB: continued, and more than the socket holds
        writer.write(frame(payload))
        assert await stream.read_command() == payload
        sending = asyncio.create_task(stream.write(payload))
        first = await reader.readexactly(4 + PAYLOAD_MAX)
        second = await reader.readexactly(4 + len(payload) - PAYLOAD_MAX)
        await sending
        assert (first[3], second[3]) == (2, 3)
        assert first[4:] + second[4:] == payload
        writer.close()
        await stream.disconnected()
        stream.close()
        await stream.wait_lost()

    run_on(loop, scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_tcp_options_are_set(loop: str) -> None:
    async def scenario() -> None:
        stream, _, writer = await over_tcp()
        assert stream.peername[0] == "127.0.0.1"
        assert stream.transport is not None
        sock = stream.transport.get_extra_info("socket")
        options = [
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
            (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0),  # a client that is alive may take its time to read
        ]
        for level, name, value in options:
            assert sock.getsockopt(level, name) == value
        writer.close()
        stream.close()
        await stream.wait_lost()

    run_on(loop, scenario())


@pytest.mark.parametrize("loop", LOOPS)
def test_error_message_survives_an_oversized_packet(loop: str) -> None:
    """Closing a socket with unread bytes resets it, and the client would see no error at all."""

    async def scenario() -> None:
        stream, reader, writer = await over_tcp()
        writer.write(frame(bytes(8 << 20)))
        with pytest.raises(PacketTooLarge):
            await stream.read_command()
        await stream.write(b"\xffE")
        stream.close()
        await writer.drain()  # the client sends all of it before it looks
        assert await reader.read() == packet(b"\xffE")
        writer.close()
        await stream.wait_lost()

    run_on(loop, scenario())
