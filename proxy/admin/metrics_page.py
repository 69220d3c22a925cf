"""The page at /metrics: what the workers report and what the tables contain, in Prometheus's text format. Pure.

It is made line by line, so that who writes it can do other things in between: 3,000 queues have 150,000 lines.

Counters bear the worker that counted them: one that was restarted begins at 0, which Prometheus understands only of a
series of its own. Sum over `worker`. docs/monitoring.md explains each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from engine.background.surveyor import Survey
from engine.delivery.metrics import DELAY_BUCKETS, QueueMetrics
from engine.history.writer import HistoryState
from engine.model.queue import QueueCatalog, QueueName, QueueSpec, QueueStatus
from engine.model.topics import GroupLag, TopicExtent
from engine.store.census import Census
from engine.topics.gauges import Gauges
from proxy.cluster.reports import ProcessCounts, WorkerReport
from proxy.show.status_tables import dead_letter_queue

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

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


def lines(facts: Facts) -> Iterator[str]:
    """The page in small pieces: lines, each with its end, or the two that begin a metric."""
    yield from _process_metrics(facts)
    if facts.proxy is not None:
        yield from _proxy_metrics(facts.proxy)
    yield from _schedule_metrics(facts.reports)
    yield from _table_metrics(facts)
    yield from _topic_metrics(facts.gauges)
    yield from _history_metrics(facts.histories)
    yield from _group_metrics(facts)
    yield from _queue_metrics(facts.reports)
    yield from _delays(facts.reports)


Samples = Iterable[tuple[str, float]]
"""The labels of each series, as the page has them, and its value."""


def labels_text(**values: object) -> str:
    """Labels as the page has them."""
    return ",".join([f'{name}="{_escaped(str(value))}"' for name, value in values.items()])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _head(name: str, kind: str, meaning: str) -> str:
    return f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n"


def _line(name: str, labels: str, value: float) -> str:
    number = repr(value) if isinstance(value, float) else int(value)
    return f"{name}{{{labels}}} {number}\n" if labels else f"{name} {number}\n"


def _gauge(name: str, meaning: str, samples: Samples) -> Iterator[str]:
    yield _head(name, "gauge", meaning)
    for labels, value in samples:
        yield _line(name, labels, value)


def _counter(name: str, meaning: str, samples: Samples) -> Iterator[str]:
    name = f"{name}_total"
    yield _head(name, "counter", meaning)
    for labels, value in samples:
        yield _line(name, labels, value)


def _one(name: str, meaning: str, value: float) -> Iterator[str]:
    return _gauge(name, meaning, [("", value)])


def _process_metrics(facts: Facts) -> Iterator[str]:
    meaning = "1, with the version as label."
    yield from _gauge("queuegate_build_info", meaning, [(labels_text(version=facts.version), 1)])
    yield from _one("queuegate_workers", "Worker processes that answered this request.", len(facts.reports))
    yield from _one("queuegate_workers_missing", "Worker processes that did not answer in time.", facts.missing)
    of_worker = [(labels_text(worker=report.worker), report) for report in facts.reports]
    for name, meaning, attribute in (
        ("connections", "Logged-in clients.", "connections"),
        ("streams", "Open streams.", "streams"),
        ("resident_memory_bytes", "Memory of the process.", "memory_bytes"),
    ):
        values = [(labels, getattr(report, attribute)) for labels, report in of_worker]
        yield from _gauge(f"queuegate_{name}", meaning, values)
    seconds = [(labels, report.cpu_seconds) for labels, report in of_worker]
    yield from _counter("queuegate_cpu_seconds", "Processor time of the process.", seconds)


def _proxy_metrics(proxy: ProxyFacts) -> Iterator[str]:
    yield from _one("queuegate_ready", "1 while the proxy is ready for clients, as /readyz says.", proxy.ready)
    yield from _one("queuegate_database_up", "1 while the database answers.", proxy.database_up)
    yield from _one("queuegate_connections_limit", "limits.max_connections.", proxy.connections_limit)
    for name, meaning, count in (
        ("connections_refused", "Clients that a limit kept out.", proxy.connections_refused),
        ("login_failures", "Logins that failed: wrong password, none, or the account is locked.", proxy.login_failures),
        ("worker_restarts", "Worker processes that died and were started again.", proxy.worker_restarts),
    ):
        yield from _counter(f"queuegate_{name}", meaning, [("", count)])
    if proxy.certificate_expires is not None:
        meaning = "The end of the TLS certificate's time, in seconds since 1970."
        yield from _one("queuegate_tls_certificate_expiry_timestamp_seconds", meaning, proxy.certificate_expires)


def _schedule_metrics(reports: Iterable[WorkerReport]) -> Iterator[str]:
    """One worker of a proxy sends for all, so no series bears a worker."""
    meaning = "Since when the schedules' tick that waits longest is due; 0 when none is."
    overdue = (
        (labels_text(database=database), seconds)
        for report in reports
        for database, seconds in report.schedules_overdue.items()
    )
    yield from _gauge("queuegate_schedule_overdue_seconds", meaning, overdue)


def _of_queue(name: QueueName) -> str:
    return labels_text(database=name.database, queue=name.table)


def _of_topic(name: QueueName) -> str:
    return labels_text(database=name.database, topic=name.table)


def _table_metrics(facts: Facts) -> Iterator[str]:
    catalog = facts.catalog

    def census_of(queue: QueueSpec | None) -> Census | None:
        return None if queue is None else facts.surveys.get(queue.name, Survey(None)).census

    def messages() -> Iterator[tuple[str, float]]:
        for queue in catalog:
            if (census := census_of(queue)) is None:
                continue
            labels = _of_queue(queue.name)
            for state in _STATES:
                yield f'{labels},state="{state}"', getattr(census, state)
            dead = census_of(dead_letter_queue(queue, catalog))
            yield f'{labels},state="dead"', 0 if dead is None else dead.unacked

    def of_census(value: Callable[[Census | None], float | None]) -> Iterator[tuple[str, float]]:
        for queue in catalog:
            if (number := value(census_of(queue))) is not None:
                yield _of_queue(queue.name), number

    yield from _gauge("queuegate_queue_messages", "Messages in the table, by state; bounded.", messages())
    yield from _gauge(
        "queuegate_queue_oldest_ready_age_seconds",
        "Since the oldest ready message fell due.",
        of_census(lambda census: None if census is None else census.oldest_ready_age or 0),
    )
    yield from _gauge(
        "queuegate_queue_counted",
        "1: counted exactly; 0: there are more; -1: not counted.",
        of_census(lambda census: -1 if census is None else int(not census.bounded)),
    )
    paused = ((_of_queue(queue.name), queue.options.paused) for queue in catalog)
    yield from _gauge("queuegate_queue_paused", "1 while the queue is paused.", paused)
    targets = {dead.name for queue in catalog if (dead := dead_letter_queue(queue, catalog)) is not None}
    dead_letters = (
        (_of_queue(queue.name), queue.options.dead_letter_of is not None or queue.name in targets) for queue in catalog
    )
    yield from _gauge(
        "queuegate_queue_is_dead_letter_queue", "1 where the queue holds the dead letters of another.", dead_letters
    )
    yield from _gauge(
        "queuegate_queue_uncovered",
        "Ready messages in no key range of an open stream; bounded. Of queues with streams that name one.",
        ((_of_queue(name), count) for name, count in facts.uncovered.items()),
    )


def _topic_metrics(gauges: Gauges) -> Iterator[str]:
    values: dict[str, tuple[str, Callable[[TopicExtent], int | None]]] = {
        "last_offset": ("The offset of a topic's last message.", lambda extent: extent.last or 0),
        "messages": ("Messages of a topic; from some on the ids that they take.", lambda extent: extent.messages),
        "bytes": ("About how large a topic is, where the database says it.", lambda extent: extent.size),
    }
    for name, (meaning, value) in values.items():
        extents = ((topic, value(extent)) for topic, extent in gauges.extents.items())
        samples = ((_of_topic(topic), number) for topic, number in extents if number is not None)
        yield from _gauge(f"queuegate_topic_{name}", meaning, samples)


def _history_metrics(histories: Mapping[QueueName, HistoryState]) -> Iterator[str]:
    """Of topics whose history is stored; the sum of all processes that write it."""
    dropped = ((_of_topic(topic), state.dropped) for topic, state in histories.items())
    failing = ((_of_topic(topic), bool(state.problem)) for topic, state in histories.items())
    meaning = "Events of a topic's history that were not written."
    yield from _gauge("queuegate_topic_history_dropped", meaning, dropped)
    meaning = "1 while a topic's history is not written, read or cleaned."
    yield from _gauge("queuegate_topic_history_failing", meaning, failing)


def _group_metrics(facts: Facts) -> Iterator[str]:
    groups = {queue.name: _of_group(queue) for queue in facts.catalog if queue.options.topic is not None}
    lags: dict[str, tuple[str, Callable[[GroupLag], float]]] = {
        "unread": ("Ids beyond the offset of a consumer group: at most so many messages.", lambda lag: lag.unread),
        "oldest_unread_age_seconds": (
            "Since the first message beyond the offset was written.",
            lambda lag: lag.oldest_unread_age or 0,
        ),
        "holes": ("Ranges of missing ids that a consumer group waits for.", lambda lag: lag.holes),
    }
    for name, (meaning, value) in lags.items():
        known = ((labels, facts.gauges.lags.get(group)) for group, labels in groups.items())
        samples = ((labels, value(lag)) for labels, lag in known if lag is not None)
        yield from _gauge(f"queuegate_group_{name}", meaning, samples)
    for state in ("ready", "in_flight"):
        meaning = f"Messages in the queue of a consumer group: {state}; bounded."
        counts = ((labels, facts.surveys.get(group, Survey(None)).census) for group, labels in groups.items())
        samples = ((labels, getattr(census, state)) for labels, census in counts if census is not None)
        yield from _gauge(f"queuegate_group_{state}", meaning, samples)
    members = (
        (f'{groups[status.name]},worker="{report.worker}"', status.subscribers)
        for report in facts.reports
        for status in report.queues
        if status.name in groups
    )
    yield from _gauge("queuegate_group_members", "Open streams of a consumer group.", members)


def _of_group(group: QueueSpec) -> str:
    options = group.options
    return labels_text(database=group.name.database, topic=options.topic or "", group=options.consumer_group or "")


def _statuses(reports: Iterable[WorkerReport]) -> Iterator[tuple[str, QueueStatus]]:
    """What each worker says of each queue, with the labels of that."""
    for report in reports:
        for status in report.queues:
            yield f'{_of_queue(status.name)},worker="{report.worker}"', status


def _queue_metrics(reports: Sequence[WorkerReport]) -> Iterator[str]:
    for name in QueueMetrics().snapshot():
        counts = ((labels, status.counters.get(name, 0)) for labels, status in _statuses(reports))
        yield from _counter(f"queuegate_queue_{name}", _MEANINGS.get(name, name), counts)
    for name, meaning in (
        ("subscribers", "Open streams on the queue."),
        ("receivers", "Connections that have a stream, a message or had a result lately."),
        ("cached", "Waiting messages known in memory."),
        ("alarms", "Messages leased for longer than alarm_after."),
    ):
        values = ((labels, getattr(status, name)) for labels, status in _statuses(reports))
        yield from _gauge(f"queuegate_queue_{name}", meaning, values)


def _delays(reports: Iterable[WorkerReport]) -> Iterator[str]:
    name = "queuegate_queue_delivery_delay_seconds"
    meaning = "Of first deliveries: from when the message fell due until it was leased, by the database's clock."
    yield _head(name, "histogram", meaning)
    for labels, status in _statuses(reports):
        total = 0
        for bound, count in zip(DELAY_BUCKETS, status.delays, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}\n'
        yield _line(f"{name}_count", labels, total)
        yield _line(f"{name}_sum", labels, status.delay_seconds)


# The page at /counters: the queues' counters, from memory alone, for clients that poll every few seconds.
#
# It has the format of the page at /metrics, and covers all processes that serve this database: the workers of this
# proxy, and the other proxies. Each process counts for itself, from its start on, so each line names its process. No
# table is read, and a queue that has counted nothing has no line, so 10,000 queues idle cost nothing. Of the delays
# of deliveries a bucket that holds no more than the one before it has none either.

COUNTERS = ("enqueued", "sent", "acked", "redelivered", "expired")


def counter_lines(counts: Iterable[ProcessCounts], missing: int = 0, *, finds_others: bool = True) -> Iterator[str]:
    """The page, line by line. `missing`: processes whose counts are not known. `finds_others`: whether other proxies of
    the database would be known at all."""
    yield f"queuegate_processes_missing {missing}\n"
    yield f"queuegate_finds_other_proxies {int(finds_others)}\n"
    for each in counts:
        process = labels_text(process=each.process)
        yield f"queuegate_process_seconds{{{process}}} {each.seconds:.3f}\n"
        for status in each.queues:
            labels = f"{_of_queue(status.name)},{process}"
            counted = [(name, status.counters.get(name, 0)) for name in COUNTERS]
            if any(value for _, value in counted):
                yield from (f"queuegate_queue_{name}_total{{{labels}}} {value}\n" for name, value in counted)
            for bound, count, upto in zip(DELAY_BUCKETS, status.delays, accumulate(status.delays), strict=False):
                if count:
                    yield f'queuegate_queue_delivery_delay_seconds_bucket{{{labels},le="{bound}"}} {upto}\n'
