"""The page at /counters: what the queues have counted, from memory alone, for who asks every few seconds. Pure.

It is a part of the page at /metrics, in the same format, summed over the workers. No table is looked at, and a queue
that has counted nothing has no line, so 10,000 queues at rest cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.model.queue import QueueName
from proxy.cluster.reports import WorkerReport

COUNTERS = ("enqueued", "sent", "acked", "redelivered")


def counters_page(reports: Iterable[WorkerReport]) -> bytes:
    """The whole page."""
    sums: dict[QueueName, list[int]] = {}
    for report in reports:
        for status in report.queues:
            counted = [status.counters.get(name, 0) for name in COUNTERS]
            if any(counted):
                before = sums.get(status.name)
                sums[status.name] = counted if before is None else [a + b for a, b in zip(before, counted, strict=True)]
    lines = []
    for queue, values in sums.items():
        labels = f'database="{_escaped(queue.database)}",queue="{_escaped(queue.table)}"'
        lines += [
            f"queuegate_queue_{name}_total{{{labels}}} {value}" for name, value in zip(COUNTERS, values, strict=True)
        ]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
