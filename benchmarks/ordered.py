"""A queue with an order_key, served by four proxies: clients of each poll for one message, ack it, and poll again.

Every claim of such a queue waits for a lock that all proxies share. Where the receivers name parts of the ring, and the
messages are ordered by the sharding key, it is the lock of these parts, else that of the whole queue. Each client is a
process of its own, and holds one message at a time; so a message is a claim.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from typing import Any

import pymysql

from benchmarks.drain import seconds_until_done
from benchmarks.harness import turned
from benchmarks.measure import Measurement
from benchmarks.places import Place
from tests.servers import DATABASE, Gate, Sql, wait_until

PROXIES, CLIENTS = 4, 2
KEYS = 2000
REPEATS = 3
QUARTERS = ("-40", "40-80", "80-c0", "c0-")
UNORDERED = "no order, whole queue"
WHOLE = "ordered, whole queue"
RANGES = "ordered, a key range for each proxy"
STICKY = "ordered, sticky keys"
_WITH: dict[str, Callable[[int], str]] = {
    UNORDERED: lambda proxy: "",
    WHOLE: lambda proxy: "",
    RANGES: lambda proxy: f" WITH (key_range = '{QUARTERS[proxy]}')",
    STICKY: lambda proxy: " WITH (keys = 'sticky')",
}


def measure(place: Place, messages: int) -> list[Measurement]:
    """Every kind of receivers in each of several turns; medians. Only on a server: elsewhere there is one proxy."""
    assert place.server is not None
    seconds: dict[str, list[float]] = {name: [] for name in _WITH}
    with _proxies(place) as gates:
        for turn in range(REPEATS):
            for name in turned(list(_WITH), turn):
                seconds[name].append(_turn(gates, name, messages))
    whole = seconds[WHOLE]
    return [_line(place, name, messages, found, whole) for name, found in seconds.items()]


def _line(place: Place, name: str, messages: int, found: list[float], whole: list[float]) -> Measurement:
    ratio = median(other / own for own, other in zip(found, whole, strict=True))
    values = {"messages/s": round(messages / median(found)), "/ whole queue": round(ratio, 2)}
    return Measurement(name, place.backend, place.durability, 1, messages, values)


@contextlib.contextmanager
def _proxies(place: Place) -> Iterator[list[Gate]]:
    """Those beside that of the place, and it."""
    assert place.server is not None
    with tempfile.TemporaryDirectory(prefix="queuegate-bench-") as folder, contextlib.ExitStack() as closing:
        gates = [place.gate]
        for number in range(1, PROXIES):
            directory = Path(folder, str(number))
            directory.mkdir()
            gates.append(Gate(place.server.url(), directory).start())
            closing.callback(gates[-1].stop)
        wait_until(lambda: all(gate.log.count("linked to another proxy") for gate in gates), what="the links")
        yield gates


def _turn(gates: list[Gate], name: str, messages: int) -> float:
    """Seconds from the start of all clients, connected, until everything is acked."""
    sql = Sql(gates[0].connect())
    sql("DROP QUEUE IF EXISTS bench")
    order = "" if name == UNORDERED else ", order_key = 'k'"
    sql(f"CREATE QUEUE bench (k INT NOT NULL, payload VARCHAR(300)) WITH (sharding_key = 'k', ack_wait = '10m'{order})")
    sql(f"INSERT INTO bench (k, payload) SELECT seq % {KEYS}, REPEAT('x', 200) FROM seq_1_to_{messages}")
    context = multiprocessing.get_context("spawn")
    done, begin = context.Value("l", 0), context.Event()
    clients = [
        context.Process(target=_receive, args=(gate.port, _WITH[name](number), done, messages, begin), daemon=True)
        for number, gate in enumerate(gates)
        for _ in range(CLIENTS)
    ]
    seconds = seconds_until_done(clients, begin, done, messages)
    assert sql.value("SELECT COUNT(*) FROM bench WHERE time_acked IS NULL") == 0
    sql.close()
    return seconds


def _receive(port: int, options: str, done: Any, messages: int, begin: Event) -> None:
    login = {"host": "127.0.0.1", "port": port, "user": "root", "database": DATABASE, "autocommit": True}
    with pymysql.connect(**login) as link, link.cursor() as cursor:
        begin.wait()
        while done.value < messages:
            cursor.execute(f"SELECT id FROM STREAM bench LIMIT 1 WAIT 1{options}")
            for (id_,) in cursor.fetchall():
                acked = cursor.execute(f"ACK bench {id_}")
                with done.get_lock():
                    done.value += acked
