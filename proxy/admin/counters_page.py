"""The page at /counters: what the queues have counted, from memory alone, for who asks every few seconds. Pure.

It is a part of the page at /metrics, in the same format, summed over the workers. No table is looked at, and a queue
that has counted nothing has no line, so 10,000 queues at rest cost nothing. Of the delays of deliveries a bucket that
holds no more than the one before it has none either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, zip_longest

from engine.delivery.metrics import DELAY_BUCKETS
from engine.model.queue import QueueName
from proxy.cluster.reports import WorkerReport

COUNTERS = ("enqueued", "sent", "acked", "redelivered")


def counters_page(reports: Iterable[WorkerReport]) -> bytes:
    """The whole page."""
    sums: dict[QueueName, list[int]] = {}
    delays: dict[QueueName, list[int]] = {}
    for report in reports:
        for status in report.queues:
            counted = [status.counters.get(name, 0) for name in COUNTERS]
            if any(counted):
                before = sums.get(status.name)
                sums[status.name] = counted if before is None else [a + b for a, b in zip(before, counted, strict=True)]
            if any(status.delays):
                known = delays.get(status.name, ())
                delays[status.name] = [a + b for a, b in zip_longest(known, status.delays, fillvalue=0)]
    lines: list[str] = []
    for queue, values in sums.items():
        labels = f'database="{_escaped(queue.database)}",queue="{_escaped(queue.table)}"'
        lines += [
            f"queuegate_queue_{name}_total{{{labels}}} {value}" for name, value in zip(COUNTERS, values, strict=True)
        ]
        lines += _buckets(labels, delays.get(queue, ()))
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _buckets(labels: str, counts: Sequence[int]) -> Iterator[str]:
    for bound, count, upto in zip(DELAY_BUCKETS, counts, accumulate(counts), strict=False):
        if count:
            yield f'queuegate_queue_delivery_delay_seconds_bucket{{{labels},le="{bound}"}} {upto}'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
