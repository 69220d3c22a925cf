"""The bus: two or three workers' ends in one event loop, and the real hub in a thread between them."""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
from collections.abc import AsyncIterator

import pytest
from slowness import scaled
from wire_peers import Ear

from engine.model.commit_report import CommitReport
from engine.model.queue import QueueName
from proxy.cluster import frame_writer
from proxy.cluster import hub as hub_module
from proxy.cluster import questions as questions_module
from proxy.cluster.bus import Bus, Handlers
from proxy.cluster.hub import Hub, WorkerLink
from proxy.cluster.messages import BROADCAST, Framer, MessageKind, encode

Q = QueueName("d", "q")


class Ends(Ear):
    """What one worker hears."""

    def __init__(self) -> None:
        super().__init__()
        self.bus: Bus
        self.handlers = Handlers(
            commits=lambda report: self.received.put_nowait(("commits", report)),
            lost=lambda: self.received.put_nowait(("lost",)),
            login=lambda source, good: self.received.put_nowait(("login", source, good)),
            kill=lambda number, query: self.received.put_nowait(("kill", number, query)),
            answer=self._answer,
            closed=lambda: self.received.put_nowait(("closed",)),
        )


class Exchange:
    """The hub in a thread of its own, as it has a process of its own."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.ready: list[int] = []
        self.hub = Hub(self.selector, self.ready.append)
        self._wake, self._woken = socket.socketpair()
        self.selector.register(self._woken, selectors.EVENT_READ)
        self._stopping = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping:
            for key, events in self.selector.select():
                with self._lock:
                    if key.fileobj is self._woken:
                        self._woken.recv(100)
                    elif key.data in self.hub._links:
                        self.hub.handle(key.data, events)

    def do(self, call) -> None:
        """Something that the supervisor does between two rounds."""
        with self._lock:
            call()
        self._wake.send(b"x")

    def stop(self) -> None:
        self._stopping = True
        self._wake.send(b"x")
        self._thread.join(5)
        for number in list(self.hub._links):
            self.hub.remove(number)
        for end in (self._wake, self._woken):
            end.close()
        self.selector.close()


@pytest.fixture
async def three() -> AsyncIterator[tuple[Exchange, list[Ends]]]:
    exchange, ends = Exchange(), [Ends(), Ends(), Ends()]
    for number, end in enumerate(ends):
        end.bus = await Bus.connect(exchange.hub.add(number), number, end.handlers)
    exchange.hub.announce_members()
    exchange.start()
    for end in ends:
        await asyncio.wait_for(end.bus.wait_for_members(), 5)
    yield exchange, ends
    for end in ends:
        end.bus.close()
    exchange.stop()


def touched(*names: str) -> CommitReport:
    return CommitReport(touched=frozenset(QueueName("d", name) for name in names))


async def test_everybody_else_hears_a_word(three):
    _, (one, two, three_) = three
    one.bus.committed(CommitReport(settled={Q: (1, "a", b"\xff")}))
    two.bus.login("10.0.0.1", False)
    three_.bus.kill(7, True)
    assert {str(await one.next()) for _ in range(2)} == {str(("login", "10.0.0.1", False)), str(("kill", 7, True))}
    received = [await two.next() for _ in range(2)]
    assert ("commits", CommitReport(settled={Q: (1, "a", b"\xff")})) in received
    assert ("kill", 7, True) in received
    assert one.received.empty()


async def test_reports_of_a_moment_go_together(three):
    _, (one, two, _) = three
    for number in range(100):
        one.bus.committed(touched(f"q{number}"))
    assert await two.next() == ("commits", touched("q0"))  # the first at once
    kind, rest = await two.next()
    assert kind == "commits"
    assert rest == touched(*(f"q{number}" for number in range(1, 100)))
    assert two.received.empty()


async def test_a_question_is_answered_by_everybody_else(three):
    _, (one, two, three_) = three
    two.answers["?"] = [["x" * 1000, n] for n in range(300)]  # more than one word holds
    three_.answers["?"] = [["three", 3]]
    items = await one.bus.query("?")
    assert sorted(map(tuple, items)) == sorted([("x" * 1000, n) for n in range(300)] + [("three", 3)])


async def test_who_does_not_answer_is_left_out(three, monkeypatch, caplog):
    monkeypatch.setattr(questions_module, "ANSWER_SECONDS", 0.2)
    _, (one, two, three_) = three
    two.answers["?"] = [["two"]]
    three_.answers["?"] = asyncio.Event()
    assert await one.bus.query("?") == [["two"]]
    assert "no answer from other workers" in caplog.text
    three_.answers["?"].set()


async def test_who_cannot_answer_says_so_at_once(three, caplog):
    _, (one, two, _third) = three
    two.answers["?"] = [["two"]]
    async with asyncio.timeout(scaled(1)):
        assert await one.bus.query("?") == [["two"]]  # the third knows no such question
    assert "was not answered" in caplog.text


async def test_a_worker_that_dies_is_not_waited_for(three):
    exchange, (one, two, three_) = three
    two.answers["?"] = [["two"]]
    three_.answers["?"] = asyncio.Event()
    asking = asyncio.create_task(one.bus.query("?"))
    while not one.bus._questions:
        await asyncio.sleep(0)
    exchange.do(lambda: (exchange.hub.remove(2), exchange.hub.announce_members(), exchange.hub.announce_lost()))
    async with asyncio.timeout(scaled(1)):
        assert await asking == [["two"]]
    assert await one.next() == ("lost",)
    assert await three_.next() == ("closed",)


async def test_the_end_of_the_supervisor_is_heard(three):
    exchange, ends = three
    exchange.do(lambda: [exchange.hub.remove(number) for number in range(3)])
    for end in ends:
        assert await end.next() == ("closed",)
    assert await ends[0].bus.query("?") == []
    ends[0].bus.committed(touched("q"))


async def test_ready_is_for_the_supervisor(three):
    exchange, (one, two, _) = three
    one.bus.ready()
    one.bus.kill(1, False)
    assert await two.next() == ("kill", 1, False)
    assert exchange.ready == [0]


async def test_alone_nobody_is_told():
    exchange, end = Exchange(), Ends()
    end.bus = await Bus.connect(exchange.hub.add(0), 0, end.handlers)
    exchange.hub.announce_members()
    exchange.start()
    assert await end.bus.query("?") == []
    end.bus.committed(touched("q"))
    assert end.bus._commit_batcher.idle
    end.bus.close()
    exchange.stop()


async def test_nonsense_is_survived(three, caplog):
    _, (one, two, _) = three
    assert one.bus._transport is not None
    one.bus._transport.write(encode(MessageKind.COMMITS, 0, BROADCAST, ["no report"]))
    one.bus._transport.write(encode(MessageKind.KILL, 0, BROADCAST, [1, 2, 3]))
    one.bus.login("h", True)
    assert [await two.next() for _ in range(3)] == [("lost",), ("lost",), ("login", "h", True)]
    assert "not understood" in caplog.text


async def test_who_sends_no_frames_is_cut_off(three):
    exchange, (one, two, _) = three
    assert one.bus._transport is not None
    one.bus._transport.write(b"\xff" * 100)
    assert await one.next() == ("closed",)
    two.bus.kill(1, False)
    assert 0 not in exchange.hub._links


def test_a_worker_that_hears_nothing_costs_bounded_memory(monkeypatch):
    """It is told LOST in place of what it missed; a frame that it has half of is sent to its end."""
    monkeypatch.setattr(hub_module, "UNSENT_MAX_BYTES", 300_000)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for end in (ours, theirs):
            end.setblocking(False)
        line = WorkerLink(ours)
        frame = encode(MessageKind.ANSWER, 1, 0, "x" * 50_000)
        for _ in range(200):
            line.put(frame)
            line.flush()
            assert line._unsent_bytes <= 300_000
        framer, received = Framer(), []
        while line.waiting:
            received += framer.feed(theirs.recv(1 << 20))
            line.flush()
        received += framer.feed(theirs.recv(1 << 20))
    kinds = [frame.kind for frame in received]
    assert MessageKind.LOST in kinds
    assert set(kinds) == {MessageKind.LOST, MessageKind.ANSWER}
    assert framer._buffer == b""


async def test_a_line_that_takes_nothing_drops_words_and_says_so(monkeypatch):
    monkeypatch.setattr(frame_writer, "UNSENT_MAX_BYTES", 100_000)
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    end = Ends()
    end.bus = await Bus.connect(ours, 0, end.handlers)
    for _ in range(20_000):
        end.bus.login("h" * 100, False)
    assert end.bus._transport is not None
    assert end.bus._transport.get_write_buffer_size() <= 101_000
    framer, received = Framer(), []
    async with asyncio.timeout(scaled(5)):
        while end.bus._transport.get_write_buffer_size():
            received += framer.feed(await asyncio.get_running_loop().sock_recv(theirs, 1 << 20))
    end.bus.login("last", True)
    async with asyncio.timeout(scaled(5)):
        while not received or received[-1].body != ["last", True]:
            received += framer.feed(await asyncio.get_running_loop().sock_recv(theirs, 1 << 20))
    assert received[-2].kind == MessageKind.LOST
    end.bus.close()
    theirs.close()
