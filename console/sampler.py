"""Reads the proxy's counters at intervals, over HTTP, and adds them to the rates.

The proxy answers `/counters` from memory (`proxy.admin.server`), for all processes that serve its database.
Where that takes long, with very many queues, it is asked less often: reading takes at most SHARE of the time, as long
as it is asked once in PAUSE_SECONDS_MAX.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
import re
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from console.rates import COUNTED, FINE_SECONDS, Rates, Sample, Samples
from engine.delivery.metrics import DELAY_BUCKETS
from engine.model.queue import QueueName

log = logging.getLogger(__name__)

SHARE = 0.02
PAUSE_SECONDS_MAX = 60.0  # with ANSWER_SECONDS less than STALE_SECONDS, after which nothing is known
ANSWER_SECONDS = 20.0
PAGE_MAX_BYTES = 64 << 20  # 10,000 queues have 10 MB at /metrics

_COUNTER = re.compile(r"queuegate_queue_(\w+)_(total|bucket)\{(.*)\} ([0-9.eE+]+)")
_PROCESS = re.compile(r"queuegate_process_seconds\{(.*)\} ([0-9.eE+]+)")
_MISSING = re.compile(r"queuegate_processes_missing ([0-9]+)")
_FINDS_OTHERS = re.compile(r"queuegate_finds_other_proxies ([01])")
_DELAYS = "delivery_delay_seconds"
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=ANSWER_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def connection_to(place: str) -> tuple[http.client.HTTPConnection, str]:
    """A connection that is not open yet to a URL, or to a Unix socket, and the path there. Raises ValueError."""
    if not place.startswith("http://"):
        return _UnixConnection(place), "/counters"
    parts = urlsplit(place)
    try:
        return http.client.HTTPConnection(parts.netloc, timeout=ANSWER_SECONDS), parts.path or "/counters"
    except http.client.InvalidURL as error:
        raise ValueError(f"{place}: {error}") from error


def read_counters(place: str) -> Samples:
    """The counters at a URL, or at `/counters` of a Unix socket. Blocks. Raises OSError, ValueError."""
    connection, path = connection_to(place)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        if response.status != 200:
            raise ValueError(f"the answer has the status {response.status}")
        page = response.read(PAGE_MAX_BYTES + 1)
    except http.client.HTTPException as error:
        raise ValueError(f"the answer is not HTTP: {type(error).__name__}") from error
    finally:
        connection.close()
    if len(page) > PAGE_MAX_BYTES:
        raise ValueError("the answer is too large")
    return parsed(page.decode("utf-8", "replace"))


def parsed(page: str) -> Samples:
    """The counters of a page in Prometheus's text format, by process: those of COUNTED, and behind them how many
    deliveries each of DELAY_BUCKETS holds. Lines that name no process are of one that has no name."""
    counters: dict[str, dict[QueueName, list[float]]] = {}
    seconds: dict[str, float] = {}
    missing, finds_others = 0, True
    for line in page.split("\n"):
        if (match := _COUNTER.fullmatch(line)) is not None:
            _take(counters, match)
        elif (match := _PROCESS.fullmatch(line)) is not None:
            process = _labels(match[1]).get("process", "")
            seconds[process] = float(match[2])
            counters.setdefault(process, {})
        elif (match := _MISSING.fullmatch(line)) is not None:
            missing = int(match[1])
        elif (match := _FINDS_OTHERS.fullmatch(line)) is not None:
            finds_others = match[1] == "1"
    for values in (values for queues in counters.values() for values in queues.values()):
        values[len(COUNTED) :] = _single(values[len(COUNTED) :])
    samples = {process: Sample(queues, seconds.get(process)) for process, queues in counters.items()}
    return Samples(samples, missing, finds_others)


def _take(counters: dict[str, dict[QueueName, list[float]]], match: re.Match[str]) -> None:
    """Add what one line counts."""
    labels = _labels(match[3])
    place = _place(match[1], labels.get("le"))
    if place is not None and "database" in labels and "queue" in labels:
        queues = counters.setdefault(labels.get("process", ""), {})
        queue = QueueName(labels["database"], labels["queue"])
        values = queues.setdefault(queue, [0.0] * (len(COUNTED) + len(DELAY_BUCKETS)))
        values[place] += float(match[4])


def _labels(text: str) -> dict[str, str]:
    return {name: _unescaped(value) for name, value in _LABEL.findall(text)}


def _place(name: str, bound: str | None) -> int | None:
    """Where a counter is among the values of a queue; None: it is none of them."""
    if bound is None:
        return COUNTED.index(name) if name in COUNTED else None
    return len(COUNTED) + DELAY_BUCKETS.index(bound) if name == _DELAYS and bound in DELAY_BUCKETS else None


def _single(upto: list[float]) -> list[float]:
    """What each bucket holds, of how many it and all before it hold. A bucket that is missing holds nothing."""
    counts, before = [], 0.0
    for value in upto:
        counts.append(max(value - before, 0.0))
        before = max(value, before)
    return counts


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], value)


async def sample(place: str, rates: Rates, clock: Callable[[], float]) -> None:
    """For ever. A failure is logged once, until the counters can be read again."""
    loop = asyncio.get_running_loop()
    failing = False
    while True:
        began, pause = loop.time(), float(FINE_SECONDS)
        try:
            rates.add(await asyncio.to_thread(read_counters, place), clock())
            failing = False
            pause = min(max(pause, (loop.time() - began) / SHARE), PAUSE_SECONDS_MAX)
        except (OSError, ValueError) as error:
            if not failing:
                log.warning("the proxy's counters cannot be read: %s", error)
            failing = True
        await asyncio.sleep(pause)
