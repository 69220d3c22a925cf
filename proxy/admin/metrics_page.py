"""The page at /metrics: what the workers report and what the tables contain, in Prometheus's text format. Pure.

Counters bear the worker that counted them: one that was restarted begins at 0, which Prometheus understands only of a
series of its own. Sum over `worker`. docs/monitoring.md explains each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from engine.background.surveyor import Survey
from engine.delivery.metrics import DELAY_BUCKETS, QueueMetrics
from engine.history.writer import HistoryState
from engine.model.queue import QueueCatalog, QueueName, QueueSpec
from engine.model.topics import GroupLag, TopicExtent
from engine.topics.gauges import Gauges
from proxy.cluster.reports import WorkerReport
from proxy.show.status_tables import dead_letter_queue

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

_QUEUE = ("database", "queue")
_TOPIC = ("database", "topic")
_GROUP = (*_TOPIC, "group")
_STATES = ("ready", "scheduled", "retrying", "in_flight", "parked", "acked")
_MEANINGS = {
    "enqueued": "Rows that committed INSERTs added.",
    "acked": "Messages that committed ACKs changed.",
    "nacked": "Messages that committed NACKs changed.",
    "rejected": "Messages that committed REJECTs changed.",
    "renewed": "Leases that committed RENEWs changed.",
    "dead_lettered": "Messages moved to the dead-letter queue.",
    "deleted": "Rows that committed DELETEs removed.",
    "sent": "Messages handed to receivers.",
    "redelivered": "Messages handed to receivers not for the first time.",
    "settled_seen": "Messages in memory whose end was heard of.",
    "released": "Leases given back because their receiver had gone.",
    "expired": "Leases that ran out unacked.",
    "purged": "Acked messages deleted for their age.",
    "looks": "Looks at the table.",
    "claims": "Transactions that leased messages.",
    "lease_conflicts": "Messages a claim asked for and did not get.",
    "rechecks": "Questions whether messages in flight are still unacked.",
    "backend_errors": "Database operations of the engine that failed.",
    "stalls": "Times the watchdog found deliveries at a stand.",
}


@dataclass(frozen=True, slots=True)
class ProxyFacts:
    """Facts of the proxy as a whole.

    `ready`: as /readyz has it. `certificate_expires`: seconds since 1970; None without TLS.
    """

    ready: bool
    database_up: bool
    connections_limit: int
    connections_refused: int = 0
    login_failures: int = 0
    worker_restarts: int = 0
    certificate_expires: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything on the page. `missing`: workers that did not answer."""

    reports: Sequence[WorkerReport]
    surveys: Mapping[QueueName, Survey]
    catalog: QueueCatalog
    version: str
    missing: int = 0
    gauges: Gauges = field(default_factory=Gauges)
    histories: Mapping[QueueName, HistoryState] = field(default_factory=dict)
    proxy: ProxyFacts | None = None
    uncovered: Mapping[QueueName, int] = field(default_factory=dict)
    """Of queues with streams that name a key range: the ready messages that are in that of no stream."""


def page(facts: Facts) -> bytes:
    """The whole page."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(facts))
    return generate_latest(registry)


class _Collector:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        yield from _process_metrics(self._facts)
        if self._facts.proxy is not None:
            yield from _proxy_metrics(self._facts.proxy)
        yield from _schedule_metrics(self._facts.reports)
        yield from _table_metrics(self._facts)
        yield from _topic_metrics(self._facts.gauges)
        yield from _history_metrics(self._facts.histories)
        yield from _group_metrics(self._facts)
        yield from _queue_metrics(self._facts.reports)
        yield _delays(self._facts.reports)


def _process_metrics(facts: Facts) -> Iterator[Metric]:
    build = GaugeMetricFamily("queuegate_build_info", "1, with the version as label.", labels=("version",))
    build.add_metric((facts.version,), 1)
    yield build
    yield _one("queuegate_workers", "Worker processes that answered this request.", len(facts.reports))
    yield _one("queuegate_workers_missing", "Worker processes that did not answer in time.", facts.missing)
    gauges: dict[str, tuple[str, list[tuple[str, float]]]] = {
        "queuegate_connections": (
            "Logged-in clients.",
            [(str(r.worker), float(r.connections)) for r in facts.reports],
        ),
        "queuegate_streams": ("Open streams.", [(str(r.worker), float(r.streams)) for r in facts.reports]),
        "queuegate_resident_memory_bytes": (
            "Memory of the process.",
            [(str(r.worker), float(r.memory_bytes)) for r in facts.reports],
        ),
    }
    for name, (meaning, values) in gauges.items():
        gauge = GaugeMetricFamily(name, meaning, labels=("worker",))
        for worker, value in values:
            gauge.add_metric((worker,), value)
        yield gauge
    processor = CounterMetricFamily("queuegate_cpu_seconds", "Processor time of the process.", labels=("worker",))
    for report in facts.reports:
        processor.add_metric((str(report.worker),), report.cpu_seconds)
    yield processor


def _proxy_metrics(proxy: ProxyFacts) -> Iterator[Metric]:
    yield _one("queuegate_ready", "1 while the proxy is ready for clients, as /readyz says.", proxy.ready)
    yield _one("queuegate_database_up", "1 while the database answers.", proxy.database_up)
    yield _one("queuegate_connections_limit", "limits.max_connections.", proxy.connections_limit)
    for name, meaning, count in (
        ("connections_refused", "Clients that a limit kept out.", proxy.connections_refused),
        ("login_failures", "Logins that failed: wrong password, none, or the account is locked.", proxy.login_failures),
        ("worker_restarts", "Worker processes that died and were started again.", proxy.worker_restarts),
    ):
        yield CounterMetricFamily(f"queuegate_{name}", meaning, value=count)
    if proxy.certificate_expires is not None:
        meaning = "The end of the TLS certificate's time, in seconds since 1970."
        yield _one("queuegate_tls_certificate_expiry_timestamp_seconds", meaning, proxy.certificate_expires)


def _schedule_metrics(reports: Iterable[WorkerReport]) -> Iterator[Metric]:
    """One worker of a proxy sends for all, so no series bears a worker."""
    meaning = "Since when the schedules' tick that waits longest is due; 0 when none is."
    overdue = GaugeMetricFamily("queuegate_schedule_overdue_seconds", meaning, labels=("database",))
    for report in reports:
        for database, seconds in report.schedules_overdue.items():
            overdue.add_metric((database,), seconds)
    yield overdue


def _one(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(name, meaning, value=value)


def _table_metrics(facts: Facts) -> Iterator[Metric]:
    messages = GaugeMetricFamily(
        "queuegate_queue_messages", "Messages in the table, by state; bounded.", labels=(*_QUEUE, "state")
    )
    age = GaugeMetricFamily(
        "queuegate_queue_oldest_ready_age_seconds", "Since the oldest ready message fell due.", labels=_QUEUE
    )
    counted = GaugeMetricFamily(
        "queuegate_queue_counted", "1: counted exactly; 0: there are more; -1: not counted.", labels=_QUEUE
    )
    paused = GaugeMetricFamily("queuegate_queue_paused", "1 while the queue is paused.", labels=_QUEUE)
    dead_letters = GaugeMetricFamily(
        "queuegate_queue_is_dead_letter_queue", "1 where the queue holds the dead letters of another.", labels=_QUEUE
    )
    targets = {target.name for queue in facts.catalog if (target := dead_letter_queue(queue, facts.catalog))}
    for queue in facts.catalog:
        labels = (queue.name.database, queue.name.table)
        census = facts.surveys.get(queue.name, Survey(None)).census
        paused.add_metric(labels, int(queue.options.paused))
        dead_letters.add_metric(labels, int(queue.options.dead_letter_of is not None or queue.name in targets))
        counted.add_metric(labels, -1 if census is None else int(not census.bounded))
        if census is None:
            continue
        for state in _STATES:
            messages.add_metric((*labels, state), getattr(census, state))
        target = dead_letter_queue(queue, facts.catalog)
        dead_census = None if target is None else facts.surveys.get(target.name, Survey(None)).census
        messages.add_metric((*labels, "dead"), dead_census.unacked if dead_census is not None else 0)
        age.add_metric(labels, census.oldest_ready_age or 0)
    uncovered = GaugeMetricFamily(
        "queuegate_queue_uncovered",
        "Ready messages in no key range of an open stream; bounded. Of queues with streams that name one.",
        labels=_QUEUE,
    )
    for name, count in facts.uncovered.items():
        uncovered.add_metric((name.database, name.table), count)
    yield from (messages, age, counted, paused, dead_letters, uncovered)


def _topic_metrics(gauges: Gauges) -> Iterator[Metric]:
    values: dict[str, tuple[str, Callable[[TopicExtent], int | None]]] = {
        "last_offset": ("The offset of a topic's last message.", lambda extent: extent.last or 0),
        "messages": ("Messages of a topic; from some on the ids that they take.", lambda extent: extent.messages),
        "bytes": ("About how large a topic is, where the database says it.", lambda extent: extent.size),
    }
    for name, (meaning, value) in values.items():
        gauge = GaugeMetricFamily(f"queuegate_topic_{name}", meaning, labels=_TOPIC)
        for topic, extent in gauges.extents.items():
            if (number := value(extent)) is not None:
                gauge.add_metric((topic.database, topic.table), number)
        yield gauge


def _history_metrics(histories: Mapping[QueueName, HistoryState]) -> Iterator[Metric]:
    """Of topics whose history is stored; the sum of all processes that write it."""
    dropped = GaugeMetricFamily(
        "queuegate_topic_history_dropped", "Events of a topic's history that were not written.", labels=_TOPIC
    )
    failing = GaugeMetricFamily(
        "queuegate_topic_history_failing", "1 while a topic's history is not written, read or cleaned.", labels=_TOPIC
    )
    for topic, state in histories.items():
        labels = (topic.database, topic.table)
        dropped.add_metric(labels, state.dropped)
        failing.add_metric(labels, int(bool(state.problem)))
    yield from (dropped, failing)


def _group_metrics(facts: Facts) -> Iterator[Metric]:
    groups = [queue for queue in facts.catalog if queue.options.topic is not None]
    lags: dict[str, tuple[str, Callable[[GroupLag], float]]] = {
        "unread": ("Ids beyond the offset of a consumer group: at most so many messages.", lambda lag: lag.unread),
        "oldest_unread_age_seconds": (
            "Since the first message beyond the offset was written.",
            lambda lag: lag.oldest_unread_age or 0,
        ),
        "holes": ("Ranges of missing ids that a consumer group waits for.", lambda lag: lag.holes),
    }
    for name, (meaning, value) in lags.items():
        gauge = GaugeMetricFamily(f"queuegate_group_{name}", meaning, labels=_GROUP)
        for group in groups:
            if (lag := facts.gauges.lags.get(group.name)) is not None:
                gauge.add_metric(_group_labels(group), value(lag))
        yield gauge
    for state in ("ready", "in_flight"):
        meaning = f"Messages in the queue of a consumer group: {state}; bounded."
        gauge = GaugeMetricFamily(f"queuegate_group_{state}", meaning, labels=_GROUP)
        for group in groups:
            if (census := facts.surveys.get(group.name, Survey(None)).census) is not None:
                gauge.add_metric(_group_labels(group), getattr(census, state))
        yield gauge
    yield _members(facts.reports, {group.name: _group_labels(group) for group in groups})


def _group_labels(group: QueueSpec) -> tuple[str, str, str]:
    return (group.name.database, group.options.topic or "", group.options.consumer_group or "")


def _members(reports: Iterable[WorkerReport], groups: Mapping[QueueName, tuple[str, ...]]) -> Metric:
    gauge = GaugeMetricFamily(
        "queuegate_group_members", "Open streams of a consumer group.", labels=(*_GROUP, "worker")
    )
    for report in reports:
        for status in report.queues:
            if (labels := groups.get(status.name)) is not None:
                gauge.add_metric((*labels, str(report.worker)), status.subscribers)
    return gauge


def _queue_metrics(reports: Iterable[WorkerReport]) -> Iterator[Metric]:
    labels = (*_QUEUE, "worker")
    counters = {
        name: CounterMetricFamily(f"queuegate_queue_{name}", _MEANINGS.get(name, name), labels=labels)
        for name in QueueMetrics().snapshot()
    }
    gauges = {
        "subscribers": GaugeMetricFamily("queuegate_queue_subscribers", "Open streams on the queue.", labels=labels),
        "receivers": GaugeMetricFamily(
            "queuegate_queue_receivers",
            "Connections that have a stream, a message or had a result lately.",
            labels=labels,
        ),
        "cached": GaugeMetricFamily("queuegate_queue_cached", "Waiting messages known in memory.", labels=labels),
        "alarms": GaugeMetricFamily(
            "queuegate_queue_alarms", "Messages leased for longer than alarm_after.", labels=labels
        ),
    }
    for report in reports:
        for status in report.queues:
            values = (status.name.database, status.name.table, str(report.worker))
            for name, counter in counters.items():
                counter.add_metric(values, status.counters.get(name, 0))
            for name, gauge in gauges.items():
                gauge.add_metric(values, getattr(status, name))
    yield from (*counters.values(), *gauges.values())


def _delays(reports: Iterable[WorkerReport]) -> Metric:
    histogram = HistogramMetricFamily(
        "queuegate_queue_delivery_delay_seconds",
        "Of first deliveries: from when the message fell due until it was leased, by the database's clock.",
        labels=(*_QUEUE, "worker"),
    )
    for report in reports:
        for status in report.queues:
            buckets: list[tuple[str, float]] = []
            total = 0
            for bound, count in zip(DELAY_BUCKETS, status.delays, strict=True):
                total += count
                buckets.append((bound, total))
            labels = (status.name.database, status.name.table, str(report.worker))
            histogram.add_metric(labels, buckets, status.delay_seconds)
    return histogram
