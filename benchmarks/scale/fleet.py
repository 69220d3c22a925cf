"""`python -m benchmarks fleet`: several proxies before one MariaDB, with few and many queues, and before a Vitess."""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.harness import Outcome
from benchmarks.idle import allow_files
from benchmarks.processes import cpu_seconds, resident_bytes
from benchmarks.queues.base import BATCH
from benchmarks.queues.run import PROCESSES, PRODUCERS, RECEIVERS, drain, enqueue
from benchmarks.queues.vitess_messaging import OurQueue, ours
from benchmarks.rivals import CLIENTS_MAX, start_gate
from benchmarks.scale import proxies
from benchmarks.scale.amounts import Columns, Course, in_turn, named
from benchmarks.scale.clients import Crowd, at
from benchmarks.scale.crowds import create
from benchmarks.scale.sites import Ground, Site, mariadb
from benchmarks.topics import crew
from benchmarks.topics.crew import Used
from tests.servers import DATABASE, Gate, private
from tests.vitess_programs import VITESS
from tests.vitess_server import SHARDED, Vitess

QUEUES, SHARDS = "fleet-queues", "fleet-shards"
_STATEMENTS, _RATE = "idle statements/s", f"{proxies.DRAIN} messages/s"
_KEYSPACES = {"one shard": DATABASE, "two shards": SHARDED}


def queues(course: Course) -> Outcome:
    """On MariaDB: what many queues with a receiver in each cost while nothing is enqueued, by the number of proxies."""
    amounts = course.amounts
    allow_files(4 * max(amounts.fleet_queues) + 1000)
    title = (
        "Idle fleets on MariaDB: a receiver in each queue, spread over the proxies, and nothing is enqueued;"
        " processor time of all proxies together"
    )
    with mariadb(course.facts, connections=max(amounts.fleet_queues)) as ground:
        cases = {
            f"{size:,} queues, {_proxies(number)}": partial(_idle, course, ground, size, number)
            for size in amounts.fleet_queues
            for number in amounts.proxies
        }
        return in_turn(course, QUEUES, title, _STATEMENTS, cases)


def shards(course: Course) -> Outcome:
    """On a Vitess, of which all is one process and its MySQL another, beside the proxies on the same machine."""
    title = (
        f"Proxies before a Vitess: {PRODUCERS} producers in {PROCESSES} processes, one message a commit; {RECEIVERS}"
        f" receivers, a backlog of {course.amounts.drained:,}, acks of {BATCH}"
    )
    course.facts["Vitess"] = f"{VITESS}: a vtcombo over MySQL 8.0.31"
    with private(Vitess([f"--max-connections={CLIENTS_MAX}"])) as server:
        cases = {
            f"{name}, {_proxies(number)}": partial(_on_vitess, course, server, keyspace, number)
            for name, keyspace in _KEYSPACES.items()
            for number in course.amounts.proxies[:2]
        }
        return in_turn(course, SHARDS, title, _RATE, cases)


PARTS: Mapping[str, Callable[[Course], Outcome]] = {
    proxies.NAME: proxies.measure,
    QUEUES: queues,
    SHARDS: shards,
}


def _proxies(number: int) -> str:
    return f"{number} {'proxy' if number == 1 else 'proxies'}"


def _idle(course: Course, ground: Ground, size: int, number: int, repeat: int) -> Columns:
    with ground.site(number, size) as site, contextlib.ExitStack() as stack:
        tables = [f"fleet_{at}" for at in range(size)]
        create(site, tables)
        for place, table in enumerate(tables):
            stack.enter_context(_receiver(site, place % number, table))
        site.at_rest(course.amounts.rest_seconds)
        idle = site.idle(course.amounts.idle_seconds)
        return {**idle, "MB/proxy": site.proxy_megabytes() / number, "connections": site.connections()}


def _receiver(site: Site, at: int, table: str) -> socket.socket:
    way = site.queue(at)
    crowd = Crowd(
        port=way.port, proxy_pid=way.proxy_pid, pid=way.pid, database_port=way.database_port, receivers=1
    )  # fmt: skip
    return crowd.opened(table)


def _on_vitess(course: Course, server: Vitess, keyspace: str, number: int, repeat: int) -> Columns:
    amounts = course.amounts
    with _gates(server, number) as gates:
        fleet = [ours(keyspace, gate, server) for gate in gates]
        fleet[0].fill(0)
        job = (PRODUCERS // PROCESSES, 1, amounts.seconds)
        sent, done = _together(fleet, gates, server, [(place, enqueue, *job) for place in range(PROCESSES)])
        found = named(proxies.ENQUEUE, done.columns(sum(sent)))
        fleet[0].fill(amounts.drained)
        left = multiprocessing.get_context("spawn").Value("l", amounts.drained)
        jobs = [(place, drain, BATCH, left) for place in range(RECEIVERS)]
        _, done = _together(fleet, gates, server, jobs)
        memory = sum(resident_bytes(pid) for pid in _pids(gates)) / 1e6
    return {**found, **named(proxies.DRAIN, done.columns(amounts.drained)), "MB/proxy": memory / number}


@contextlib.contextmanager
def _gates(server: Vitess, number: int) -> Iterator[list[Gate]]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="queuegate-bench-")))
        folders = [folder / str(place) for place in range(number)]
        for each in folders:
            each.mkdir()
        yield [start_gate(server, each, stack) for each in folders]


def _together(
    fleet: Sequence[OurQueue], gates: Sequence[Gate], server: Vitess, jobs: Sequence[Sequence[object]]
) -> tuple[list[int], crew.Finished]:
    with crew.clients(fleet, at, jobs) as clients:
        before = _used(gates, server)
        clients.begin()
        results = clients.results()
        return results, crew.Finished(results, before, _used(gates, server))


def _used(gates: Sequence[Gate], server: Vitess) -> Used:
    return Used(time.monotonic(), sum(map(cpu_seconds, _pids(gates))), sum(map(cpu_seconds, server.process_ids)), None)


def _pids(gates: Sequence[Gate]) -> list[int]:
    return [gate.process.pid for gate in gates if gate.process is not None]
