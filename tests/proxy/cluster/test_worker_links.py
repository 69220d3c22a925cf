"""Links between workers over real sockets: two or three workers' ends in one event loop."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable

import pytest
from slowness import scaled
from wire_peers import Ear

from engine.model.commit_report import CommitReport
from engine.model.queue import QueueName
from engine.store.proxy_directory import ProxyEntry
from proxy.cluster import peer_link, worker_links
from proxy.cluster import questions as questions_module
from proxy.cluster.messages import Framer, MessageKind, encode
from proxy.cluster.peer_link import PeerLink
from proxy.cluster.peer_links import PeerEvents, PeerLinks
from proxy.cluster.worker_links import WorkerLinks, listening
from proxy.listen.listener import WorkerSlot
from proxy.listen.shared_counts import SharedCounts

Q = QueueName("d", "q")


class End(Ear):
    """One worker."""

    def __init__(self, proxy: Proxy, number: int) -> None:
        super().__init__()
        self.proxy, self.number = proxy, number
        self.events = PeerEvents(
            lambda report: self.received.put_nowait(("commits", report)),
            lambda: self.received.put_nowait(("lost",)),
            lambda number, query: self.received.put_nowait(("kill", number, query)),
            self._answer,
            self.members,
            lambda source, good: self.received.put_nowait(("login", source, good)),
        )
        self.tally = proxy.counts.of(number)
        # A worker's inherited sockets are its own, as after a fork.
        self.slot = WorkerSlot((), self.tally, number, [each.dup() for each in proxy.listening])
        self.workers = WorkerLinks(self.slot, self.events)

    @property
    def links(self) -> PeerLinks:
        return self.workers.links

    async def open(self) -> End:
        """It is there, links to the others, and has heard of nothing yet."""
        self.tally.set_process(1000 + self.number)
        self.proxy.dialing = 1000 + self.number
        await self.workers.open()
        return self

    async def die(self) -> None:
        """Its sockets are closed by the kernel, its counts by the supervisor."""
        await self.workers.close()
        self.proxy.counts.clear(self.number)
        for each in self.slot.links:
            each.close()

    def login(self, source: str, good: bool) -> None:
        self.links.broadcast(MessageKind.LOGIN, [source, good])


class Proxy:
    """What the workers of one proxy have in common. All are in one process here: who dials is said."""

    def __init__(self, workers: int) -> None:
        self.counts = SharedCounts(workers)
        self.listening = listening(workers)
        self.dialing = 0
        self.ends: list[End] = []

    async def start(self, number: int) -> End:
        self.ends.append(await End(self, number).open())
        return self.ends[-1]

    async def end(self) -> None:
        for end in self.ends:
            await end.die()
        for each in self.listening:
            each.close()


async def until(condition: Callable[[], object], what: str) -> None:
    async with asyncio.timeout(scaled(8)):
        while not condition():
            await asyncio.sleep(0)


def heard_of_links(*ends: End) -> None:
    for end in ends:
        while not end.received.empty():
            assert end.received.get_nowait() == ("lost",)


@pytest.fixture
async def proxy(monkeypatch) -> AsyncIterator[Proxy]:
    made = Proxy(3)
    monkeypatch.setattr(worker_links, "process_of", lambda sock: made.dialing)
    monkeypatch.setattr(worker_links, "LINK_SECONDS", scaled(8))
    yield made
    await made.end()


@pytest.fixture
async def three(proxy) -> tuple[End, End, End]:
    ends = (await proxy.start(0), await proxy.start(1), await proxy.start(2))
    assert [sorted(end.links.by_number) for end in ends] == [[1, 2], [0, 2], [0, 1]]
    heard_of_links(*ends)
    return ends


def touched(*names: str) -> CommitReport:
    return CommitReport(touched=frozenset(QueueName("d", name) for name in names))


async def test_everybody_else_hears_a_word(three):
    one, two, third = three
    one.links.committed(CommitReport(settled={Q: (1, "a", b"\xff")}))
    two.login("10.0.0.1", False)
    third.links.kill(7, True)
    assert {str(await one.next()) for _ in range(2)} == {str(("login", "10.0.0.1", False)), str(("kill", 7, True))}
    received = [await two.next() for _ in range(2)]
    assert ("commits", CommitReport(settled={Q: (1, "a", b"\xff")})) in received
    assert ("kill", 7, True) in received
    assert one.received.empty()


async def test_reports_of_a_moment_go_together(three):
    one, two, _ = three
    for number in range(100):
        one.links.committed(touched(f"q{number}"))
    assert await two.next() == ("commits", touched("q0"))  # the first at once
    kind, rest = await two.next()
    assert kind == "commits"
    assert rest == touched(*(f"q{number}" for number in range(1, 100)))
    assert two.received.empty()


async def test_a_question_is_answered_by_everybody_else(three):
    one, two, third = three
    two.answers["?"] = [["x" * 1000, n] for n in range(300)]  # more than one word holds
    third.answers["?"] = [["three", 3]]
    items = await one.workers.query("?")
    assert sorted(map(tuple, items)) == sorted([("x" * 1000, n) for n in range(300)] + [("three", 3)])


async def test_who_does_not_answer_is_left_out(three, monkeypatch, caplog):
    monkeypatch.setattr(questions_module, "ANSWER_SECONDS", 0.2)
    one, two, third = three
    two.answers["?"] = [["two"]]
    third.answers["?"] = asyncio.Event()
    assert await one.workers.query("?") == [["two"]]
    assert "no answer from other workers" in caplog.text
    third.answers["?"].set()


async def test_who_cannot_answer_says_so_at_once(three, caplog):
    one, two, _third = three
    two.answers["?"] = [["two"]]
    async with asyncio.timeout(scaled(1)):
        assert await one.workers.query("?") == [["two"]]  # the third knows no such question
    assert "was not answered" in caplog.text


async def test_a_worker_that_dies_is_not_waited_for(three):
    one, two, third = three
    two.answers["?"] = [["two"]]
    third.answers["?"] = asyncio.Event()
    asking = asyncio.create_task(one.workers.query("?"))
    await until(lambda: len(one.links.questions), "the question")
    await third.die()
    async with asyncio.timeout(scaled(1)):
        assert await asking == [["two"]]
    assert await one.next() == ("lost",)
    assert one.workers.others == {1}


@pytest.mark.parametrize("number", [0, 1])
async def test_a_worker_that_is_started_again_is_linked_again(proxy, number):
    two = (await proxy.start(0), await proxy.start(1))
    other = two[1 - number]
    await two[number].die()
    await until(lambda: not other.links.by_number, "the link to end")
    proxy.dialing = 1001
    new = End(proxy, number)
    new.tally.set_process(1000 + number)
    proxy.ends.append(new)
    await new.workers.open()
    await until(lambda: number in other.links.by_number, "the other's end")
    heard_of_links(new, other)
    new.login("h", True)
    assert await other.next() == ("login", "h", True)


async def test_a_worker_that_is_there_and_not_linked_yet_is_asked_when_it_is(proxy):
    one = await proxy.start(0)
    two = End(proxy, 1)
    two.answers["?"] = [["two"]]
    two.tally.set_process(1001)
    asking = asyncio.create_task(one.workers.query("?"))
    await until(lambda: len(one.links.questions), "the question")
    proxy.ends.append(await two.open())
    assert await asking == [["two"]]


async def test_one_that_hangs_keeps_no_start_waiting(proxy, monkeypatch):
    monkeypatch.setattr(worker_links, "LINK_SECONDS", 0.05)
    proxy.counts.of(0).set_process(1000)
    other = await proxy.start(1)
    assert not other.links.by_number and other.workers.others == {0}


async def test_alone_nobody_is_told(proxy):
    end = await proxy.start(0)
    assert await end.workers.query("?") == []
    end.links.committed(touched("q"))
    assert end.links._commit_batcher.idle


async def test_another_process_is_cut_off(three):
    one, _, _ = three
    one.proxy.dialing = 4711
    stranger = socket.socket(socket.AF_UNIX)
    stranger.setblocking(False)
    stranger.connect(one.proxy.listening[0].getsockname())
    async with asyncio.timeout(scaled(5)):
        assert await asyncio.get_running_loop().sock_recv(stranger, 10) == b""
    stranger.close()
    assert sorted(one.links.by_number) == [1, 2]


def test_the_kernel_names_the_process_that_dials():
    (listener,) = listening(1)
    with listener, socket.socket(socket.AF_UNIX) as dialer:
        dialer.connect(listener.getsockname())
        with listener.accept()[0] as accepted:
            assert worker_links.process_of(accepted) == os.getpid()


@pytest.mark.parametrize(
    "word",
    [
        encode(MessageKind.COMMITS, ["no report"]),
        encode(MessageKind.KILL, [1, 2, 3]),
        b"\xff" * 100,
    ],
)
async def test_nonsense_ends_the_link_which_is_made_again(three, word, caplog):
    one, two, _ = three
    link = one.links.by_number[1]
    assert link._transport is not None
    one.proxy.dialing = 1001
    link._transport.write(word)
    await until(lambda: one.links.by_number.get(1) not in (None, link), "another link")
    await until(lambda: 0 in two.links.by_number, "its other end")
    one.login("h", True)
    assert [await two.next() for _ in range(3)] == [("lost",), ("lost",), ("login", "h", True)]
    assert "link to another worker ended" in caplog.text


async def test_a_link_that_takes_nothing_drops_words_and_says_so(monkeypatch):
    monkeypatch.setattr(peer_link, "UNSENT_MAX_BYTES", 100_000)
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    loop = asyncio.get_running_loop()
    proxy = Proxy(1)
    proxy.ends.append(End(proxy, 0))
    links = proxy.ends[0].links
    _, link = await loop.create_unix_connection(lambda: PeerLink(links, ProxyEntry("p", 1, "", "", 1)), sock=ours)
    for _ in range(20_000):
        link.send(MessageKind.LOGIN, ["h" * 100, False])
    assert link._transport is not None
    assert link._transport.get_write_buffer_size() <= 101_000
    framer, received = Framer(), []
    async with asyncio.timeout(scaled(5)):
        while not received or received[-1].kind != MessageKind.MEMBERS:
            received += framer.feed(await loop.sock_recv(theirs, 1 << 20))
    assert received[-2].kind == MessageKind.LOST, "as soon as there is room, whatever follows"
    link.close()
    theirs.close()
    await proxy.end()
