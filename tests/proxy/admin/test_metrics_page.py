"""The page at /metrics, and rows of the system tables as SQL: pure, from values."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from memory_store import make_spec
from prometheus_client.parser import text_string_to_metric_families
from virtual_time import in_virtual_time, pass_time
from world import World, world

from engine.background.surveyor import Survey
from engine.delivery.metrics import DELAY_BOUNDS, Delays
from engine.history.writer import HistoryState
from engine.model.key_range import SLOT_COLUMN, read_key_range
from engine.model.options import QueueOptions
from engine.model.queue import (
    ColumnMeta,
    Message,
    QueueCatalog,
    QueueName,
    QueueSpec,
    QueueStatus,
    SubscriptionStatus,
    of_key_range,
)
from engine.model.topics import GroupLag, TopicExtent
from engine.store.census import Census
from engine.topics.gauges import Gauges
from proxy.admin import server
from proxy.admin.http import Response
from proxy.admin.metrics_page import Facts, ProxyFacts, lines
from proxy.cluster import worker_links
from proxy.cluster.peers import LinkedNeighbours, Peers
from proxy.cluster.registry import ConnectionRegistry
from proxy.cluster.reports import WorkerReport, report_items, reports_of, summed
from proxy.config import Limits
from proxy.listen.admission import Admission
from proxy.listen.listener import WorkerSlot
from proxy.listen.shared_counts import SharedCounts
from proxy.login.client_tls import ClientTls
from proxy.show.status_tables import FIELDS
from proxy.show.system_information import derived_table
from rewriter.views import View

SMALLINT, UNSIGNED = 2, 0x20  # the protocol's
NAME, DEAD, ODD = QueueName("shop", "orders"), QueueName("shop", "orders_dead"), QueueName("shop", 'o"d\\d')
CATALOG = QueueCatalog(1, {name: QueueSpec(name, QueueOptions(), (), ("id",)) for name in (NAME, DEAD, ODD)})
COUNTS = tuple([3, 2] + [0] * (len(DELAY_BOUNDS) - 2) + [1])


def report(worker: int, sent: int) -> WorkerReport:
    return WorkerReport(worker, 2, 1, 1 << 20, 0.5, [QueueStatus(NAME, 1, 0, 0, {"sent": sent}, COUNTS, 1.25)])


def samples(facts: Facts) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families("".join(lines(facts)))
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def labels(**given: str) -> frozenset[tuple[str, str]]:
    return frozenset({"database": "shop", "queue": "orders", **given}.items())


def test_workers_have_series_of_their_own_and_tables_one() -> None:
    surveys = {
        NAME: Survey(Census(ready=4, acked=2, oldest_ready_age=1.5, bounded=True)),
        DEAD: Survey(Census(ready=7)),
    }
    told = samples(Facts([report(0, 5), report(1, 6)], surveys, CATALOG, "1.2", missing=1))
    assert told["queuegate_queue_sent_total", labels(worker="0")] == 5
    assert told["queuegate_queue_sent_total", labels(worker="1")] == 6
    assert told["queuegate_queue_messages", labels(state="ready")] == 4
    assert told["queuegate_queue_messages", labels(state="dead")] == 7
    assert told["queuegate_queue_oldest_ready_age_seconds", labels()] == 1.5
    assert told["queuegate_queue_counted", labels()] == 0
    assert told["queuegate_workers_missing", frozenset()] == 1
    assert told["queuegate_queue_counted", frozenset({("database", "shop"), ("queue", 'o"d\\d')})] == -1


def test_buckets_are_cumulative() -> None:
    told = samples(Facts([report(0, 6)], {}, CATALOG, "1.2"))
    name = "queuegate_queue_delivery_delay_seconds"
    assert told[f"{name}_bucket", labels(worker="0", le="0.001")] == 3
    assert told[f"{name}_bucket", labels(worker="0", le="0.0025")] == 5
    assert told[f"{name}_bucket", labels(worker="0", le="+Inf")] == told[f"{name}_count", labels(worker="0")] == 6
    assert told[f"{name}_sum", labels(worker="0")] == 1.25


def test_delays_are_those_of_first_deliveries_with_a_time() -> None:
    delays, now = Delays(), 1_700_000_000_000_000_000
    waited = {1: (1, 0), 2: (1, 2_000_000), 3: (2, 9_000_000), 4: (1, now)}
    delays.leased(
        [Message(id_, epoch, 0, now - ago, now + 1, ()) for id_, (epoch, ago) in waited.items()], now
    )  # the third is a repeated one, the fourth was made due "for ever"
    assert sum(delays.counts) == 2 and delays.counts[:2] == [1, 1]
    assert delays.total_ns == 2_000_000


def test_reports_travel_and_add_up() -> None:
    one, other = report(0, 5), report(1, 6)
    assert reports_of([*report_items(one), *report_items(other)]) == [one, other]
    both = summed(one.queues[0], other.queues[0])
    assert (both.subscribers, both.counters["sent"], both.delay_seconds) == (2, 11, 2.5)
    assert both.delays == tuple(2 * n for n in COUNTS)


def test_values_are_written_so_that_no_mode_reads_them_otherwise() -> None:
    fields = FIELDS[View.SUBSCRIPTIONS]
    row = ("it's", "back\\slash", 7, "größe", "plain text", *(None,) * (len(fields) - 5))
    sql = derived_table(View.SUBSCRIPTIONS, [row])
    assert "'it" not in sql and "\\" not in sql and sql.isascii()
    assert "CONVERT(X'69742773' USING utf8mb4)" in sql
    assert "'plain text'" in sql
    assert ", NULL, " in sql and ", 7, " in sql


def test_groups_have_series_by_topic() -> None:
    topic = QueueName("shop", "log")
    queue = QueueSpec(QueueName("shop", "log_group_g"), QueueOptions(topic="log", consumer_group="g"), (), ("id",))
    catalog = QueueCatalog(1, {queue.name: queue})
    gauges = Gauges({topic: TopicExtent(3, 9, 6, None, 2)}, {queue.name: GroupLag(4, 5, False, 1)})
    reports = [WorkerReport(n, 1, 1, 1, 0.5, [QueueStatus(queue.name, 1 + n, 0, 0, {}, COUNTS)]) for n in range(2)]
    surveys = {queue.name: Survey(Census(ready=2, in_flight=1))}
    told = samples(Facts(reports, surveys, catalog, "1.2", gauges=gauges))
    of_topic = frozenset({("database", "shop"), ("topic", "log")})
    of_group = of_topic | {("group", "g")}
    assert told["queuegate_topic_last_offset", of_topic] == 9
    assert told["queuegate_topic_messages", of_topic] == 6
    assert not any(name == "queuegate_topic_bytes" for name, _ in told)  # where the database does not say it
    expected = {"unread": 5, "oldest_unread_age_seconds": 0, "holes": 1, "ready": 2, "in_flight": 1}
    assert {name: told[f"queuegate_group_{name}", of_group] for name in expected} == expected
    assert [told["queuegate_group_members", of_group | {("worker", str(n))}] for n in range(2)] == [1, 2]


def test_what_the_proxy_knows_of_itself() -> None:
    nothing: frozenset[tuple[str, str]] = frozenset()
    proxy = ProxyFacts(True, False, 1000, 2, 3, 4, 1.8e9)
    told = samples(Facts([report(0, 5)], {}, CATALOG, "1.2", proxy=proxy))
    expected = {
        "ready": 1,
        "database_up": 0,
        "connections_limit": 1000,
        "connections_refused_total": 2,
        "login_failures_total": 3,
        "worker_restarts_total": 4,
        "tls_certificate_expiry_timestamp_seconds": 1.8e9,
    }
    assert {name: told[f"queuegate_{name}", nothing] for name in expected} == expected
    bare = samples(Facts([], {}, CATALOG, "1.2", proxy=ProxyFacts(True, True, 1000)))
    assert ("queuegate_tls_certificate_expiry_timestamp_seconds", nothing) not in bare


def test_schedules_are_told_by_the_worker_that_sends() -> None:
    sends, other = report(0, 5), report(1, 6)
    sends.schedules_overdue = {"shop": 7.5}
    assert reports_of([*report_items(sends), *report_items(other)]) == [sends, other]
    told = samples(Facts([other, sends], {}, CATALOG, "1.2"))
    assert told["queuegate_schedule_overdue_seconds", frozenset({("database", "shop")})] == 7.5


def test_each_metric_is_one_block_with_one_head():
    reports = [report(worker, 5) for worker in range(3)]
    text = "".join(lines(Facts(reports, {ODD: Survey(Census(ready=4))}, CATALOG, "1.2")))
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names)) == text.count("# HELP ")
    current = ""
    for line in text.splitlines():
        if line.startswith("#"):
            current = line.split()[2]
        else:
            name = re.split("[{ ]", line)[0]
            assert name in (current, f"{current}_bucket", f"{current}_count", f"{current}_sum"), line


async def test_a_page_gives_way_to_deliveries_while_it_is_written(monkeypatch):
    monkeypatch.setattr(server, "SLICE_SECONDS", 0.0)
    turns: list[int] = []
    made: list[int] = []

    async def deliver() -> None:
        while len(made) < 100:
            turns.append(len(made))
            await asyncio.sleep(0)

    def page() -> Iterator[str]:
        for n in range(100):
            made.append(n)
            yield f"{n} é\n"

    delivering = asyncio.create_task(deliver())
    assert await server.written(page()) == "".join(f"{n} é\n" for n in range(100)).encode()
    await delivering
    assert len(turns) > 90, "after every line"


async def test_who_asks_while_a_page_is_made_gets_the_same_page():
    unused: Any = None
    admin = server.AdminServer(unused, unused, unused, unused, "1", lambda: False)
    made, ready = 0, asyncio.Event()

    async def metrics() -> Response:
        nonlocal made
        made += 1
        await ready.wait()
        return Response(200, b"%d" % made)

    admin._metrics = metrics  # type: ignore[method-assign]
    scrapes = [asyncio.create_task(admin.answer("/metrics")) for _ in range(5)]
    await asyncio.sleep(0)
    scrapes[0].cancel()
    ready.set()
    bodies = [(await scrape).body for scrape in scrapes[1:]]
    assert bodies == [b"1"] * 4
    assert (await admin.answer("/metrics")).body == b"2", "the next one is made anew"


class _Alone:
    """The peers of a process that has none."""

    def __init__(self, of: World) -> None:
        self._world = of

    async def reports(self) -> tuple[list[WorkerReport], int]:
        return [], 0

    async def histories(self) -> dict[QueueName, HistoryState]:
        return {}

    async def subscriptions(self) -> list[SubscriptionStatus]:
        return self._world.engine.subscriptions()


@in_virtual_time
async def test_a_database_that_hangs_is_reported_in_time() -> None:
    """Also where streams leave parts of the rings of several queues to nobody."""
    slot = ColumnMeta(SLOT_COLUMN, SMALLINT, flags=UNSIGNED)
    plain = [make_spec(QueueName("main", f"q{n}"), sharding_key="payload") for n in range(10)]
    specs = [replace(one, generated=frozenset((SLOT_COLUMN,)), columns=(*one.columns, slot)) for one in plain]
    async with world(*specs) as w:
        for spec in specs:
            await w.receive(spec.name, condition=of_key_range(read_key_range("", "-80")))
        admission = Admission(Limits(), SharedCounts().of(0), lambda: 0.0)
        peers: Any = _Alone(w)
        admin = server.AdminServer(w.engine, peers, admission, ClientTls(), "1", lambda: False)

        async def read() -> str:
            began = w.time
            page = await admin.answer("/metrics")
            assert w.time - began <= server.PAGE_SECONDS
            return page.body.decode()

        assert (await read()).count("queuegate_queue_uncovered{") == len(specs)
        await pass_time(60)
        w.store.latency = 60.0
        assert "queuegate_database_up 0\n" in await read()
        w.store.latency = 0.0
        await pass_time(600)


async def test_a_worker_that_is_not_there_is_missing_unless_the_proxy_ends() -> None:
    stopping, (supervisor, end) = False, socket.socketpair()
    links, counts = worker_links.listening(2), SharedCounts(2)
    async with world() as w:
        slot = WorkerSlot((), counts.of(0), 0, links, supervisor=supervisor)
        admission = Admission(Limits(), slot.tally, w.clock.monotonic)
        peers = Peers(ConnectionRegistry(1), w.engine, slot, LinkedNeighbours())
        await peers.join(admission, lambda: None)
        admin = server.AdminServer(w.engine, peers, admission, ClientTls(), "1", lambda: stopping)
        assert await admin.answer("/healthz") == Response(503, b"1 of 2 workers do not answer\n")
        assert b"queuegate_workers_missing 1\n" in (await admin.answer("/metrics")).body
        stopping = True
        assert (await admin.answer("/healthz")).status == 200
        assert b"queuegate_workers_missing 0\n" in (await admin.answer("/metrics")).body
        await peers.close()
    for each in (supervisor, end, *links):
        each.close()
