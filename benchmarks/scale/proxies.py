"""Several proxies on one database: producers and receivers spread over them, and a message from one to another."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from functools import partial
from typing import Any

from benchmarks.harness import Outcome
from benchmarks.measure import latencies
from benchmarks.queues.base import BATCH
from benchmarks.queues.run import PROCESSES, PRODUCERS, RECEIVERS, drain, enqueue
from benchmarks.scale.amounts import Columns, Course, in_turn, named
from benchmarks.scale.clients import PACE_SECONDS, RATE, WARM_UP, at
from benchmarks.scale.sites import Ground, Site, mariadb
from benchmarks.topics import crew
from benchmarks.topics.reading import converse

NAME = "scale-proxies"
ENQUEUE, DRAIN = "enqueue", "drain"
RATE_OF = "{} messages/s"
_CONNECTIONS = 100


def measure(course: Course) -> Outcome:
    """On MariaDB: the embedded backend has one proxy."""
    title = (
        f"Proxies on one database: {PRODUCERS} producers in {PROCESSES} processes, one message a commit; {RECEIVERS}"
        f" receivers, a backlog of {course.amounts.drained:,}, acks of {BATCH}; ms: a lone message at {RATE}/s from one"
        " proxy to another"
    )
    with mariadb(course.facts, connections=_CONNECTIONS) as ground:
        cases = {
            f"{ground.name}, {number} {'proxy' if number == 1 else 'proxies'}": partial(_case, course, ground, number)
            for number in course.amounts.proxies
        }
        return in_turn(course, NAME, title, RATE_OF.format(DRAIN), cases)


def _case(course: Course, ground: Ground, proxies: int, repeat: int) -> Columns:
    amounts = course.amounts
    with ground.site(proxies) as site:
        queue = site.queue(receiver_port=site.gates[-1].port)
        queue.fill(0)
        job = (PRODUCERS // PROCESSES, 1, amounts.seconds)
        sent, done = _together(site, [(number, enqueue, *job) for number in range(PROCESSES)])
        found = named(ENQUEUE, done.columns(sum(sent)))
        queue.fill(amounts.drained)
        left = multiprocessing.get_context("spawn").Value("l", amounts.drained)
        _, done = _together(site, [(number, drain, BATCH, left) for number in range(RECEIVERS)])
        found |= named(DRAIN, done.columns(amounts.drained))
        queue.fill(0)
        (took,) = crew.run(queue, converse, [("", amounts.lone, PACE_SECONDS, WARM_UP)]).results
        memory = site.proxy_megabytes() / proxies
    return {**found, **latencies(took), "MB/proxy": memory}


def _together(site: Site, jobs: Sequence[Sequence[Any]]) -> tuple[list[Any], crew.Finished]:
    """Clients, each by the proxy of its number; what they returned, and what all proxies used."""
    queues = [site.queue(number) for number in range(len(site.gates))]
    with crew.clients(queues, at, jobs) as clients:
        before = site.used()
        clients.begin()
        results = clients.results()
        return results, crew.Finished(results, before, site.used())
