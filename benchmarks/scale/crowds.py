"""Lone messages beside many queues and receivers, and what all of it costs and holds while nobody does anything."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.measure import latencies
from benchmarks.scale.amounts import Amounts
from benchmarks.scale.clients import PACE_SECONDS, WARM_UP, Crowd
from benchmarks.scale.sites import Site
from benchmarks.topics import crew
from benchmarks.topics.reading import converse
from tests.servers import Sql

CONNECT_SECONDS = 600.0  # for all receivers, one after the other


def create(site: Site, tables: Sequence[str]) -> float:
    """Queues, by the proxy; the seconds that each took."""
    client, started = Sql(site.gates[0].connect(ssl_disabled=True)), time.monotonic()
    for table in tables:
        client(f"CREATE QUEUE {table} (payload VARCHAR(300))")
    took = time.monotonic() - started
    client.close()
    return took / len(tables)


def beside(site: Site, receivers: int, others: Sequence[str], amounts: Amounts, *, idle: bool) -> dict[str, float]:
    """Lone messages of the first queue, where so many receivers wait, one of them or all in that queue.

    `idle`: what the second costs before the messages that are measured, when all receivers have connected.
    """
    way = site.queue()
    crowd = Crowd(
        port=way.port, proxy_pid=way.proxy_pid, pid=way.pid, database_port=way.database_port,
        receivers=receivers, others=others,
    )  # fmt: skip
    job = ("", amounts.lone, PACE_SECONDS, WARM_UP)
    with crew.clients(crowd, converse, [job], CONNECT_SECONDS) as client:
        site.at_rest(amounts.rest_seconds)
        held = {"proxy MB": site.proxy_megabytes()}
        cost = site.idle(amounts.idle_seconds) if idle else {}
        before = site.used()
        client.begin()
        (took,) = client.results()
        done = crew.Finished([], before, site.used()).columns(amounts.lone)
    del done["messages/s"]  # at a pace
    return {**latencies(took), **held, **cost, **site.costs(done)}
