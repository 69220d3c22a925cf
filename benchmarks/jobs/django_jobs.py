"""The jobs of Django's task backends; `django_jobs produce COUNT PAUSE` enqueues. Run by the Python that has Django."""

from __future__ import annotations

import django
from django.tasks import task

from benchmarks import marks
from benchmarks.jobs.producer import produce


@task
def nothing() -> None:
    """Done."""
    marks.done()


@task
def lone(sent: float) -> None:
    """How long since it was enqueued."""
    marks.took(sent)


if __name__ == "__main__":
    django.setup()
    from benchmarks.jobs import django_jobs  # by the name under which workers import it

    produce(lambda sent: django_jobs.nothing.enqueue() if sent is None else django_jobs.lone.enqueue(sent))
