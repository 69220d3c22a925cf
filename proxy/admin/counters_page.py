"""The page at /counters: the queues' counters, from memory alone, for clients that poll every few seconds. Pure.

It has the format of the page at /metrics, and covers all processes that serve this database: the workers of this
proxy, and the other proxies. Each process counts for itself, from its start on, so each line names its process. No
table is read, and a queue that has counted nothing has no line, so 10,000 queues idle cost nothing. Of the
delays of deliveries a bucket that holds no more than the one before it has none either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from engine.delivery.metrics import DELAY_BUCKETS
from engine.model.queue import QueueName
from proxy.cluster.reports import ProcessCounts

COUNTERS = ("enqueued", "sent", "acked", "redelivered")


def counters_page(counts: Iterable[ProcessCounts], missing: int = 0) -> bytes:
    """The whole page. `missing`: processes whose counts are not known."""
    lines = [f"queuegate_processes_missing {missing}"]
    for each in counts:
        lines.append(f'queuegate_process_seconds{{process="{_escaped(each.process)}"}} {each.seconds:.3f}')
        for status in each.queues:
            labels = _labels(status.name, each.process)
            counted = [(name, status.counters.get(name, 0)) for name in COUNTERS]
            if any(value for _, value in counted):
                lines += [f"queuegate_queue_{name}_total{{{labels}}} {value}" for name, value in counted]
            lines += _buckets(labels, status.delays)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _labels(queue: QueueName, process: str) -> str:
    names = f'database="{_escaped(queue.database)}",queue="{_escaped(queue.table)}"'
    return f'{names},process="{_escaped(process)}"'


def _buckets(labels: str, counts: Sequence[int]) -> Iterator[str]:
    for bound, count, upto in zip(DELAY_BUCKETS, counts, accumulate(counts), strict=False):
        if count:
            yield f'queuegate_queue_delivery_delay_seconds_bucket{{{labels},le="{bound}"}} {upto}'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
