"""Reads the proxy's counters again and again, over HTTP, and tells the rates.

The proxy answers `/counters` from memory (`proxy.admin.counters_page`), for all its workers. Where that takes long,
with very many queues, it is asked more seldom: the asking takes at most SHARE of the time.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
import re
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from engine.delivery.metrics import DELAY_BUCKETS
from engine.model.queue import QueueName
from proxy.console.rates import COUNTED, FINE_SECONDS, Rates

log = logging.getLogger(__name__)

SHARE = 0.02
ANSWER_SECONDS = 20.0
PAGE_MAX_BYTES = 64 << 20  # 10,000 queues have 10 MB at /metrics

_LINE = re.compile(r"queuegate_queue_(\w+)_(total|bucket)\{(.*)\} ([0-9.eE+]+)")
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


def read_counters(place: str) -> dict[QueueName, list[float]]:
    """The counters at a URL, or at `/counters` of a Unix socket. Blocks. Raises OSError, ValueError."""
    if place.startswith("http://"):
        parts = urlsplit(place)
        connection: http.client.HTTPConnection = http.client.HTTPConnection(parts.netloc, timeout=ANSWER_SECONDS)
        path = parts.path or "/counters"
    else:
        connection, path = _UnixConnection(place), "/counters"
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


def parsed(page: str) -> dict[QueueName, list[float]]:
    """The counters of a page in Prometheus's text format: those of COUNTED, and behind them how many deliveries each of
    DELAY_BUCKETS holds."""
    found: dict[QueueName, list[float]] = {}
    for line in page.split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        labels = {name: _unescaped(value) for name, value in _LABEL.findall(match[3])}
        place = _place(match[1], labels.get("le"))
        if place is not None and "database" in labels and "queue" in labels:
            queue = QueueName(labels["database"], labels["queue"])
            values = found.setdefault(queue, [0.0] * (len(COUNTED) + len(DELAY_BUCKETS)))
            values[place] += float(match[4])
    for values in found.values():
        values[len(COUNTED) :] = _single(values[len(COUNTED) :])
    return found


def _place(name: str, bound: str | None) -> int | None:
    """Where a counter is among the values of a queue; None: it is none of them."""
    if bound is None:
        return COUNTED.index(name) if name in COUNTED else None
    return len(COUNTED) + DELAY_BUCKETS.index(bound) if name == _DELAYS and bound in DELAY_BUCKETS else None


def _single(upto: list[float]) -> list[float]:
    """What each bucket holds, of how many it and all before it hold. A bucket that is not told holds nothing."""
    counts, before = [], 0.0
    for value in upto:
        counts.append(max(value - before, 0.0))
        before = max(value, before)
    return counts


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], value)


async def sample(place: str, rates: Rates, clock: Callable[[], float]) -> None:
    """For ever. What cannot be read is told once, until it can be read again."""
    loop = asyncio.get_running_loop()
    failing = False
    while True:
        began = loop.time()
        try:
            counters = await asyncio.to_thread(read_counters, place)
            rates.heard_of(counters, clock())
            failing = False
        except (OSError, ValueError) as error:
            if not failing:
                log.warning("the proxy's counters cannot be read: %s", error)
            failing = True
        await asyncio.sleep(max(FINE_SECONDS, (loop.time() - began) / SHARE))
