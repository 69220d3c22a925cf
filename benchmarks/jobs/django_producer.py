"""`django_producer COUNT PAUSE` enqueues jobs with Django's task backend. Run by the Python that has Django."""

from __future__ import annotations

import django

from benchmarks.jobs.producer import produce


def main() -> None:
    """See the module."""
    django.setup()
    from benchmarks.jobs.django_jobs import lone, nothing  # a task needs the settings

    produce(lambda sent: nothing.enqueue() if sent is None else lone.enqueue(sent))


if __name__ == "__main__":
    main()
