"""The mesh over real sockets: several processes' ends in one event loop, and a directory in memory between them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import pytest
from slowness import scaled
from wire_peers import Ear

from engine.model.commit_report import CommitReport
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.queue import QueueName
from engine.store.proxy_directory import ProxyEntry
from proxy.cluster import mesh as mesh_module
from proxy.cluster import peer_handshake, peer_link
from proxy.cluster.mesh import Mesh, MeshAddress
from proxy.cluster.messages import Framer, MessageKind, encode, report_body
from proxy.cluster.peer_links import PeerEvents
from proxy.cluster.peer_login import HELLO_BYTES, REPLY_BYTES, Hello, Keys, Seal, Unseal, nonce_of
from proxy.transport.addresses import Address

Q = QueueName("d", "q")
SOME = CommitReport(touched=frozenset((Q,)))


class Directory:
    """What the table is, for as many as share it."""

    def __init__(self) -> None:
        self.rows: dict[int, ProxyEntry] = {}
        self.error: BackendError | None = None
        self.reads = 0
        self.server = "one"

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    async def join(self, entry: ProxyEntry) -> ProxyEntry:
        self._check()
        entry = dataclasses.replace(entry, number=max(self.rows, default=0) + 1, server=self.server)
        self.rows[entry.number] = entry
        return entry

    async def beat(self, me: ProxyEntry) -> tuple[ProxyEntry, list[ProxyEntry]]:
        self._check()
        self.rows[me.number] = me
        return me, await self.others(me)

    async def others(self, me: ProxyEntry) -> list[ProxyEntry]:
        self._check()
        self.reads += 1
        return [row for row in self.rows.values() if row.number != me.number]

    async def fence(self, me: ProxyEntry, linked: Any) -> list[str]:
        self._check()
        return []

    async def leave(self, me: ProxyEntry) -> None:
        self._check()
        del self.rows[me.number]


class End(Ear):
    """One process."""

    def __init__(self, directory: Any, name: str, worker: int = 0, shared: str = "") -> None:
        super().__init__()
        hearing = PeerEvents(
            lambda report: self.received.put_nowait(("commits", report)),
            lambda: self.received.put_nowait(("lost",)),
            lambda number, query: self.received.put_nowait(("kill", number, query)),
            self._answer,
            self.members,
        )
        self.mesh = Mesh(directory, MeshAddress(Address("127.0.0.1", 0), None, name, worker, shared), hearing)

    async def open(self) -> End:
        await self.mesh.open()
        return self


async def until(condition, what: str) -> None:
    async with asyncio.timeout(scaled(8)):
        while not condition():
            await asyncio.sleep(0)


async def linked(*ends: End) -> None:
    await until(lambda: all(len(end.mesh.links.by_number) == len(ends) - 1 for end in ends), "all links")
    for end in ends:
        while not end.received.empty():
            assert end.received.get_nowait() == ("lost",)


@pytest.fixture
async def directory() -> AsyncIterator[Directory]:
    yield Directory()


@pytest.fixture
async def three(directory) -> AsyncIterator[tuple[End, End, End]]:
    ends = (End(directory, "a"), End(directory, "b"), End(directory, "c"))
    for end in ends:
        await end.open()
        await until(lambda end=end: end.mesh._me is not None, "the table to be written")
    await linked(*ends)
    yield ends
    for end in ends:
        await end.mesh.close()


async def test_everybody_else_hears_a_word(three):
    one, two, third = three
    report = CommitReport(settled={Q: (1, "a", b"\xff")})
    one.mesh.links.committed(report)
    assert await two.next() == await third.next() == ("commits", report)
    third.mesh.links.kill(7, True)
    assert await one.next() == await two.next() == ("kill", 7, True)
    assert third.received.empty()


async def test_a_question_is_answered_by_everybody_else(three):
    one, two, third = three
    two.answers["?"] = [["x" * 1000, n] for n in range(300)]  # more than one word holds
    third.answers["?"] = [["three", 3]]
    items = await one.mesh.query("?")
    assert sorted(map(tuple, items)) == sorted([("x" * 1000, n) for n in range(300)] + [("three", 3)])


async def test_a_proxy_that_ends_is_not_waited_for_and_its_last_words_arrive(three, directory):
    one, two, third = three
    two.answers["?"] = [["two"]]
    third.answers["?"] = asyncio.Event()
    asking = asyncio.create_task(one.mesh.query("?"))
    await until(lambda: len(one.mesh.links.questions), "the question")
    third.mesh.links.committed(SOME)
    third.mesh.links.committed(SOME)
    await third.mesh.close()
    assert await asyncio.wait_for(asking, 1) == [["two"]]
    assert [await one.next() for _ in range(3)] == [("commits", SOME), ("commits", SOME), ("lost",)]
    assert third.mesh.links.by_number == {} and len(directory.rows) == 2


async def test_a_link_that_breaks_is_made_again_and_both_look(three):
    one, two, _ = three
    (link,) = (link for link in one.mesh.links.by_number.values() if link.peer.proxy == "b")
    link.abort()
    await until(lambda: one.mesh.links.by_number.get(link.peer.number) not in (None, link), "another link")
    assert [await one.next() for _ in range(2)] == [("lost",)] * 2
    assert await two.next() == ("lost",)


async def test_one_whose_number_another_has_is_linked_anew(three, directory):
    """As after DROP TABLE: the database numbers from the beginning."""
    one, two, three_ = three
    beat = directory.beat

    async def renumbered(me: ProxyEntry) -> tuple[ProxyEntry, list[ProxyEntry]]:
        if me.proxy == "a" and me.number == 1:
            del directory.rows[1]
            me = dataclasses.replace(me, number=9)
        return await beat(me)

    directory.beat = renumbered
    await one.mesh._beat()
    await until(lambda: {2, 3} == set(one.mesh.links.by_number), "its links")
    for other in (two, three_):
        await other.mesh._beat()
        await until(lambda other=other: 9 in other.mesh.links.by_number, "the number of now")
        assert 1 not in other.mesh.links.by_number
    assert two.mesh.leads and not one.mesh.leads


async def test_one_that_is_linked_while_its_row_is_old_stops_nothing(three, directory):
    one, _, _ = three
    row = directory.rows.pop(2)
    one.mesh._entries.pop(2)  # it was gone when the table was read, and linked before the next time
    directory.beat = lambda me: directory_without(directory, me)
    await one.mesh._beat()
    assert 2 in one.mesh.links.by_number and one.mesh.running
    directory.rows[2] = row


async def directory_without(directory: Directory, me: ProxyEntry) -> tuple[ProxyEntry, list[ProxyEntry]]:
    return me, await directory.others(me)


async def test_the_first_that_came_leads(three):
    one, two, third = three
    assert [end.mesh.leads for end in three] == [True, False, False]
    await one.mesh.close()
    await until(lambda: two.mesh.leads, "another leader")
    assert not third.mesh.leads


async def test_one_that_is_linked_but_not_seen_in_the_table_does_not_lead(three, directory):
    one, two, third = three
    row = directory.rows.pop(one.mesh._me.number)  # it cannot renew it
    for end in (two, third):
        await end.mesh._read()
    assert [end.mesh.leads for end in (two, third)] == [True, False]
    assert len(two.mesh.links.by_number) == len(third.mesh.links.by_number) == 2
    directory.rows[row.number] = row
    for end in (two, third):
        await end.mesh._read()
    assert [end.mesh.leads for end in three] == [True, False, False]


async def test_ids_of_connections_count_at_the_same_server_only(directory):
    one = await End(directory, "a").open()
    await until(lambda: one.mesh._me, "the first")
    directory.server = "two"
    other = await End(directory, "b").open()
    await linked(one, other)
    other.answers["?"] = [["b"]]
    assert await one.mesh.query("?", same_server=True) == []
    assert await one.mesh.query("?") == [["b"]]
    one.mesh.links.kill(1, False)
    one.mesh.links.committed(SOME)
    assert await other.next() == ("commits", SOME)
    for end in (one, other):
        await end.mesh.close()


async def test_workers_of_one_proxy_are_not_linked(directory):
    ends = [await End(directory, "a", worker).open() for worker in range(2)]
    await until(lambda: len(directory.rows) == 2, "both")
    other = await End(directory, "b").open()
    await until(lambda: len(other.mesh.links.by_number) == 2, "links to both")
    await until(lambda: [len(end.mesh.links.by_number) for end in ends] == [1, 1], "their ends of them")
    for end in (*ends, other):
        await end.mesh.close()


async def test_who_has_another_shared_secret_is_kept_out(directory, caplog):
    one = await End(directory, "a", shared="right").open()
    await until(lambda: one.mesh._me, "the first")
    other = await End(directory, "b", shared="wrong").open()
    await until(lambda: "does not know the secrets" in caplog.text, "the refusal")
    assert one.mesh.links.by_number == other.mesh.links.by_number == {}
    for end in (one, other):
        await end.mesh.close()


async def test_no_table_is_said_once_and_made_good_later(directory, caplog, monkeypatch):
    monkeypatch.setattr(mesh_module, "_RETRY_SECONDS", 0.01)
    directory.error = BackendError("CREATE command denied", 1142, "42000")
    one = await End(directory, "a").open()
    await until(lambda: "safety scans only" in caplog.text, "the complaint")
    one.mesh.links.committed(SOME)
    directory.error = None
    await until(lambda: one.mesh._me, "the row")
    assert caplog.text.count("safety scans only") == 1
    directory.error = BackendUnavailable("gone")
    await one.mesh.close()


class Stranger:
    """Somebody who can reach the port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def at(cls, end: End) -> Stranger:
        await until(lambda: end.mesh._me and end.mesh._servers, "somebody to listen")
        host, _, port = end.mesh._me.address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def log_in(self, end: End, row: ProxyEntry) -> tuple[Seal, Unseal]:
        """As who has read the table can."""
        me = end.mesh._me
        hello = Hello.make(row.number, me.number)
        self.writer.write(hello.data())
        packet = await self.reader.readexactly(REPLY_BYTES)
        keys = Keys.derive(hello, nonce_of(packet), row.secret, me.secret, "")
        self.writer.write(keys.dialer_proof)
        await until(lambda: row.number in end.mesh.links.by_number, "the link")
        return Seal(keys.to_listener), Unseal(keys.to_dialer)

    async def leave(self) -> bool:
        self.writer.close()
        await self.writer.wait_closed()
        return True

    async def is_cut_off(self) -> bool:
        try:
            async with asyncio.timeout(scaled(8)):
                while await self.reader.read(1000):
                    pass
        except ConnectionError:
            pass
        self.writer.close()
        return True


@pytest.fixture
async def alone(directory) -> AsyncIterator[End]:
    end = await End(directory, "a").open()
    await until(lambda: end.mesh._servers, "it to listen")
    yield end
    await end.mesh.close()


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n" * 10, bytes(HELLO_BYTES), Hello(9, 99, bytes(32)).data()])
async def test_who_does_not_greet_as_a_proxy_is_cut_off(alone, said):
    stranger = await Stranger.at(alone)
    stranger.writer.write(said)
    assert await stranger.is_cut_off()
    assert not alone.mesh._unauthenticated and not alone.mesh.links.by_number


async def test_a_number_that_is_in_no_row_is_cut_off_and_costs_one_look_a_second(alone, directory):
    before = directory.reads
    strangers = [await Stranger.at(alone) for _ in range(5)]
    for stranger in strangers:
        stranger.writer.write(Hello.make(12345, alone.mesh._me.number).data())
    assert await strangers[0].is_cut_off()
    assert directory.reads - before <= 2
    for stranger in strangers:
        stranger.writer.close()


async def test_a_wrong_proof_is_cut_off(alone, directory):
    row = await directory.join(ProxyEntry("x", 0, "127.0.0.1:1", "its secret"))
    stranger = await Stranger.at(alone)
    hello = Hello.make(row.number, alone.mesh._me.number)
    stranger.writer.write(hello.data())
    await stranger.reader.readexactly(REPLY_BYTES)
    stranger.writer.write(bytes(32))
    assert await stranger.is_cut_off()
    assert not alone.mesh.links.by_number


async def test_who_says_nothing_is_cut_off(alone, monkeypatch):
    monkeypatch.setattr(peer_handshake, "HANDSHAKE_SECONDS", 0.05)
    assert await (await Stranger.at(alone)).is_cut_off()


async def test_strangers_are_bounded_and_the_oldest_goes(alone):
    alone.mesh._unauthenticated._most = 2
    first = await Stranger.at(alone)
    await until(lambda: len(alone.mesh._unauthenticated) == 1, "one to be let in")
    kept = [await Stranger.at(alone) for _ in range(2)]
    assert await first.is_cut_off()
    assert len(alone.mesh._unauthenticated) == 2
    for stranger in kept:
        stranger.writer.close()
    await until(lambda: not alone.mesh._unauthenticated, "them to go")


async def test_no_crowd_of_strangers_keeps_a_proxy_from_linking(alone, directory, monkeypatch):
    """Half of them are silent, half name numbers that are in no row; none is ever cut off for being slow."""
    monkeypatch.setattr(peer_handshake, "HANDSHAKE_SECONDS", 3600.0)
    strangers = []
    for number in range(2 * mesh_module.UNAUTHENTICATED_MAX):
        strangers.append(await Stranger.at(alone))
        if number % 2:
            strangers[-1].writer.write(Hello.make(10_000 + number, alone.mesh._me.number).data())
    assert len(alone.mesh._unauthenticated) <= mesh_module.UNAUTHENTICATED_MAX
    # The proxies might find each other the other way round, so that alone does not show who has given way.
    assert await strangers[0].is_cut_off(), "the oldest of the silent ones makes room"
    other = await End(directory, "b").open()
    await linked(alone, other)
    await other.mesh.close()
    for stranger in strangers:
        stranger.writer.close()


@pytest.mark.parametrize(
    "word",
    [
        encode(MessageKind.COMMITS, ["no report"]),
        encode(MessageKind.COMMITS, {"t": 7, "s": [], "u": []}),
        encode(MessageKind.COMMITS, {"t": [], "s": [["d", "q", [True]]], "u": []}),
        encode(MessageKind.KILL, [1, 2, 3]),
        encode(MessageKind.KILL, [None, None]),
        encode(MessageKind.ANSWER, [1, 7, False]),
        encode(MessageKind.ASK, [1]),
        encode(MessageKind.COMMITS)[:-4] + b"{{{{",
        b"\xff" * 100,
    ],
)
async def test_a_word_that_is_none_ends_the_link_and_nothing_else(alone, directory, word, caplog):
    row = await directory.join(ProxyEntry("x", 0, "127.0.0.1:1", "its secret"))
    stranger = await Stranger.at(alone)
    seal, _ = await stranger.log_in(alone, row)
    stranger.writer.write(seal.close(word))
    assert await stranger.is_cut_off()
    assert alone.mesh.links.by_number == {} and alone.mesh.running
    assert [await alone.next() for _ in range(2)] == [("lost",)] * 2
    assert "Traceback" not in caplog.text


async def test_a_peer_that_does_not_read_costs_bounded_memory_and_is_told(alone, directory, monkeypatch):
    monkeypatch.setattr(peer_link, "UNSENT_MAX_BYTES", 100_000)
    row = await directory.join(ProxyEntry("x", 0, "127.0.0.1:1", "its secret"))
    stranger = await Stranger.at(alone)
    _, unseal = await stranger.log_in(alone, row)
    stranger.writer.transport.pause_reading()
    link = alone.mesh.links.by_number[row.number]
    long = QueueName("d", "q" * 1000)
    while not link.dropped:
        link.send(MessageKind.COMMITS, report_body(CommitReport(touched=frozenset((long,)))))
        await asyncio.sleep(0)
    for _ in range(1000):
        link.send(MessageKind.COMMITS, report_body(CommitReport(touched=frozenset((long,)))))
    assert link._transport.get_write_buffer_size() <= 102_000
    stranger.writer.transport.resume_reading()
    framer, kinds = Framer(), []
    async with asyncio.timeout(scaled(8)):
        while MessageKind.KILL not in kinds:
            data = await stranger.reader.read(1 << 20)
            kinds += [frame.kind for record in unseal.feed(data) for frame in framer.feed(record)]
            if not link._transport.get_write_buffer_size():
                link.send(MessageKind.KILL, [1, True])
    at = kinds.index(MessageKind.KILL)
    assert kinds[at - 2 : at] == [MessageKind.LOST, MessageKind.MEMBERS]
    assert await stranger.leave()


async def test_silence_ends_a_link(three):
    one, _, _ = three
    (link,) = (link for link in one.mesh.links.by_number.values() if link.peer.proxy == "b")
    link._last_received_at -= peer_link.SILENCE_SECONDS + 1
    link._ping()
    await until(lambda: one.mesh.links.by_number.get(link.peer.number) not in (None, link), "another link in its place")
    assert link.ended.done()
