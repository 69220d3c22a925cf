"""Two checkouts of queuegate beside each other: processor time of the proxy for a statement and for a message.

    python -m benchmarks.side_by_side ../before        # this checkout beside that one, which has its own .venv
    python -m benchmarks.side_by_side ../before INSERT lone             # these alone

Both proxies serve one MariaDB and take turns of half a second, so a machine whose speed changes does so for both. What
counts is the ratio of two neighbouring turns; the median of these is printed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import pymysql
from pymysql.cursors import SSCursor
from servers import DATABASE, MariaDb, wait_until

ROOT = Path(__file__).resolve().parent.parent
TURNS, TURN_SECONDS = 24, 0.5
BATCH, ACKED = 1000, 100
HELD = 120_000  # messages that a receiver holds, to be acked by themselves
Work = Callable[[], int]
"""Does something some times over; how often."""


@contextmanager
def proxy(checkout: Path, url: str, log: Path) -> Iterator[tuple[int, int]]:
    """A proxy of that checkout: its process and its port."""
    command = [checkout / ".venv/bin/python", "-m", "queuegate", "serve", "--listen", "127.0.0.1:0", "--backend", url]
    with log.open("wb") as output, subprocess.Popen(command, cwd=checkout, stdout=output, stderr=output) as process:
        try:
            listening = re.compile(r"listening on 127\.0\.0\.1:(\d+)")
            wait_until(lambda: listening.search(log.read_text()), 60, f"the proxy of {checkout}")
            found = listening.search(log.read_text())
            assert found is not None
            yield process.pid, int(found[1])
        finally:
            process.terminate()


def processor_seconds(pid: int) -> float:
    """What a process and its threads have used; the kernel's own count, in nanoseconds."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def repeated(run: Callable[[], object]) -> Work:
    """As often as a turn has time for."""

    def work() -> int:
        end, times = time.monotonic() + TURN_SECONDS, 0
        while time.monotonic() < end:
            run()
            times += 1
        return times

    return work


def drained(cursor: Any, queue: str) -> Work:
    """A batch of messages enqueued, received and acked."""

    def work() -> int:
        cursor.execute(f"INSERT INTO {queue} (n) SELECT seq FROM seq_1_to_{BATCH}")
        cursor.execute(f"SELECT id FROM STREAM {queue} LIMIT {BATCH} WAIT 30")
        ids = [str(id_) for (id_,) in cursor.fetchall()]
        for start in range(0, len(ids), ACKED):
            cursor.execute(f"ACK {queue} {', '.join(ids[start : start + ACKED])}")
        return len(ids)

    return work


def held(client: Any, port: int, queue: str) -> Work:
    """A message acked that a receiver holds."""
    cursor = client.cursor()
    cursor.execute(f"INSERT INTO {queue} (n) SELECT seq FROM seq_1_to_{HELD}")
    receiver = pymysql.connect(host="127.0.0.1", port=port, user="root", database=DATABASE, cursorclass=SSCursor)
    rows = receiver.cursor()
    rows.execute(f"SELECT id FROM STREAM {queue} WITH (prefetch = {HELD})")
    ids = iter([rows.fetchone()[0] for _ in range(HELD)])
    threading.Thread(target=lambda: _read_on(rows), daemon=True).start()
    return repeated(lambda: cursor.execute(f"ACK {queue} {next(ids)}"))


def lone(client: Any, port: int, queue: str) -> Work:
    """A message after the other: enqueued, received by a stream that waits for it, acked."""
    cursor, streaming = client.cursor(), pymysql.connect(host="127.0.0.1", port=port, user="root", database=DATABASE)
    rows = streaming.cursor(SSCursor)
    rows.execute(f"SELECT id FROM STREAM {queue}")

    def message() -> None:
        cursor.execute(f"INSERT INTO {queue} (n) VALUES (1)")
        cursor.execute(f"ACK {queue} {rows.fetchone()[0]}")

    return repeated(message)


def window(client: Any, port: int, queue: str) -> Work:
    """A message of a backlog, received by a stream with a small window, and acked."""
    cursor = client.cursor()
    cursor.execute(f"INSERT INTO {queue} (n) SELECT seq FROM seq_1_to_{HELD}")
    rows = pymysql.connect(host="127.0.0.1", port=port, user="root", database=DATABASE).cursor(SSCursor)
    rows.execute(f"SELECT id FROM STREAM {queue} WITH (prefetch = 10)")
    return repeated(lambda: cursor.execute(f"ACK {queue} {rows.fetchone()[0]}"))


def polled(cursor: Any, queue: str) -> Work:
    """A message of a backlog, received by a poll of one, and acked."""
    cursor.execute(f"INSERT INTO {queue} (n) SELECT seq FROM seq_1_to_{HELD}")

    def message() -> None:
        cursor.execute(f"SELECT id FROM STREAM {queue} LIMIT 1 WAIT 5")
        cursor.execute(f"ACK {queue} {cursor.fetchone()[0]}")

    return repeated(message)


def connected(port: int) -> Work:
    """A client connects, asks something and leaves."""

    def visit() -> None:
        client = pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True, ssl_disabled=True)
        client.cursor().execute("SELECT 1")
        client.close()

    return repeated(visit)


def _read_on(rows: Any) -> None:
    """It waits for more, until the proxy ends."""
    with suppress(pymysql.MySQLError):
        rows.fetchall()


def subjects(client: Any, port: int, number: int) -> dict[str, Callable[[], Work]]:
    """What is measured, by one client of one of the proxies. The last leaves messages that a receiver holds: they come
    again once their leases run out, which would disturb others."""
    cursor = client.cursor()
    for queue in ("single", "drain", "held", "lone", "window", "polled"):
        cursor.execute(f"CREATE QUEUE {queue}{number} (n INT)")
    cursor.execute(f"INSERT INTO single{number} (n) SELECT seq FROM seq_1_to_100000")
    ids = count(1)
    return {
        "SELECT": lambda: repeated(lambda: cursor.execute(f"SELECT n FROM single{number} WHERE id = 5")),
        "INSERT": lambda: repeated(lambda: cursor.execute(f"INSERT INTO single{number} (n) VALUES (1)")),
        "ACK": lambda: repeated(lambda: cursor.execute(f"ACK single{number} {next(ids)}")),
        "lone": lambda: lone(client, port, f"lone{number}"),
        "connect": lambda: connected(port),
        "window": lambda: window(client, port, f"window{number}"),
        "poll": lambda: polled(cursor, f"polled{number}"),
        "message": lambda: drained(cursor, f"drain{number}"),
        "ACK held": lambda: held(client, port, f"held{number}"),
    }


def main() -> int:
    """See the module."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    server = MariaDb()
    server.install()
    server.start()
    with ExitStack() as stack:
        stack.callback(server.remove)
        server.prepare()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pids, made = [], []
        kept = []  # a cursor on a stream that is forgotten reads to its end, which never comes
        for number, checkout in enumerate((Path(sys.argv[1]).resolve(), ROOT)):
            pid, port = stack.enter_context(proxy(checkout, server.url(), folder / f"log{number}"))
            client = pymysql.connect(host="127.0.0.1", port=port, user="root", database=DATABASE, autocommit=True)
            pids.append(pid)
            made.append(subjects(stack.enter_context(client), port, number))
        for subject in sys.argv[2:] or made[0]:
            works = [makers[subject]() for makers in made]
            kept.append(works)
            used: tuple[list[float], list[float]] = ([], [])
            for turn in range(TURNS):
                for which in (0, 1) if turn % 2 else (1, 0):
                    before = processor_seconds(pids[which])
                    times = works[which]()
                    used[which].append((processor_seconds(pids[which]) - before) / times * 1e6)
            ratio = median(here / there for there, here in zip(*used, strict=True))
            print(f"{subject:8} {median(used[0]):7.1f} us there, {median(used[1]):7.1f} us here: {ratio:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
