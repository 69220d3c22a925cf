"""The jobs of Django's task backends. Run by the Python that has Django, once it is set up."""

from __future__ import annotations

from django.tasks import task

from benchmarks import marks


@task
def nothing() -> None:
    """Done."""
    marks.done()


@task
def lone(sent: float) -> None:
    """How long since it was enqueued."""
    marks.took(sent)
