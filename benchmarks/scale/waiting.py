"""Many waiting messages: the first ones of them drained, more of them enqueued, and a lone message of another queue."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.harness import Outcome, Series
from benchmarks.measure import latencies, lie
from benchmarks.scale.amounts import MARIADB, MILLION, Course, named
from benchmarks.scale.clients import PACE_SECONDS, RATE, WARM_UP
from benchmarks.scale.sites import Site, mariadb
from benchmarks.steps.loads import BATCH, again, inserts
from benchmarks.topics import crew
from benchmarks.topics.logs import PAYLOAD
from benchmarks.topics.reading import converse, drain
from tests.scratch import folder
from tests.servers import DATABASE

NAME = "scale-waiting"
TABLE = "scale_waiting"
DRAIN, ENQUEUE = "drain", "enqueue"
RATE_OF = "{} messages/s"
MESSAGE_BYTES = 500  # of a row and its entry in the index, with what the database keeps to undo a statement
WRITTEN_SECONDS = 300.0  # for the database to write down what it was filled with
_MICROSECOND = 1000  # in the nanoseconds of a queue's times, of which the last three digits are 0


def measure(course: Course) -> Outcome:
    """One queue that grows from size to size: it takes longer to fill it than to measure it."""
    amounts = course.amounts
    title = (
        f"Messages of {len(PAYLOAD)} bytes waiting in one queue: the first {amounts.first:,} drained, acks of {BATCH};"
        f" {amounts.enqueued:,} enqueued, {BATCH} a commit; ms: a lone message of another queue at {RATE}/s"
    )
    found, filled = [], 0
    where = place(max(amounts.waiting))
    sizes = [size for size in sorted(amounts.waiting) if size * MESSAGE_BYTES < shutil.disk_usage(where).free]
    course.left_out.extend(f"{n:,} waiting messages, for want of room" for n in amounts.waiting if n not in sizes)
    with mariadb(course.facts, folder=where) as ground, ground.site() as site:
        course.facts["waiting messages"] = f"the database's files are {lie(where)}"
        site.queue(table=TABLE).fill(0)
        for size in sizes:
            _fill(course, site, filled, size)
            filled = size
            series = Series(f"{MARIADB}, {size:,} waiting")
            for repeat in range(amounts.repeats):
                course.tell(f"{NAME}, {repeat + 1} of {amounts.repeats}: {series.rival}")
                series.add(_moved(course, site))
            found.append(series)
    return Outcome(NAME, title, RATE_OF.format(DRAIN), found, ())


def place(messages: int) -> Path:
    """Where databases of the benchmarks lie, if half of the room there is enough, else where temporary files do."""
    usual = folder()
    return usual if messages * MESSAGE_BYTES < shutil.disk_usage(usual).free / 2 else Path(tempfile.gettempdir())


def _fill(course: Course, site: Site, start: int, end: int) -> None:
    """Messages that are due, a microsecond after each other, written by the database itself."""
    assert site.server is not None
    first = time.time_ns() // 1_000_000_000 * 1_000_000_000 - end * _MICROSECOND
    with site.server.connect(database=DATABASE) as link, link.cursor() as cursor:
        for done in range(start, end, MILLION):
            course.tell(f"{NAME}: {done:,} of {end:,} messages")
            due = f"{first} + ({done} + seq) * {_MICROSECOND}"
            cursor.execute(
                f"INSERT INTO {TABLE} (payload, time_scheduled, time_next)"
                f" SELECT '{PAYLOAD}', {due}, {due} FROM seq_1_to_{min(MILLION, end - done)}"
            )
    site.at_rest(WRITTEN_SECONDS)


def _moved(course: Course, site: Site) -> dict[str, float]:
    """A drain, more messages enqueued, and lone ones of another queue."""
    amounts, big = course.amounts, site.queue(table=TABLE)
    found: dict[str, float] = {}
    jobs = (
        (DRAIN, amounts.first, drain, ("", BATCH, amounts.first)),
        (ENQUEUE, amounts.enqueued, again, (inserts(TABLE, BATCH), amounts.enqueued // BATCH, 0.0)),
    )
    for what, messages, work, job in jobs:
        found |= named(what, crew.run(big, work, [job]).columns(messages))
    lone = site.queue()
    lone.fill(0)
    (took,) = crew.run(lone, converse, [("", amounts.lone, PACE_SECONDS, WARM_UP)]).results
    return {**found, **latencies(took)}
