"""What jobs have to reach beside what teams on MySQL take, and whether this run did. Ratios are within a repeat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.harness import Outcome
from benchmarks.measure import MEDIAN
from benchmarks.targets import Target

JOBS = "jobs"
DRAINED, ENQUEUED = "drained jobs/s", "enqueued jobs/s"
MARIADB, EMBEDDED = "queuegate's worker, MariaDB", "queuegate's worker, embedded"
BY_HAND = "SKIP LOCKED by hand, polled every 0.1 s"
DB_SCHEDULER, DB_SCHEDULER_TUNED = "db-scheduler, MariaDB, every 10 s", "db-scheduler, lock-and-fetch every 0.1 s"
DJ_QUEUE, DJANGO_TASKS_DB = "dj-queue, MariaDB", "django-tasks-db, MariaDB"
CELERY_RABBITMQ, CELERY_REDIS, CELERY_QUEUEGATE = "Celery, RabbitMQ", "Celery, Redis", "Celery, queuegate, MariaDB"


def job_targets(outcomes: Mapping[str, Outcome]) -> Iterator[Target]:
    """What is to be reached beside what teams take, where it was measured."""
    outcome = outcomes.get(JOBS)
    if outcome is None:
        return
    for theirs in (DJ_QUEUE, DJANGO_TASKS_DB):
        if (ratio := outcome.ratio(MARIADB, theirs)) is not None:
            yield Target(f"{MARIADB}, {DRAINED}", f">= 5 x {theirs}", f"{ratio:.1f}", ratio >= 5)
        if (ratio := outcome.ratio(theirs, MARIADB, MEDIAN)) is not None:
            yield Target(f"{MARIADB}, {MEDIAN}", f"<= 1/10 of {theirs}", f"1/{ratio:.0f}", ratio >= 10)
    for ours in (MARIADB, CELERY_QUEUEGATE):
        if (ratio := outcome.ratio(ours, CELERY_RABBITMQ)) is not None:
            yield Target(f"{ours}, {DRAINED}", f">= 1.0 x {CELERY_RABBITMQ}", f"{ratio:.2f}", ratio >= 1)
